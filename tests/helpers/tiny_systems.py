"""Everything that `retrieval` can publish about a few keys in a tiny array, with exact masses.

Keys have one slot in each of two segments, so a row is an edge of a small graph. A law of outputs
is a mapping from what is seen besides the array (rows, stored values) to an array of integers: the
masses of all fillings of the slots, over one common denominator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import lcm
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sparsedp.privacy.cut_laws import CutLaw

Vector: TypeAlias = tuple[int, ...]
Rows: TypeAlias = tuple[int, ...]  # the slots of each key, as a bit mask
Table: TypeAlias = tuple[int | None, ...]  # the stored value of each key, if it is stored
Masses: TypeAlias = npt.NDArray[np.int64]
Seen: TypeAlias = tuple[object, ...]

REDRAWS = 2  # of seeds; there are sixteen in earnest


def independent(rows: list[int]) -> bool:
    """Whether no non-empty subset of the rows sums to zero."""
    sums = {0}
    for row in rows:
        if row in sums:
            return False
        sums |= {row ^ other for other in sums}
    return True


def support(x: Vector) -> list[int]:
    return [i for i, count in enumerate(x) if count]


def together(x: Vector, y: Vector) -> list[int]:
    """The keys that one of the two has."""
    return [i for i, counts in enumerate(zip(x, y, strict=True)) if any(counts)]


@dataclass(frozen=True)
class System:
    """Two segments with slots of as many bits as the law has; keys are stored from R + 1 on, or from
    where a mutant does.
    """

    law: CutLaw
    keys: int
    segment: int = 2
    stored_from: int | None = None

    @property
    def hashes(self) -> list[Rows]:
        """The rows of all keys, under every seed."""
        own = [1 << a | 1 << (self.segment + b) for a in range(self.segment) for b in range(self.segment)]
        return list(product(own, repeat=self.keys))

    def good(self, keys: list[int]) -> list[Rows]:
        """The seeds under which the rows of these keys are independent."""
        return [rows for rows in self.hashes if independent([rows[i] for i in keys])]

    def defect(self, keys: list[int]) -> Fraction:
        """P[the rows of these keys are dependent] for a fresh seed."""
        return 1 - Fraction(len(self.good(keys)), len(self.hashes))

    @property
    def denominator(self) -> int:
        """Of the masses of `given`."""
        return int(self._unit**self.keys) << (2 * self.segment * self.law.bits)

    @property
    def _unit(self) -> int:
        """Of one key: it makes all of its masses whole numbers."""
        return lcm(*self.law.masses) << self.law.bits

    def _mass(self, value: int) -> int:
        return self.law.masses[abs(value)] if abs(value) <= self.law.reach else 0

    def _values(self, row: int) -> Masses:
        """The value that a row reads, for every filling of the slots."""
        bits, slots = self.law.bits, 2 * self.segment
        fillings = np.arange(1 << (bits * slots))
        word = np.zeros_like(fillings)
        for slot in range(slots):
            if row >> slot & 1:
                word ^= fillings >> (bits * slot) & ((1 << bits) - 1)
        return np.searchsorted(np.array(self.law.ends), word, side="right") - self.law.reach

    def _options(self, count: int, row: int) -> Iterator[tuple[int | None, Masses]]:
        """What may become of a key: a stored value, or a word in the bucket of its noisy value."""
        reach, unit = self.law.reach, self._unit
        stored_from = reach + 1 if self.stored_from is None else self.stored_from
        if count == 0:
            yield None, np.array([unit])
            return
        factors = {
            v: unit * self._mass(v - count) // self._mass(v) if abs(v) < stored_from else 0
            for v in range(-reach, reach + 1)
        }
        yield None, np.array([factors[v] for v in range(-reach, reach + 1)])[self._values(row) + reach]
        for v in range(count - reach, count + reach + 1):
            if abs(v) >= stored_from:
                yield v, np.array([self._mass(v - count) * unit >> self.law.bits])

    def given(self, rows: Rows, x: Vector) -> dict[Seen, Masses]:
        """The law of (table, array), given the rows of all keys; those of the support must be
        independent.
        """
        law: dict[Seen, Masses] = {}
        size = 1 << (2 * self.segment * self.law.bits)
        for outcomes in product(*(list(self._options(c, row)) for c, row in zip(x, rows, strict=True))):
            masses = np.ones(size, np.int64)
            for _, factor in outcomes:
                masses = masses * factor
            if masses.any():
                law[tuple(stored for stored, _ in outcomes)] = masses
        return law

    def empty(self, x: Vector) -> dict[Seen, Masses]:
        """The law of (table, array) if the array is uniform."""
        law: dict[Seen, Masses] = {}
        size = 1 << (2 * self.segment * self.law.bits)
        for outcomes in product(*(list(self._options(c, 1)) for c in x)):
            mass = 1
            for _, factor in outcomes:
                mass *= int(factor.sum()) // len(factor)  # the mean over all words
            if mass:
                law[tuple(stored for stored, _ in outcomes)] = np.full(size, mass, np.int64)
        return law

    def accepted(self, x: Vector) -> Iterator[tuple[Seen, Masses]]:
        """The law of (rows, table, array) with two tries for a seed, and a uniform array otherwise;
        the denominator is |hashes|³ times that of `given`.
        """
        hashes, good = self.hashes, set(self.good(support(x)))
        bad = len(hashes) - len(good)
        for rows in hashes:
            law: dict[Seen, Masses] = {}
            if rows in good:
                for table, masses in self.given(rows, x).items():
                    law[table] = masses * ((len(hashes) + bad) * len(hashes))
            for table, masses in self.empty(x).items():
                law[table] = law.get(table, np.zeros(1, np.int64)) + masses * bad**REDRAWS
            for table, masses in law.items():
                yield (rows, *table), masses


def hockey_stick(p: Mapping[Seen, Masses], q: Mapping[Seen, Masses], factor: Fraction, denominator: int) -> Fraction:
    """The smallest δ with P(A) <= factor·Q(A) + δ for every set A of outputs."""
    a, b = factor.numerator, factor.denominator
    lost = 0
    exactly: Any = np.int64 if max(a, b) < 1 << 20 else np.object_  # of as many digits as it takes
    for seen, masses in p.items():
        likely, rare = masses.astype(exactly), q.get(seen, np.zeros(1, np.int64)).astype(exactly)
        lost += int(np.maximum(b * likely - a * rare, 0).sum())
    return Fraction(lost, b * denominator)


def dense(law: CutLaw, x: Vector) -> dict[tuple[int, ...], Fraction]:
    """The law of independent noise on every one of these counts, zeros included."""
    values = range(-law.reach, law.reach + 1)
    joint: dict[tuple[int, ...], Fraction] = {}
    for noise in product(values, repeat=len(x)):
        mass = Fraction(1)
        for v in noise:
            mass *= Fraction(law.masses[abs(v)], 1 << law.bits)
        joint[tuple(c + v for c, v in zip(x, noise, strict=True))] = mass
    return joint
