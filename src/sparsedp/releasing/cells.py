"""Ids and checked values → distinct ids with integer counts on the grid: what a part of a release
is built from.

Equal ids are brought together once (`Sums`), rounded to the grid, cut to what is public, and split
by their signs (`Cells`). Keys that will be named if they are stored are never brought together by
their ids: a key may be named only because its own noisy count reached the threshold
(docs/privacy.md, "Kept keys"). This holds for keys, not for fingerprints: a rare key that shares
its fingerprint with a frequent one must stay unnamed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _native
from .._util.progress import task
from ..errors import InputError
from ..keys.hashing import aligned
from ..keys.kept import keep
from ..keys.rows import names_of
from ..mechanisms import Arrays, Built
from ..privacy.neighbours import Neighbours
from ..privacy.randomness import Randomness, Words, pieces
from ..structures.rounding import round_integers, round_sums_to_grid, round_to_grid
from ..structures.table import LARGEST_COUNT, Counts

if TYPE_CHECKING:
    from typing_extensions import Self

Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """Ids, ascending, and their counts on the grid, none of them zero."""

    ids: Words
    counts: Counts

    def __getitem__(self, which: slice | npt.NDArray[Any]) -> Self:
        return replace(self, ids=self.ids[which], counts=self.counts[which])

    def by_sign(self) -> tuple[Self, Self]:
        """The cells with positive counts, and those with negative counts, negated."""
        negative = self[self.counts < 0]
        return self[self.counts > 0], replace(negative, counts=-negative.counts)

    def published(self, built: Built) -> Arrays:
        """What is published of a part that was built from these cells."""
        return built.arrays


@dataclass(frozen=True)
class NamedCells(Cells):
    """Cells of distinct, known keys; keys may share an id."""

    keys: Any  # the caller's collection
    rows: Rows  # where in it each key is

    def __getitem__(self, which: slice | npt.NDArray[Any]) -> Self:
        return replace(super().__getitem__(which), rows=self.rows[which])

    def published(self, built: Built) -> Arrays:
        """What is published, with the names of the keys that are stored."""
        stored = self[built.stored]
        names = chain.from_iterable(names_of(self.keys, stored.rows[piece]) for piece in pieces(len(stored.rows)))
        return keep(built.arrays, stored.ids, names)


@dataclass(frozen=True)
class Sums:
    """Distinct ids, ascending, and the values of each: an integer, or a run of reals.

    Sums are rounded, not their terms: what is released depends on the vector, not on how its
    entries were split up.
    """

    ids: Words
    values: Values
    starts: npt.NDArray[np.int64] | None  # of the runs of reals; None if each id has one value
    unit: Fraction  # what an integer value stands for

    @classmethod
    def of(cls, ids: Words, values: Values, unit: Fraction) -> Sums:
        """The values of equal ids brought together, in new arrays."""
        if values.dtype.kind == "i":
            ids, counts = _sorted(ids, aligned(values, np.int64))
            distinct = _native.sum_runs(ids, counts, LARGEST_COUNT)
            return cls(ids[:distinct], counts[:distinct], None, unit)
        ids, carried = _sorted(ids, aligned(values, np.float64).view(np.int64))
        reals = carried.view(np.float64)
        first = np.ones(len(ids), np.bool_)
        np.not_equal(ids[1:], ids[:-1], out=first[1:])
        if first.all():
            return cls(ids, reals, None, unit)
        starts = np.flatnonzero(first)
        return cls(ids[starts], reals, starts, unit)

    def counts(self, neighbours: Neighbours, randomness: Randomness) -> Counts:
        """The sums on the grid; if they have to be rounded, each call uses fresh coins."""
        if self.values.dtype.kind == "i":
            counts = self.values.view(np.int64)
            return round_integers(counts, int(neighbours.step / self.unit), randomness) if neighbours.real else counts
        reals = self.values.view(np.float64)
        if self.starts is None:
            return round_to_grid(reals, neighbours.step, randomness)
        return round_sums_to_grid(reals, self.starts, neighbours.step, randomness)

    def cells(self, counts: Counts, upper: int | None) -> Cells:
        """The counts cut to ±upper and to ±2^61, without zeros. The input arrays are overwritten."""
        left = _native.cut_pairs(self.ids, counts, LARGEST_COUNT if upper is None else upper)
        return Cells(self.ids[:left], counts[:left])


@dataclass(frozen=True)
class NamedSums(Sums):
    """The values of keys that stay separate to the end, whatever their ids."""

    keys: Any
    rows: Rows

    @classmethod
    def of_rows(cls, ids: Words, values: Values, unit: Fraction, keys: Any, rows: Rows) -> NamedSums:
        """The values of some rows, which ascend by id."""
        own = values[rows]
        if own.dtype.kind == "i":
            own.clip(-LARGEST_COUNT, LARGEST_COUNT, out=own)
        return cls(ids[rows], own, None, unit, keys, rows)

    def cells(self, counts: Counts, upper: int | None) -> NamedCells:
        most = LARGEST_COUNT if upper is None else upper
        counts = np.clip(counts, -most, most)
        return NamedCells(self.ids, counts, self.keys, self.rows)[counts != 0]


def distinct_rows(ids: Words, keys: Any) -> Rows:
    """The rows ascending by id, or `InputError` if a key has several; only rows with equal ids can
    share a key.

    Those are in the order of their keys: which of them comes first must not depend on other rows.
    """
    ids, rows = _native.sort_pairs(ids, np.arange(len(ids), dtype=np.int64))
    same = ids[1:] == ids[:-1]
    if same.any():
        shared = np.union1d(np.flatnonzero(same), np.flatnonzero(same) + 1)
        seen: dict[bytes, int] = {}
        names = names_of(keys, rows[shared])
        for row, name in zip(rows[shared].tolist(), names, strict=True):
            first = seen.setdefault(name, row)
            if first != row:
                both = f"at positions {min(first, row)} and {max(first, row)}"
                raise InputError(f"the same key occurs {both}; to keep keys, sum the values of each key first")
        order = sorted(range(len(names)), key=lambda at: (int(ids[shared[at]]), names[at]))
        rows[shared] = rows[shared[order]]
    return rows


def _sorted(ids: Words, values: Counts) -> tuple[Words, Counts]:
    with task("Sorting keys", len(ids)) as advance:
        pairs = _native.sort_pairs(ids, values)
        advance(len(ids))
    return pairs
