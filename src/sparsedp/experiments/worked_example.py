"""Figures 1 and 2: one key of height 5 in an array of m = 8 levels and s = 5 rows, with one of its
bits flipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _native
from ..keys.hashing import draw_row_functions
from ..privacy.randomness import ReproducibleRandomness
from ..structures.embedding import Columns, dyadic_flip_probability
from .sections import Check, Drawn, Section
from .study import Study

ROWS, LEVELS, HEIGHT, FLIPPED = 5, 8, 5, 3
_KEY = np.array([7], np.uint64)


def run(study: Study) -> Section:
    """The example, computed by the kernels of the package."""
    columns = Columns(ROWS, LEVELS, dyadic_flip_probability(3.0))
    functions = draw_row_functions(ReproducibleRandomness(study.seed), LEVELS)
    array = np.zeros(LEVELS, np.uint64)
    _native.embed_columns(array, functions, ROWS, _KEY, np.array([HEIGHT], np.uint64))
    rows = [int(_native.rows_of(functions, ROWS, level, _KEY)[0]) for level in range(LEVELS)]
    exact = _matrix(array)
    array[FLIPPED] ^= np.uint64(1 << rows[FLIPPED])  # one of the key's bits
    array[6] ^= np.uint64(1 << (rows[6] + 1) % ROWS)  # and a bit of no key
    noisy = _matrix(array)
    own = [int(noisy[row, level]) for level, row in enumerate(rows)]
    sums = np.concatenate([[0], np.cumsum(2 * np.array(own) - 1)]).tolist()
    maximisers = [n for n, height in enumerate(sums) if height == max(sums)]
    estimate = float(columns.estimate(array, functions, _KEY)[0])
    data = {
        "rows": rows,
        "exact": exact.tolist(),
        "noisy": noisy.tolist(),
        "sums": sums,
        "maximisers": maximisers,
        "estimate": estimate,
    }
    return Section(
        "worked-example",
        "Figures 1 and 2: how a count is stored and read",
        "A count of height 5 sets the first five of its bits, one in each level; every bit is then flipped with a "
        "small probability. "
        "The estimate is the average of all n at which (ones − zeros) among the first n bits is largest.",
        data,
        figures=[
            Drawn(
                "figure-1",
                "One flipped bit: the fourth of the key's bits reads 0 instead of 1.",
                lambda f: _array(f, data),
                (7, 3.0),
            ),
            Drawn(
                "figure-2", "The walk is highest at 3 and 5, so the estimate is 4.", lambda f: _walk(f, data), (7, 3.0)
            ),
        ],
        checks=[
            Check("first maximiser", 3, maximisers[0], 0),
            Check("last maximiser", 5, maximisers[-1], 0),
            Check("estimate", 4, estimate, 0),
        ],
    )


def _matrix(array: np.ndarray) -> np.ndarray:
    return np.array([[int(word) >> row & 1 for word in array] for row in range(ROWS)])


def _array(figure: Any, data: Any) -> None:
    for axes, name in zip(figure.subplots(1, 2), ("exact", "noisy"), strict=True):
        matrix = np.array(data[name])
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=2)
        for row in range(ROWS):
            for level in range(LEVELS):
                axes.text(level, row, matrix[row, level], ha="center", va="center", color="black")
        for level, row in enumerate(data["rows"]):
            changed = data["exact"][row][level] != data["noisy"][row][level]
            colour = "C1" if name == "noisy" and changed else "C0"
            axes.add_patch(_square(level, row, colour))
        axes.grid(visible=False)
        axes.set_title("the key's bits" if name == "exact" else "after the flips")
        axes.set_xticks(range(LEVELS), range(1, LEVELS + 1))
        axes.set_yticks([])
        axes.set_xlabel("level")


def _square(level: int, row: int, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((level - 0.45, row - 0.45), 0.9, 0.9, fill=False, linewidth=2.5, edgecolor=colour)


def _walk(figure: Any, data: Any) -> None:
    axes = figure.subplots()
    sums = data["sums"]
    axes.plot(range(len(sums)), sums, "o-")
    for n in data["maximisers"]:
        axes.plot(n, sums[n], "o", color="C1", markersize=10)
    axes.axvline(data["estimate"], color="C1", linestyle="--")
    axes.annotate("estimate", (data["estimate"], 0.2), xytext=(6, 0), textcoords="offset points", color="C1")
    axes.set_xlabel("n")
    axes.set_ylabel("ones − zeros in the first n bits")
    axes.set_yticks(range(max(sums) + 1))
