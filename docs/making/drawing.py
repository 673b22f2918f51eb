"""How figures look: two palettes, one type size, and a width that a phone can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

WIDTH = 5.2  # inches: 11 points are still legible when a phone shows this on 2.5 inches
TEXT = 11

SETTINGS: dict[str, Any] = {
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "legend.fontsize": TEXT - 1,
    "xtick.labelsize": TEXT - 1,
    "ytick.labelsize": TEXT - 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "lines.linewidth": 2,
    "svg.hashsalt": "sparsedp",  # the same file each time
    "svg.fonttype": "path",  # the same letters everywhere
}


@dataclass(frozen=True)
class Palette:
    """The colours of a figure: for light pages, on white, or for dark ones, on whatever is there."""

    ink: str
    muted: str
    faint: str
    paper: str
    ours: str  # what sparsedp publishes
    other: str
    third: str
    limit: str

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of matplotlib for this palette."""
        ink = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), self.ink)
        return {**SETTINGS, **ink, "grid.color": self.faint, "axes.facecolor": "none"}


LIGHT = Palette("#1f2933", "#5c6773", "#dde2e8", "#ffffff", "#00796b", "#d9480f", "#5f3dc4", "#5c6773")
DARK = Palette("#e6e9ef", "#a9b3c1", "#454b5a", "none", "#4dd0c0", "#ffa94d", "#b9a5ff", "#a9b3c1")


def axes_of(height: float, palette: Palette, rows: int = 1, **more: Any) -> tuple[Figure, Any]:
    """A figure of the usual width, and its axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor=palette.paper)
    return figure, figure.subplots(rows, **more)


def canvas(height: float, palette: Palette) -> tuple[Figure, Any]:
    """A figure to draw boxes on, in units of a tenth of its width, from the lower left."""
    figure = Figure(figsize=(WIDTH, height), facecolor=palette.paper)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, 10), ylim=(0, 10 * height / WIDTH))
    axes.set_axis_off()
    return figure, axes


def box(axes: Any, x: float, y: float, width: float, height: float, text: str, **style: Any) -> None:
    """A box with rounded corners and text in its middle."""
    colour, ink = style.get("edge", "none"), style["ink"]
    shape = FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.12", facecolor=style.get("face", "none"),
        edgecolor=colour, linewidth=1.5,
    )  # fmt: skip
    axes.add_patch(shape)
    axes.text(
        x + width / 2, y + height / 2, text, ha="center", va="center", color=ink, fontsize=style.get("size", TEXT)
    )


def cell(axes: Any, x: float, y: float, side: tuple[float, float], text: str, **style: Any) -> None:
    """One cell of an array."""
    face, edge, ink = style.get("face", "none"), style["edge"], style["ink"]
    axes.add_patch(Rectangle((x, y), *side, facecolor=face, edgecolor=edge, linewidth=1))
    weight = style.get("weight", "normal")
    axes.text(
        x + side[0] / 2, y + side[1] / 2, text, ha="center", va="center", color=ink, weight=weight, fontsize=TEXT - 1
    )


def arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    """An arrow from one point to another."""
    axes.annotate(
        "",
        xy=end,
        xytext=start,
        arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.5, "shrinkA": 0, "shrinkB": 0},
    )
