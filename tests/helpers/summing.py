"""Ids and values on the grid, without a release."""

from __future__ import annotations

from fractions import Fraction

from sparsedp.privacy.neighbours import Neighbours
from sparsedp.privacy.randomness import Randomness, Words
from sparsedp.releasing.cells import Sums
from sparsedp.releasing.inputs import Pairs
from sparsedp.structures.table import Counts


def to_cells(ids: Words, pairs: Pairs, neighbours: Neighbours, randomness: Randomness) -> tuple[Words, Counts]:
    """Distinct ids, ascending, with the sum of their values on the grid."""
    sums = Sums.of(ids, pairs.values, pairs.unit)
    return sums.ids, sums.counts(neighbours, randomness)


def cut(ids: Words, counts: Counts, upper: int | None) -> tuple[Words, Counts]:
    """The counts cut to ±upper, without zeros; the input arrays are overwritten."""
    cells = Sums(ids, counts, None, Fraction(1)).cells(counts, upper)
    return cells.ids, cells.counts
