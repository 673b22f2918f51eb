"""Error against true value: a plan beside the paper's mechanism, thresholding alone, and dense
noise.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._util.plotting import new_figure
from ..errors import ParameterError
from ..mechanisms import Plan, create_plan
from ..mechanisms.laplace import LaplacePlan

_POINTS = 24


@dataclass(frozen=True)
class ErrorCurves:
    """Predicted mean absolute errors at some true values; print it, or `plot` it into a file."""

    values: tuple[float, ...]
    errors: dict[str, tuple[float, ...]]

    def __str__(self) -> str:
        width = max(map(len, self.errors))
        lines = [f"{'true value':>10}  " + "  ".join(name.rjust(width) for name in self.errors)]
        for i, value in enumerate(self.values):
            lines.append(f"{value:>10g}  " + "  ".join(f"{curve[i]:{width}.2f}" for curve in self.errors.values()))
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the curves into an image file (PNG, SVG or PDF, by its extension)."""
        figure, axes = new_figure(7, 4.2)
        for (name, curve), style in zip(self.errors.items(), ("-", "--", "-.", ":"), strict=False):
            shown = [error or float("nan") for error in curve]  # a logarithmic axis has no zero
            axes.plot(self.values, shown, style, linewidth=2, label=name)
        axes.set_xlabel("true value")
        axes.set_ylabel("mean absolute error")
        axes.set_xlim(0, self.values[-1])
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        axes.grid(alpha=0.3)
        axes.legend()
        figure.savefig(path, dpi=150)


def error_curves(plan: Plan, values: Sequence[float] | None = None) -> ErrorCurves:
    """The predicted error of the plan, of `threshold-alp`, of `threshold` and of dense noise, at
    the given values.

    By default the values go from 0 to sixty noise scales, or to `upper`.
    """
    problem = replace(plan.problem, total=None, delta=0.0)
    plans = {plan.mechanism: plan}
    for name in ("threshold-alp", "threshold"):
        try:
            plans.setdefault(name, create_plan(name, Plan.reason, problem, {}))
        except ParameterError:
            continue  # not possible for these parameters, as `compare` explains
    # Dense noise is the limit even if a counter for every key could not be stored.
    plans["dense noise"] = LaplacePlan.create(replace(problem, domain=1))
    if values is None:
        top = plan.problem.upper_cells or math.ceil(60 / plan.problem.rate())
        cells = np.unique(np.linspace(0, top, _POINTS).round())
        values = (cells * float(plan.problem.neighbours.step)).tolist()
    chosen = tuple(float(value) for value in values)
    errors = {name: tuple(p.error(value).mean_absolute for value in chosen) for name, p in plans.items()}
    return ErrorCurves(chosen, errors)
