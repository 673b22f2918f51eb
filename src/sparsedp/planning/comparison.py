"""Every mechanism side by side: the paper's Table 1 in numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._util.plotting import Path
from ..errors import MissingDependencyError, ParameterError
from ..mechanisms import MECHANISMS, Plan, create_plan, drawing, notebook
from .choosing import on_its_grid, with_noise
from .request import Request

NOTES = """\
reads: memory words per lookup · mean error, maximum: bounds on expectations, for the worst true value
1 % exceed: guaranteed tail bound · at v: predicted mean absolute error at true value v"""
HTML_NOTES = """\
reads: memory words per lookup · mean error, maximum: bounds on expectations, for the worst true value · 1 % exceed: \
guaranteed tail bound · print it for the predicted errors, which take a few seconds"""


@dataclass(frozen=True)
class ComparisonRow:
    """One mechanism in the comparison: its plan, or why it cannot be used."""

    mechanism: str
    plan: Plan | None
    refusal: str = ""


@dataclass(frozen=True)
class Comparison:
    """The paper's Table 1 in numbers for the caller's parameters; print it, or read `rows`."""

    rows: tuple[ComparisonRow, ...]

    HEADER = ("mechanism", "ε", "δ", "bits/key", "size", "reads", "mean error ≤", "1 % exceed", "maximum ≤")
    FAILURE = 0.01
    VALUES = (0.0, 1.0, 10.0, 100.0)
    POINTS = 12  # of each line of a plot

    def __iter__(self) -> Iterator[ComparisonRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, mechanism: object) -> bool:
        return any(mechanism in (row, row.mechanism) for row in self.rows)

    def __getitem__(self, mechanism: str) -> ComparisonRow:
        for row in self.rows:
            if row.mechanism == mechanism:
                return row
        raise KeyError(mechanism)

    def __str__(self) -> str:
        header = [*self.HEADER, *(f"at {value:g}" for value in self.VALUES)]
        cells = {row.mechanism: self._cells(row) + self._predictions(row) for row in self.rows if row.plan is not None}
        possible = [header, *cells.values()]
        widths = [max(len(line[i]) for line in possible) for i in range(len(header))]
        widths[0] = max(len(row.mechanism) for row in self.rows)
        text = [_align(header, widths)]
        for row in self.rows:
            refused = f"{row.mechanism.ljust(widths[0])}  {row.refusal}"
            text.append(refused if row.plan is None else _align(cells[row.mechanism], widths))
        return "\n".join([*text, "", NOTES])

    def _cells(self, row: ComparisonRow) -> list[str]:
        assert row.plan is not None
        p = row.plan
        cells = [row.mechanism, f"{p.epsilon:.4g}", f"{p.delta:.2g}", _number(p.bits_per_entry), _bytes(p.nbytes)]
        cells += [f"{p.access}", _number(p.expected_error), _number(p.error_with_probability(self.FAILURE))]
        return [*cells, _number(p.maximum_error)]

    def _predictions(self, row: ComparisonRow) -> list[str]:
        """Simulated errors, which take seconds."""
        assert row.plan is not None
        return [f"{row.plan.error(value).mean_absolute:.2f}" for value in self.VALUES]

    def plot(self, path: Path | None = None, values: Sequence[float] | None = None) -> Any:
        """The predicted mean absolute error of every mechanism against the true value, as a figure of
        matplotlib that notebooks show. It takes some seconds.

        With a path it is also written there (PNG, SVG or PDF, by the extension).
        """
        plans = {row.mechanism: row.plan for row in self.rows if row.plan is not None}
        if not plans:
            raise ParameterError("there is no mechanism to plot: none is possible for these parameters")
        smallest = min(plans.values(), key=lambda plan: plan.noise_scale_cells)
        shown = drawing.values_to_show(smallest, self.POINTS) if values is None else drawing.numbers(values)
        curves = {name: [plan.error(value).mean_absolute for value in shown] for name, plan in plans.items()}
        return drawing.of_curves(shown, curves, path)

    def _repr_html_(self) -> str:
        rows = [row.refusal if row.plan is None else self._cells(row)[1:] for row in self.rows]
        return notebook.grid(list(self.HEADER), [row.mechanism for row in self.rows], rows, note=HTML_NOTES)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # of IPython: plans are long
        printer.text(f"<Comparison of {len(self)} mechanisms; print it>")


def compare(
    epsilon: float,
    delta: float = 0.0,
    *,
    nonzero: int,
    domain: int | None = None,
    upper: float | None = None,
    total: float | None = None,
    sensitivity: float | None = None,
    step: float | None = None,
    signed: bool = False,
    noise: str = "auto",
    max_keys_per_user: int | None = None,
    max_per_key: float | None = None,
) -> Comparison:
    """Compare all mechanisms for the same public parameters: space, access, expected error and tail
    error.

    Parameters are those of `release`.
    """
    return make_comparison(Request.of(locals()))


def make_comparison(request: Request) -> Comparison:
    """Compare all mechanisms for one request."""
    problem, rows = request.problem, []
    for name, mechanism in MECHANISMS.items():
        variants = [(name, problem)]
        if mechanism.pure and mechanism.approximate and problem.delta > 0:
            variants = [(name, replace(problem, delta=0.0)), (f"{name}, δ > 0", problem)]
        for label, variant in variants:
            try:
                own = on_its_grid(with_noise(variant, mechanism, request.noise)[0], mechanism)
                plan = create_plan(name, Plan.reason, own, {})
                label = f"{label}, gaussian noise" if own.gaussian else label
                rows.append(ComparisonRow(label, plan))
            except (ParameterError, MissingDependencyError) as error:
                rows.append(ComparisonRow(label, None, f"not possible: {error}"))
    return Comparison(tuple(rows))


def _align(cells: list[str], widths: list[int]) -> str:
    first, *rest = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join([cells[0].ljust(len(first)), *rest])


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return "∞" if math.isinf(value) else f"{value:.4g}"


def _bytes(count: int | None) -> str:
    if count is None:
        return "–"
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
