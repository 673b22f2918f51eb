"""Figures of the mechanisms that hide counts in bits and in a polynomial."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from .drawing import TEXT, Palette, arrow, axes_of, box, canvas, cell

LEVELS, ROWS, COUNT = 10, 6, 6
PATH = (2, 4, 0, 3, 5, 1, 2, 0, 4, 3)  # the row of the key at each level
OTHERS = {(0, 5), (0, 0), (1, 1), (2, 3), (3, 1)}  # (level, row) of other keys
FLIPPED = {(3, 3), (8, 4), (1, 3), (4, 0), (6, 5), (7, 2), (9, 1), (2, 3)}


def bits(palette: Palette) -> Figure:
    """A count in unary, in hashed rows, with bits flipped."""
    figure, axes = canvas(4.2, palette)
    width, height, left, bottom = 0.78, 0.62, 1.55, 1.5
    read = ""
    for level in range(LEVELS):
        x = left + level * width
        axes.text(x + width / 2, bottom + ROWS * height + 0.22, str(level + 1), ha="center", color=palette.muted)
        for row in range(ROWS):
            own = PATH[level] == row
            bit = (own and level < COUNT) or (level, row) in OTHERS
            bit ^= (level, row) in FLIPPED
            if own:
                read += str(int(bit))
            y = bottom + (ROWS - 1 - row) * height
            flipped = (level, row) in FLIPPED
            ink = palette.other if flipped else palette.ink if own else palette.muted
            weight = "bold" if own or flipped else "normal"
            cell(axes, x, y, (width, height), str(int(bit)), edge=palette.faint, ink=ink, weight=weight)
    for level in range(LEVELS):  # the cells of the key, above the grid
        x, y = left + level * width, bottom + (ROWS - 1 - PATH[level]) * height
        cell(axes, x, y, (width, height), "", edge=palette.ours, ink=palette.ink)
        axes.patches[-1].set_linewidth(2.5)
    axes.text(0.15, bottom + ROWS * height + 0.22, "level", color=palette.muted)
    axes.text(0.15, bottom + ROWS * height / 2, "rows,\nby\nhash", va="center", color=palette.muted)
    top = bottom + ROWS * height
    shape = f"The cells of one key of count {COUNT}: ones up to its count, zeros above."
    answer = f"Read: {' '.join(read)}.  Where do the ones end? After level {best(read)}."
    axes.text(0.15, top + 1.6, shape, color=palette.ours)
    axes.text(0.15, top + 1.0, "Every bit may have been flipped (orange: those that were).", color=palette.other)
    axes.text(0.15, 0.75, answer, color=palette.ink)
    return figure


def best(read: str) -> int:
    """The level after which the bits fit ones and then zeros best."""
    scores = [
        sum(1 if (bit == "1") == (level < end) else -1 for level, bit in enumerate(read))
        for end in range(len(read) + 1)
    ]
    return int(np.argmax(scores))


KEYS, VALUES = (1, 3, 4, 7, 9), (2, 0, 3, 1, 2)  # keys that occur, and the noisy counts they must read as
BUCKETS = (0, 3.0, 5.0, 6.6, 8.0, 9.0)  # where the buckets of 0, 1, 2, 3 and 4 begin and end


def polynomial(palette: Palette) -> Figure:
    """A polynomial through prescribed buckets."""
    figure, axes = axes_of(3.5, palette)
    heights = [
        BUCKETS[v] + (BUCKETS[v + 1] - BUCKETS[v]) * share
        for v, share in zip(VALUES, (0.4, 0.7, 0.5, 0.3, 0.6), strict=True)
    ]
    fit = np.polynomial.Polynomial.fit(KEYS, heights, len(KEYS) - 1)
    x = np.linspace(0.4, 9.4, 300)
    axes.plot(x, np.mod(fit(x), BUCKETS[-1]), ".", markersize=1.5, color=palette.muted)
    absent = np.array([2, 5, 6, 8])
    axes.plot(
        KEYS, heights, "o", markersize=9, color=palette.ours, label="keys that occur: the noisy count was prescribed"
    )
    axes.plot(
        absent,
        np.mod(fit(absent), BUCKETS[-1]),
        "D",
        markersize=7,
        color=palette.other,
        label="absent keys: wherever the polynomial goes",
    )
    for v, (low, high) in enumerate(pairwise(BUCKETS)):
        axes.axhline(low, color=palette.faint, linewidth=1)
        axes.text(9.75, (low + high) / 2, f"reads {v}", va="center", color=palette.ink, fontsize=TEXT - 1)
    axes.set(xlim=(0.4, 10.8), ylim=(0, BUCKETS[-1]), xlabel="key", yticks=[], ylabel="elements of the field")
    axes.set_xticks(range(1, 10), [str(i) for i in range(1, 10)])
    figure.legend(loc="outside upper left")
    return figure


def two_stages(palette: Palette) -> Figure:
    """What `tight-alp` does with a count: the table, or the ladder."""
    figure, axes = canvas(2.9, palette)
    box(axes, 0.2, 2.2, 2.4, 1.2, "count\n+ noise", edge=palette.muted, ink=palette.ink)
    box(axes, 4.2, 3.6, 5.5, 1.3, "table: key and noisy count,\nwhole ε", edge=palette.ours, ink=palette.ink)
    box(
        axes,
        4.2,
        0.7,
        5.5,
        1.5,
        "a noisy symbol in the cell of\nthe key: the ε that\n“not stored” has left",
        edge=palette.other,
        ink=palette.ink,
        size=TEXT - 0.5,
    )
    arrow(axes, (2.6, 3.0), (4.2, 4.25), palette.ours)
    arrow(axes, (2.6, 2.6), (4.2, 1.45), palette.other)
    axes.text(3.2, 4.35, "≥ T", ha="center", color=palette.ours, weight="bold")
    axes.text(3.2, 1.2, "< T", ha="center", color=palette.other, weight="bold")
    return figure
