"""χ² tests at a level that a correct program fails less than once in 10⁶ runs (and never with a
fixed seed).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

LEVEL = 1e-6


def chi_square_tail(seen: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64], freedom: int) -> float:
    """How likely counts are to differ from expected counts as much as this, or more."""
    # Not scipy.stats, of which nothing else is needed: importing it takes more than a second.
    return float(chdtrc(freedom, ((seen - wanted) ** 2 / wanted).sum())) if freedom else 1.0


def chi_square_p(observed: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """The p-value of counts against expected counts; cells that expect fewer than 10 are pooled."""
    seen, wanted = np.asarray(observed, float), np.asarray(expected, float)
    small = wanted < 10
    seen = np.append(seen[~small], seen[small].sum())
    wanted = np.append(wanted[~small], wanted[small].sum())
    if wanted[-1] < 10:  # too little even together: join the last real cell
        seen = np.append(seen[:-2], seen[-2:].sum())
        wanted = np.append(wanted[:-2], wanted[-2:].sum())
    assert abs(seen.sum() - wanted.sum()) < 1e-6 * wanted.sum()
    return chi_square_tail(seen, wanted, len(wanted) - 1)


def same_law_p(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """The p-value that two histograms over the same cells come from one law."""
    table = np.array([first, second], float)
    total = table.sum(0)
    small = total < 20
    pooled = np.column_stack([table[:, ~small], table[:, small].sum(1)])
    pooled = pooled[:, pooled.sum(0) > 0]
    wanted = np.outer(pooled.sum(1), pooled.sum(0)) / pooled.sum()
    return chi_square_tail(pooled, wanted, pooled.shape[1] - 1)


def histogram(draws: npt.ArrayLike, cells: Iterable[int]) -> npt.NDArray[np.int64]:
    """How often each cell was drawn, with everything else in one last cell."""
    values = np.asarray(draws)
    counts = [int((values == cell).sum()) for cell in cells]
    return np.array([*counts, len(values) - sum(counts)])


def expected(probability: Callable[[int], float], cells: Iterable[int], draws: int) -> npt.NDArray[np.float64]:
    """Expected counts of the same cells."""
    chances = [float(probability(cell)) for cell in cells]
    return draws * np.array([*chances, max(0.0, 1 - sum(chances))])
