"""Pictures of estimates with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._util.plotting import Path, as_label, finished, new_figure
from ..errors import ParameterError

Floats = npt.NDArray[np.float64]

MOST_LINES = 8
MOST_DOTS = 60


def check_number(names: Sequence[object], most: int) -> None:
    """`ParameterError` for no keys, or for more than a picture can show."""
    if not 0 < len(names) <= most:
        raise ParameterError(f"keys to plot must be 1 to {most}, got {len(names)}")


def dots(
    names: Sequence[object], estimates: Floats, low: Floats, high: Floats, confidence: float, path: Path | None
) -> Any:
    """A row for each key, from top to bottom: a dot for its estimate on the line of its interval."""
    check_number(names, MOST_DOTS)
    figure, axes = new_figure(7, 1.1 + 0.28 * len(names))
    rows = np.arange(len(names))
    # A bound that is infinite is drawn to the end of the picture.
    finite = np.concatenate([estimates, *(own[np.isfinite(own)] for own in (low, high)), [0.0]])
    room = 0.05 * max(float(np.ptp(finite)), 1.0)
    ends = float(finite.min()) - room * bool(finite.min() < 0 or np.isinf(low).any()), float(finite.max()) + room
    axes.hlines(rows, np.maximum(low, ends[0]), np.minimum(high, ends[1]), linewidth=5, alpha=0.3)
    axes.plot(estimates, rows, "o", markersize=5, clip_on=False)
    axes.set(xlim=ends, ylim=(len(names) - 0.5, -0.5), xlabel="count")
    axes.set_yticks(rows, [as_label(name) for name in names])
    axes.set_title(_title(confidence))
    axes.grid(axis="x", alpha=0.3)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.10g}")
    return finished(figure, path)


def lines(
    at: Sequence[Any],
    names: Sequence[object],
    estimates: Floats,
    low: Floats,
    high: Floats,
    confidence: float,
    path: Path | None,
) -> Any:
    """A line for each key with the band of its intervals; arrays have a row for each place `at`."""
    check_number(names, MOST_LINES)
    figure, axes = new_figure(8, 4.2)
    drawn: dict[str, Any] = {}
    for name, own, bottom, top in zip(names, estimates.T, low.T, high.T, strict=True):
        (line,) = axes.plot(at, own, marker="o", markersize=3, linewidth=1.6)
        drawn[as_label(name)] = line
        axes.fill_between(at, bottom, top, alpha=0.18, color=line.get_color(), linewidth=0)
    axes.set_ylabel("count")
    axes.set_title(_title(confidence))
    axes.grid(alpha=0.3)
    axes.legend(drawn.values(), drawn.keys())  # by themselves, matplotlib hides names with a leading _
    figure.autofmt_xdate()
    return finished(figure, path)


def _title(confidence: float) -> str:
    return f"Estimates with {100 * confidence:.4g} % intervals"
