"""Cells of keys that will be named if they are stored.

A key may be named only because its own noisy count reached the threshold (docs/privacy.md, "Kept keys"). That is true
of keys, not of fingerprints: a rare key that shares its fingerprint with a frequent one must stay unnamed. So keys
are told apart here to the end: the values of equal fingerprints are not summed, and noise is drawn for each key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _native
from ..errors import InputError
from ..keys.columns import rereadable_keys, take
from ..keys.hashing import Key
from ..keys.kept import canonical
from ..privacy.randomness import Words
from ..structures.table import LARGEST_COUNT, Counts
from .inputs import Cells, Pairs, Sums

if TYPE_CHECKING:
    from typing_extensions import Self

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NamedCells(Cells):
    """Cells of distinct keys that are known; keys may share an id."""

    keys: Any  # the caller's collection
    rows: Rows  # where in it each key is

    def __getitem__(self, which: slice | npt.NDArray[Any]) -> Self:
        return replace(super().__getitem__(which), rows=self.rows[which])

    @property
    def names(self) -> list[Key]:
        """The keys."""
        return take(self.keys, self.rows)


def rereadable(pairs: Pairs) -> Pairs:
    """The pairs with their keys as a list, a plain NumPy array or an Arrow column: ids and names come from the same."""
    return replace(pairs, keys=rereadable_keys(pairs.keys))


def distinct_rows(ids: Words, pairs: Pairs) -> Rows:
    """The rows ascending by id, or `InputError` if a key has several; only equal ids can be of one key."""
    ids, rows = _native.sort_pairs(ids, np.arange(len(ids), dtype=np.int64))
    same = ids[1:] == ids[:-1]
    if same.any():
        shared = np.union1d(np.flatnonzero(same), np.flatnonzero(same) + 1)
        seen: dict[bytes, int] = {}
        for row, key in zip(rows[shared].tolist(), take(pairs.keys, rows[shared]), strict=True):
            first = seen.setdefault(canonical(key), row)
            if first != row:
                both = f"at positions {min(first, row)} and {max(first, row)}"
                raise InputError(f"the same key occurs {both}; to keep keys, sum the values of each key first")
    return rows


def named_sums(ids: Words, rows: Rows, pairs: Pairs) -> Sums:
    """The value of every key, each on its own whatever id it has."""
    values = pairs.values[rows]
    if values.dtype.kind == "i":
        values.clip(-LARGEST_COUNT, LARGEST_COUNT, out=values)
    return Sums(ids[rows], values, None, pairs.unit)


def named_cells(ids: Words, cells: Counts, pairs: Pairs, rows: Rows, upper: int | None) -> NamedCells:
    """The cells of all keys cut to ±upper; zeros are gone."""
    most = LARGEST_COUNT if upper is None else upper
    cells = np.clip(cells, -most, most)
    return NamedCells(ids, cells, pairs.keys, rows)[cells != 0]
