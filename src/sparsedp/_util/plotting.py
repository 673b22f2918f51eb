"""Figures, if matplotlib is there."""

from __future__ import annotations

from typing import Any

from ..errors import MissingDependencyError


def figure_class() -> Any:
    """The class of matplotlib's figures, which need no display; or `MissingDependencyError`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError("plots need matplotlib: pip install 'sparsedp[plot]'") from None
    return Figure


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure of this size in inches, and its axes."""
    figure = figure_class()(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()
