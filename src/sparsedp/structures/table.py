"""The table of keys stored with a noisy value, and the noise on counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _native
from .._util.lazy import cached_property
from ..errors import FormatError
from ..privacy.laws import TwoSided
from ..privacy.randomness import Randomness, Words, two_sided

Counts = npt.NDArray[np.int64]

# Counts saturate here and noise at twice this, so that clipping the sum is post-processing of
# unbounded noise.
LARGEST_COUNT = 1 << 61

MOST_TAIL_STEPS = 256  # periods of the noise up to a threshold; more could keep a reader busy for a long time


@dataclass(frozen=True)
class Table:
    """Stored pairs, sorted by id."""

    ids: Words
    values: Counts

    @classmethod
    def sorted(cls, ids: Words, values: Counts) -> Table:
        """The table of the given pairs; their original order is lost."""
        return cls(*_native.sort_pairs(ids, values))

    @cached_property
    def index(self) -> _native.Table:
        """The table with a directory of its ids, made in one pass at first use, which also checks
        their order.
        """
        try:
            return _native.Table(self.ids, self.values)
        except ValueError as error:
            raise FormatError(f"a stored table is damaged: {error}") from None

    def find(self, ids: Words) -> tuple[npt.NDArray[np.bool_], Counts]:
        """Which of the ids are stored, and their values (0 if not)."""
        return self.index.find(ids)


class KeptPairs:
    """The pairs that will be in a table, of at most `most` keys; only those that there are take
    memory, and none of what is added stays in use.
    """

    def __init__(self, most: int) -> None:
        self._ids, self._values, self._length = np.empty(most, np.uint64), np.empty(most, np.int64), 0

    def add(self, ids: Words, values: Counts) -> None:
        """More pairs."""
        begin, self._length = self._length, self._length + len(ids)
        self._ids[begin : self._length], self._values[begin : self._length] = ids, values

    def table(self, *more: npt.NDArray[Any]) -> Table:
        """The table of all pairs, and of the ids and values of some more."""
        ids, values = self._ids[: self._length], self._values[: self._length]
        if more:
            ids, values = np.concatenate([ids, more[0]]), np.concatenate([values, more[1]])
        return Table.sorted(ids, values)


def add_noise(counts: Counts, law: TwoSided, randomness: Randomness) -> Counts:
    """Counts + noise, clipped to ±2^61."""
    noisy = two_sided(randomness, law, len(counts))
    noisy += np.minimum(counts, LARGEST_COUNT)
    return np.clip(noisy, -LARGEST_COUNT, LARGEST_COUNT, out=noisy)


def threshold_fits(noise: TwoSided, threshold: int) -> bool:
    """Whether this noise can have been planned with this threshold."""
    return 1 <= threshold <= min(LARGEST_COUNT, MOST_TAIL_STEPS * noise.magnitude.period)
