"""Words for what is promised and what is published."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING

from ..keys.kinds import columns_in_words
from .predictions import QUANTILES

if TYPE_CHECKING:
    from ..keys.hashing import KeySpace
    from . import Plan

LARGEST_WRITTEN = 30  # an ε whose factor is written out


def guarantee(plan: Plan) -> str:
    """The promise in words, without mathematics."""
    problem = plan.problem
    contribution = problem.contribution
    if contribution is None:
        units = f"{float(problem.neighbours.sensitivity):g}"
        who = f"Between two data sets whose counts differ by at most {units} in all,"
        what = "the probability of any outcome differs"
    else:
        who = "Whether any one row" if contribution.user is None and not contribution.stated else "Whether any one user"
        what = "is in the data or not changes the probability of any outcome"
    words = f"{who} {what} by at most a factor of {_factor(plan.epsilon)} (ε = {plan.epsilon:.6g})"
    if plan.delta:
        words += f", up to an extra probability of {_two_digits_up(plan.delta)} (δ)"
    words += "."
    if contribution is not None:
        words += f" This holds for {contribution}."
    if plan.assumption:
        words += f" It assumes that {plan.assumption}."
    return words


def _factor(epsilon: float) -> str:
    """e^ε, rounded up; for a large ε it says nothing, and may not fit a float."""
    return f"{math.ceil(math.exp(epsilon) * 100) / 100:,.2f}" if epsilon < LARGEST_WRITTEN else f"e^{epsilon:.6g}"


def _two_digits_up(probability: float) -> str:
    return f"{float(Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(probability))):.2g}"


def kind_of_keys(space: KeySpace, kept: bool) -> str:
    """Which keys a release answers for, and whether it names those that it stores."""
    if space.seed is None:
        return f"integers in [0, {space.domain})"
    kind = {"text": "text", "bytes": "bytes", "integer": "integers", None: "of unknown kind"}[space.kind]
    if space.columns:
        kind = columns_in_words(space.columns)
    return f"{kind}, hashed; stored keys are named" if kept else f"{kind}, hashed"


def summary(plan: Plan) -> str:
    """A plan in words, with predicted errors, which take a moment."""
    step = float(plan.problem.neighbours.step)
    size = "size unknown" if plan.nbytes is None else f"{plan.nbytes} bytes planned"
    if plan.bits_per_entry is not None:
        size += f", {plan.bits_per_entry:.4g} bits per key"
    lines = [
        f"{plan.mechanism} ({plan.reason})",
        f"  privacy  ε = {plan.epsilon:.6g}, δ = {plan.delta:.3g}, for {plan.problem.promise}",
        f"  space    {size}, {plan.access} memory reads per lookup",
    ]
    if plan.assumption is not None:
        lines.append(f"  assumes  {plan.assumption}")
    if plan.delta_parts:
        parts = ", ".join(f"{name} {part:.2g}" for name, part in plan.delta_parts.items())
        lines.append(f"  δ        {parts}")
    lines.append("  error    true value: mean absolute error (5 % to 95 % of errors)")
    scale = plan.noise_scale_cells * step
    for value in (0.0, scale, 5 * scale, 20 * scale, 100 * scale):
        shown = round(value / step) * step
        predicted = plan.error(shown)
        low, high = predicted.quantiles[QUANTILES[0]], predicted.quantiles[QUANTILES[-1]]
        lines.append(f"  {shown:>12g}: {predicted.mean_absolute:.3g} ({low:+.3g} to {high:+.3g})")
    return "\n".join(lines)
