"""A sparse random linear system that hides a value at some keys and is uniform at all others.

An array of slots of b bits; a key XORs one slot of each of q equal segments, chosen by hashing. If the rows of some
keys are linearly independent over GF(2), the XORs at those keys can be prescribed, and a uniform solution gives every
further key with an independent row a uniform XOR. `LinearSystem.dependence` bounds the probability, over the hash seed,
that a further key's row depends on those of the others (docs/privacy.md, "Retrieval"). Hash values are taken to be
independent and uniform: SipHash under a fresh 128-bit key as a pseudorandom function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from . import _native
from .errors import ParameterError
from .progress import stage
from .randomness import Randomness, Words

MOST_REDRAWS = 16

# Slots per key that peeling needs, with a margin: beyond 1.222, 1.295, 1.425, 1.570, 1.722, 1.878 it stops early.
SLOTS_PER_KEY = {3: 1.25, 4: 1.32, 5: 1.45, 6: 1.60, 7: 1.76, 8: 1.92}

LARGEST_SEGMENT = 1 << 31
_PADDING = 8
_EXACT_SETS = 3000  # dependent sets up to this size are summed one by one


@dataclass(frozen=True)
class LinearSystem:
    """q = `slots` segments of `segment` slots with `width` bytes each, for up to `keys` keys."""

    slots: int
    segment: int
    width: int
    keys: int

    @classmethod
    def smallest(cls, keys: int, width: int, failure: float) -> LinearSystem:
        """The system with the least space whose further keys depend on others with probability at most `failure`."""
        return min((cls._padded(q, keys, width, failure) for q in SLOTS_PER_KEY), key=lambda s: s.nbytes)

    @classmethod
    def _padded(cls, slots: int, keys: int, width: int, failure: float) -> LinearSystem:
        segment = math.ceil(SLOTS_PER_KEY[slots] * keys / slots) + 1
        system = cls(slots, segment, width, keys)
        # A large `failure` alone would allow rows that are more often dependent than not.
        while segment < LARGEST_SEGMENT and (system.dependence > failure or system.rank_defect >= 0.5):
            segment = math.ceil(1.1 * segment)
            system = cls(slots, segment, width, keys)
        if segment >= LARGEST_SEGMENT:
            raise ParameterError(f"retrieval has room for fewer keys than {keys}; lower nonzero=")
        return system

    @property
    def size(self) -> int:
        """The number of slots."""
        return self.slots * self.segment

    @property
    def nbytes(self) -> int:
        """Bytes of the slots, of the padding and of the seed."""
        return self.size * self.width + _PADDING + 16

    @property
    def dependence(self) -> float:
        """P[a given row is a sum of rows of the `keys` others], bounded: Σ_t C(keys, t - 1) P[t rows sum to zero]."""
        return _bound(self.keys, self.slots, self.segment, with_given=True)

    @property
    def rank_defect(self) -> float:
        """P[the rows of the `keys` keys are dependent], bounded: Σ_t C(keys, t) P[t rows sum to zero]."""
        return _bound(self.keys, self.slots, self.segment, with_given=False)

    def draw(self, ids: Words, values: Words, randomness: Randomness) -> tuple[npt.NDArray[np.uint8], Words]:
        """Packed slots whose XOR at each id is its value, and the seed; uniform slots if no seed of 16 allows it."""
        for _ in range(MOST_REDRAWS):
            seed = randomness.words(2)
            packed = self._uniform(randomness)
            with stage("Building", len(ids)) as advance:
                solved = len(ids) <= self.size and _native.solve(
                    packed[:-_PADDING], self.width, int(seed[0]), int(seed[1]), self.slots, self.segment, ids, values
                )
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
        packed = randomness.words(-(-(used + _PADDING) // 8)).view(np.uint8)[: used + _PADDING]
        packed[used:] = 0
        return packed

    def reader(
        self,
        tables: list[_native.Table],
        packed: list[npt.NDArray[np.uint8]],
        seeds: list[Words],
        hashed: bool,
        lasts: Words,
        values: npt.NDArray[np.float64],
    ) -> _native.SlotReader:
        """Answers ids: the value of a stored one, else that of the bucket its XOR falls into; lasts end the buckets.

        There is a table, an array of slots and a seed for each part.
        """
        return _native.SlotReader(tables, packed, seeds, hashed, self.width, self.slots, self.segment, lasts, values)


def _bound(keys: int, slots: int, segment: int, with_given: bool) -> float:
    """Σ over even t of C(keys, t - 1 or t) · P[t balls leave every bin even]^slots, rounded up by 1 %."""
    # A slot takes 32 bits of hash: the likeliest bin of a segment has probability 1/bins.
    bins = float(1 / Fraction(-(-(1 << 32) // segment), 1 << 32))
    small = np.arange(2, min(keys + 2, _EXACT_SETS), 2, dtype=np.float64)
    with np.errstate(over="ignore"):
        total = float(np.exp(_log_terms(small, keys, slots, bins, with_given)).sum()) if len(small) else 0.0
    if keys + 1 >= _EXACT_SETS:
        # Beyond, by intervals [low, high]: P[even] falls with t, and C(keys, .) is largest at keys/2 or the nearer end.
        edges = np.unique(np.geomspace(_EXACT_SETS, keys + 1, 4000).round())
        low, high = edges[:-1], edges[1:]
        most = _log_choose(keys, np.clip(keys / 2, low - 1, high))
        with np.errstate(over="ignore"):  # a bound beyond floats is beyond 1
            total += float(np.exp(most + slots * _log_even(low, bins) + np.log(high - low + 1)).sum())
    return min(1.0, 1.01 * total)


def _log_terms(
    t: npt.NDArray[np.float64], keys: int, slots: int, bins: float, with_given: bool
) -> npt.NDArray[np.float64]:
    return _log_choose(keys, t - 1 if with_given else np.minimum(t, keys)) + slots * _log_even(t, bins)


def _log_choose(keys: int, chosen: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return math.lgamma(keys + 1) - _lgamma(chosen + 1) - _lgamma(keys - chosen + 1)


def _log_even(t: npt.NDArray[np.float64], bins: float) -> npt.NDArray[np.float64]:
    """A bound on ln P[t balls leave every bin even]."""
    # P[even] = t! [z^t] cosh(z/bins)^bins <= t! cosh(y)^bins / (bins y)^t for all y > 0; best where y tanh y = t/bins.
    ratio = t / bins
    y = np.sqrt(ratio) + ratio
    for _ in range(60):
        tanh = np.tanh(y)
        y = np.maximum(y - (y * tanh - ratio) / (tanh + y * (1 - tanh**2)), 1e-300)
    log_cosh = y + np.log1p(np.exp(-2 * y)) - math.log(2)
    # Also, balls that leave every bin even can be paired: at most (t - 1)!! ways, each pair together with 1/bins.
    pairings = _lgamma(t + 1) - _lgamma(t / 2 + 1) - t / 2 * math.log(2 * bins)
    even: npt.NDArray[np.float64] = np.minimum(
        np.minimum(_lgamma(t + 1) + bins * log_cosh - t * np.log(bins * y), pairings), 0.0
    )
    return even


def _lgamma(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.array([math.lgamma(value) for value in x.tolist()])
