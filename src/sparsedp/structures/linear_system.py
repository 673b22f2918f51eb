"""A sparse random linear system that hides a value at some keys and is uniform at all others.

An array of slots of b bits; a key XORs one slot of each of q equal segments, chosen by hashing. If
the rows of some keys are linearly independent over GF(2), the XORs at those keys can be prescribed,
and a uniform solution gives every further key with an independent row a uniform XOR.
`LinearSystem.dependence` bounds the probability, over the hash seed, that a further key's row
depends on those of the others (docs/privacy.md, "Retrieval"). Hash values are assumed to be
independent and uniform: SipHash under a fresh 128-bit key as a pseudorandom function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .. import _native
from .._util.progress import task
from ..errors import ParameterError
from ..privacy.randomness import Randomness, Words, words_in_threads
from .dependence import dependence, pairs
from .scale import PLAIN, Scale

MOST_REDRAWS = 16
MOST_DEFECT = Fraction(1, 4)  # a second seed is then rarely needed

# Slots per key that peeling needs, with a margin: beyond 1.222, 1.295, 1.425, 1.570, 1.722, 1.878
# it stops early.
SLOTS_PER_KEY = {3: 1.25, 4: 1.32, 5: 1.45, 6: 1.60, 7: 1.76, 8: 1.92}

LARGEST_SEGMENT = 1 << 31
_PADDING = 8


@dataclass(frozen=True)
class LinearSystem:
    """q = `slots` segments of `segment` slots with `width` bytes each, for up to `keys` keys."""

    slots: int
    segment: int
    width: int
    keys: int

    @classmethod
    def smallest(cls, keys: int, width: int, failure: Fraction) -> LinearSystem:
        """The system with the least space whose further keys depend on others with probability at
        most `failure`.
        """
        # A large `failure` alone would allow rows that are often dependent.
        most = min(failure, MOST_DEFECT * 2 / max(keys, 1))
        best: LinearSystem | None = None
        # Five slots are best in most cases: trying them first ends the search among the others
        # early.
        for slots in sorted(SLOTS_PER_KEY, key=lambda slots: abs(slots - 5)):
            per_key = SLOTS_PER_KEY[slots]
            system = cls(slots, math.ceil(per_key * keys / slots) + 1, width, keys)
            while system.segment < LARGEST_SEGMENT and (best is None or system.size < best.size):
                if pairs(keys, slots, system.segment) <= most and system.dependence <= most:
                    best = system
                    break
                system = replace(system, segment=math.ceil(1.1 * system.segment))
        if best is None:
            raise ParameterError(f"retrieval has no room for {keys} keys; lower nonzero=")
        return best

    @property
    def size(self) -> int:
        """The number of slots."""
        return self.slots * self.segment

    @property
    def nbytes(self) -> int:
        """Bytes of the slots, of the padding and of the seed."""
        return self.size * self.width + _PADDING + 16

    @property
    def dependence(self) -> Fraction:
        """P[a given row is a sum of rows of the `keys` others], bounded: Σ_t C(keys, t - 1) P[t
        rows sum to zero].
        """
        return dependence(self.keys, self.slots, self.segment)

    @property
    def rank_defect(self) -> Fraction:
        """P[the rows of the `keys` keys are dependent], bounded: C(keys, t) is at most keys/2 times
        C(keys, t - 1).
        """
        return min(Fraction(1), self.dependence * self.keys / 2)

    def draw(self, ids: Words, values: Words, randomness: Randomness) -> tuple[npt.NDArray[np.uint8], Words]:
        """Packed slots whose XOR at each id is its value, and the seed; uniform slots if none of 16
        seeds allows it.
        """
        for _ in range(MOST_REDRAWS):
            seed = randomness.words(2)
            if len(ids) > self.size:
                continue
            with task("Building", len(ids)) as advance:
                system = _native.SparseSystem(int(seed[0]), int(seed[1]), self.slots, self.segment, ids)
                packed = self._uniform(randomness)
                solved = system.solve(packed[:-_PADDING], self.width, values)
                advance(len(ids))
            if solved:
                return packed, seed
        return self.noise(randomness)

    def noise(self, randomness: Randomness) -> tuple[npt.NDArray[np.uint8], Words]:
        """Uniform slots and a fresh seed."""
        return self._uniform(randomness), randomness.words(2)

    def _uniform(self, randomness: Randomness) -> npt.NDArray[np.uint8]:
        """Uniform bytes for all slots, and the padding: a slot is read as eight bytes."""
        used = self.size * self.width
        packed = words_in_threads(randomness, -(-(used + _PADDING) // 8)).view(np.uint8)[: used + _PADDING]
        packed[used:] = 0
        return packed

    def places_of(self, seed: Words, ids: Words) -> npt.NDArray[np.int64]:
        """The positions in the packed array of all slots of ids, in bytes."""
        slots = _native.slots_of(int(seed[0]), int(seed[1]), self.slots, self.segment, ids)
        return slots.astype(np.int64) * self.width

    def reader(
        self,
        tables: list[_native.Table],
        packed: list[npt.NDArray[np.uint8]],
        seeds: list[Words],
        hashed: bool,
        lasts: Words,
        values: npt.NDArray[np.float64],
        offsets: Sequence[float] = (0.0,),
        scale: Scale = PLAIN,
    ) -> _native.SlotReader:
        """Answer keys: the stored value + offset on a scale, or that of the bucket which the XOR
        falls into; `lasts` end the buckets. With several offsets, a key has as many answers, and
        each bucket a row of values.

        There is a table, an array of slots and a seed for each part.
        """
        return _native.SlotReader(
            tables,
            packed,
            seeds,
            hashed,
            self.width,
            self.slots,
            self.segment,
            lasts,
            values.reshape(-1),
            offsets,
            scale,
        )

    def faults(self) -> Iterator[str]:
        """What is wrong with a system that was not planned here, if anything."""
        if not 2 <= self.slots <= 8 or not 1 <= self.segment < LARGEST_SEGMENT or not 1 <= self.width <= 8:
            yield "a system must have 2..8 slots of 1..8 bytes in segments below 2^31"
        if not 1 <= self.keys <= self.size:
            yield "there must be more slots than keys"
