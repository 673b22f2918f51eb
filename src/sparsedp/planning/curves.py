"""Error against true value: a plan beside the paper's mechanism, thresholding alone, and dense
noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._util.plotting import Path
from ..errors import ParameterError
from ..mechanisms import Plan, create_plan, drawing, notebook
from ..mechanisms.laplace import LaplacePlan


@dataclass(frozen=True)
class ErrorCurves:
    """Predicted mean absolute errors at some true values; print it, or `plot` it."""

    values: tuple[float, ...]
    errors: dict[str, tuple[float, ...]]

    def __str__(self) -> str:
        width = max(map(len, self.errors))
        lines = [f"{'true value':>10}  " + "  ".join(name.rjust(width) for name in self.errors)]
        for i, value in enumerate(self.values):
            lines.append(f"{value:>10g}  " + "  ".join(f"{curve[i]:{width}.2f}" for curve in self.errors.values()))
        return "\n".join(lines)

    def plot(self, path: Path | None = None) -> Any:
        """The curves as a figure of matplotlib, which notebooks show.

        With a path it is also written there (PNG, SVG or PDF, by the extension).
        """
        return drawing.of_curves(self.values, self.errors, path)

    def _repr_html_(self) -> str:
        rows: list[list[str] | str] = [
            [f"{curve[at]:.2f}" for curve in self.errors.values()] for at in range(len(self.values))
        ]
        names = [f"{value:g}" for value in self.values]
        return notebook.grid(["true value", *self.errors], names, rows, note="Predicted mean absolute errors")


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
        cells = np.unique(np.linspace(0, top, drawing.POINTS).round())
        values = (cells * float(plan.problem.neighbours.step)).tolist()
    chosen = tuple(drawing.numbers(values))
    errors = {name: tuple(p.error(value).mean_absolute for value in chosen) for name, p in plans.items()}
    return ErrorCurves(chosen, errors)
