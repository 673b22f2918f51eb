"""Figures as files: SVG in a light and a dark version, and PNG."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ..errors import MissingDependencyError
from .sections import Drawn

# Ten colours that colour-blind readers can distinguish, on white and on black (after Okabe and Ito,
# and Tol).
COLOURS = ("#0077bb", "#ee7733", "#999999", "#cc3311", "#aa7ac4", "#009988", "#ddaa33", "#ee3377", "#33bbee", "#776655")
THEMES = {"light": ("#1a1a1a", "#ffffff", "#d8d8d8"), "dark": ("#e6e6e6", "#15181c", "#3a3f45")}


def check_drawing() -> None:
    """`MissingDependencyError` if figures cannot be drawn."""
    _themed("light")


def svg(drawn: Drawn, theme: str) -> bytes:
    """The figure as SVG, with a transparent background."""
    file = io.BytesIO()
    with _themed(theme):
        _figure(drawn).savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return file.getvalue()


def write_png(drawn: Drawn, path: Path) -> None:
    """The figure as PNG, on white."""
    with _themed("light"):
        _figure(drawn).savefig(path, dpi=150, metadata={"Software": None})


def _figure(drawn: Drawn) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=drawn.size, layout="constrained")
    drawn.draw(figure)
    return figure


def _themed(theme: str) -> Any:
    try:
        from cycler import cycler
        from matplotlib import rc_context
    except ImportError:
        raise MissingDependencyError("figures need matplotlib: pip install 'sparsedp[plot]'") from None
    ink, paper, grid = THEMES[theme]
    return rc_context(
        {
            "axes.prop_cycle": cycler(color=COLOURS),
            "axes.edgecolor": ink,
            "axes.labelcolor": ink,
            "axes.titlecolor": ink,
            "axes.facecolor": paper,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.facecolor": paper,
            "grid.color": grid,
            "grid.linewidth": 0.6,
            "legend.facecolor": paper,
            "legend.edgecolor": grid,
            "legend.labelcolor": ink,
            "text.color": ink,
            "xtick.color": ink,
            "ytick.color": ink,
            "font.size": 10,
            "lines.linewidth": 1.8,
            "svg.hashsalt": "sparsedp",
        }
    )
