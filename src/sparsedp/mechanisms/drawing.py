"""Pictures of predicted errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._util.plotting import Path, finished, new_figure
from ..errors import ParameterError
from ..privacy.numbers import check_number
from .predictions import QUANTILES

if TYPE_CHECKING:
    from . import Plan

POINTS = 24
_SCALES = 20  # of noise: from there on, errors hardly change


def values_to_show(plan: Plan, points: int = POINTS) -> list[float]:
    """True values from 0 to where errors hardly change, or to `upper`; more of them at the
    beginning.
    """
    top = plan.problem.upper_cells or math.ceil(_SCALES * plan.noise_scale_cells)
    cells = np.unique((top * np.linspace(0, 1, points) ** 2).round())
    shown: list[float] = (cells * float(plan.problem.neighbours.step)).tolist()
    return shown


def numbers(values: Sequence[float]) -> list[float]:
    """The true values that a caller asks for, or `ParameterError`."""
    try:
        listed = list(values)
    except TypeError:
        raise ParameterError(f"values must be a list of numbers, got {values!r:.250}") from None
    if not listed:
        raise ParameterError("values must be at least one number, got none")
    return [check_number("value", value) for value in listed]


def _check_axis(values: Sequence[float]) -> None:
    if len(set(values)) < 2:
        raise ParameterError(f"values to plot must be at least two different numbers, got {list(values)}")


def of_plan(plan: Plan, path: Path | None, values: Sequence[float] | None) -> Any:
    """The predicted error of a plan against the true value: its mean size, and where errors are."""
    figure, axes = new_figure(7, 4.2)
    shown = values_to_show(plan) if values is None else numbers(values)
    _check_axis(shown)
    predicted = [plan.error(value) for value in shown]
    (line,) = axes.plot(shown, [own.mean_absolute for own in predicted], linewidth=2, label="mean absolute error")
    for inner, (words, alpha) in enumerate((("5 % to 95 % of errors", 0.13), ("25 % to 75 % of errors", 0.3))):
        low, high = ([own.quantiles[end] for own in predicted] for end in (QUANTILES[inner], QUANTILES[-1 - inner]))
        axes.fill_between(shown, low, high, alpha=alpha, color=line.get_color(), linewidth=0, label=words)
    axes.axhline(0, color="0.5", linewidth=0.8)
    axes.set(xlabel="true value", ylabel="predicted error", xlim=(shown[0], shown[-1]))
    axes.set_title(f"{plan.mechanism}, ε = {plan.epsilon:.4g}, δ = {plan.delta:.3g}")
    axes.grid(alpha=0.3)
    axes.legend()
    return finished(figure, path)


def of_curves(values: Sequence[float], curves: Mapping[str, Sequence[float]], path: Path | None) -> Any:
    """Mean absolute errors against the true value, one line for each name."""
    _check_axis(values)
    styles = ("-", "--", "-.", ":")
    figure, axes = new_figure(7 if len(curves) <= len(styles) else 9, 4.2)
    for at, (name, curve) in enumerate(curves.items()):
        shown = [error or float("nan") for error in curve]  # a logarithmic axis has no zero
        axes.plot(values, shown, styles[at % len(styles)], linewidth=2, label=name)
    axes.set(xlabel="true value", ylabel="mean absolute error", xlim=(values[0], values[-1]), yscale="log")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.grid(alpha=0.3)
    if len(curves) <= len(styles):
        axes.legend()
    else:  # it would hide some of the lines
        figure.legend(loc="outside right upper")
    return finished(figure, path)
