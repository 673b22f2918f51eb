"""Laws of noise that are tables of integers: a uniform word of `bits` bits is cut into runs, one for
each value.

The law *is* the table: value v has exactly masses[|v|] of the 2^bits words, and no value beyond
±reach has any. So one table draws the noise, hides it in the slots of `retrieval` and decides ε and
δ. `CutGeometric` is for budgets that add up (ℓ1), `CutGaussian` for users with many keys
(docs/privacy.md, "Cut laws"). Masses are computed in integers from a few numbers, so every machine
gets the same ones.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from .. import _native
from .._util.lazy import cached_property
from .laws import log_bounds, precise
from .randomness import Randomness, Words

Masses = list[int]
Floats = npt.NDArray[np.float64]

FIXED_BITS = 192  # of fixed-point numbers: far more than the 64 bits of any mass
MOST_REACH = 1 << 17
SMALLEST_VARIANCE = Fraction(1, 2)  # below, sums of draws are not as smooth as their accounting assumes
LARGEST_VARIANCE = Fraction(1 << 28)
SMALLEST_RATE = Decimal("5e-4")  # of which even words of 64 bits have fewer than MOST_REACH values
LARGEST_RATE = Decimal(45)  # e^45 is more than 2^64
PI = Decimal("3.1415926535897932384626433832795028841971693993751")


@dataclass(frozen=True)
class CutLaw(ABC):
    """A symmetric law on -reach..reach, given by the number of words of each value."""

    bits: int

    @cached_property
    @abstractmethod
    def masses(self) -> Masses:
        """How many words have the value v, for v = 0..reach; -v has as many."""

    @property
    def reach(self) -> int:
        """The largest value."""
        return len(self.masses) - 1

    @property
    def lowest(self) -> int:
        """The smallest value."""
        return -self.reach

    @property
    def threshold(self) -> int:
        """The smallest value that no draw around zero reaches."""
        return self.reach + 1

    @cached_property
    def ends(self) -> list[int]:
        """Words below ends[i] have values of at most i - reach."""
        return list(accumulate([*self.masses[:0:-1], *self.masses]))

    @cached_property
    def probabilities(self) -> Floats:
        """P[v] for v = 0..reach, as floats."""
        return np.array(self.masses, np.float64) * 2.0**-self.bits

    @cached_property
    def variance_of_draws(self) -> float:
        """The variance of the noise."""
        return float(2 * (self.probabilities * np.arange(self.reach + 1.0) ** 2).sum())

    @cached_property
    def mean_size(self) -> float:
        """E|η|."""
        return float(2 * (self.probabilities * np.arange(self.reach + 1.0)).sum())

    @cached_property
    def _tails(self) -> list[int]:
        """Words with values of at least v, for v = 0..reach + 1."""
        return [*reversed(list(accumulate(reversed(self.masses)))), 0]

    def at_least(self, value: int) -> Fraction:
        """P[η >= value], exactly."""
        if value < 0:
            return 1 - self.at_least(1 - value)
        return Fraction(self._tails[min(value, self.reach + 1)], 1 << self.bits)

    def smallest_tail(self, chance: Fraction) -> int:
        """The smallest value v >= 1 with P[η >= v] at most the chance."""
        most = chance * (1 << self.bits)
        low, high = 1, self.reach + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._tails[middle] <= most else (middle + 1, high)
        return low

    def exceeded_with(self, failure: float) -> float:
        """The smallest r with P[|η| > r] at most `failure`, for intervals."""
        return float(self.smallest_tail(Fraction(failure) / 2) - 1)

    def largest_of(self, draws: float) -> float:
        """A bound on the largest |η| of any number of draws."""
        return float(self.reach)

    def spread(self, samples: int) -> npt.NDArray[np.int64]:
        """Evenly spaced quantiles in random order: a sample without sampling error, for
        predictions.
        """
        at = np.searchsorted(np.cumsum(self._both), (np.arange(samples) + 0.5) / samples)
        noise = np.minimum(at, 2 * self.reach) - self.reach
        return np.random.default_rng(0).permutation(noise).astype(np.int64)

    @cached_property
    def _both(self) -> Floats:
        """P[v] for v = -reach..reach."""
        return np.concatenate([self.probabilities[::-1], self.probabilities[1:]])

    def probability_of(self, values: npt.NDArray[np.int64]) -> Floats:
        """P[v] of each value, as floats."""
        size = np.abs(values)
        chances: Floats = np.where(size <= self.reach, self.probabilities[np.minimum(size, self.reach)], 0.0)
        return chances

    def chance_at_least(self, values: npt.NDArray[np.int64]) -> Floats:
        """P[η >= v] of each value, as floats."""
        above = np.append(np.cumsum(self._both[::-1])[::-1], 0.0)
        chances: Floats = np.minimum(above[np.clip(values + self.reach, 0, 2 * self.reach + 1)], 1.0)
        return chances

    @property
    def digest(self) -> str:
        """The SHA-256 of all masses: every machine must get the same ones."""
        return hashlib.sha256(np.array(self.masses, "<u8").tobytes()).hexdigest()

    def draw(self, count: int, randomness: Randomness) -> npt.NDArray[np.int64]:
        """Independent draws, one for each word."""
        return self.values_of(randomness.words(count) >> np.uint64(64 - self.bits))

    def values_of(self, words: Words) -> npt.NDArray[np.int64]:
        """The values of words of `bits` bits."""
        return _native.cut_words(words, self._lasts, self.bits) - self.reach

    def words_for(self, values: npt.NDArray[np.int64], randomness: Randomness) -> Words:
        """A uniform word among those of each value, which lies in -reach..reach."""
        return _native.words_of_buckets(values + self.reach, self._lasts, randomness.words(2 * len(values)))

    @cached_property
    def _lasts(self) -> Words:
        return np.array([end - 1 for end in self.ends], np.uint64)

    def faults(self) -> Iterator[str]:
        """What is wrong with a law that was not planned here, if anything."""
        if self.bits not in range(16, 65, 8):
            yield "a cut law must have words of 16, 24, … 64 bits"


@dataclass(frozen=True)
class CutGeometric(CutLaw):
    """About P[v] ∝ exp(-rate·|v|); no neighbouring values differ by more than the factor
    e^step_loss.

    That is at most e^rate if the words are fine enough for the rate: from about 4·2^(-bits/4) up to
    bits·ln(2)/2. Beyond, zero may have more than that, or the values beside it.
    """

    rate: Decimal

    @cached_property
    def masses(self) -> Masses:
        """Each mass is the previous one divided by slightly less than the factor, rounded up.

        Rounding up ends in masses that no longer fall; the first of those is the last value.
        """
        whole = 1 << self.bits
        one = 1 << FIXED_BITS
        with precise(ROUND_FLOOR):
            factor = int(self.rate.exp() * one)
        # What is left of all words goes to zero, whose mass may then be up to this much too large.
        slack = max(1, factor >> (self.bits // 2))
        divisor = factor - slack

        def beside(first: int) -> Masses:
            masses = [first]
            while (following := -((-masses[-1] << FIXED_BITS) // divisor)) < masses[-1]:
                masses.append(following)
            return masses

        # P[1] of the geometric law is (f - 1)/(f + 1)/f for the factor f between neighbours.
        def leaves_enough(first: int) -> bool:
            rest = whole - 2 * sum(beside(first))
            return rest << FIXED_BITS >= first * divisor

        about = whole * (divisor - one) * one // ((divisor + one) * divisor)
        low, high = max(1, about - about // 1000), min(whole, about + about // 1000 + 8)
        if not leaves_enough(low):  # where words are coarse, rounding up many masses takes more than that
            low, high = 1, low - 1
        while low < high:  # the largest mass of one that leaves enough for zero
            middle = (low + high + 1) // 2
            low, high = (middle, high) if leaves_enough(middle) else (low, middle - 1)
        masses = beside(low)
        return [whole - 2 * sum(masses), *masses]

    @cached_property
    def step_loss(self) -> Decimal:
        """The largest |ln P[v] - ln P[v + 1]| between values of the law, rounded up."""
        worst = max(Fraction(max(pair), min(pair)) for pair in pairwise(self.masses))
        return log_bounds(worst).high

    @property
    def step_delta(self) -> Fraction:
        """The probability of the last value, which a step makes impossible."""
        return Fraction(self.masses[-1], 1 << self.bits)

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        if not self.rate.is_finite() or not SMALLEST_RATE <= self.rate <= LARGEST_RATE:
            yield "the rate of a cut law is out of range"


@dataclass(frozen=True)
class CutGaussian(CutLaw):
    """About P[v] ∝ exp(-v²/(2·variance)): what rounding changes is known exactly (`deviations`).

    Values beyond `most` are cut off; there are none if their mass is less than a word.
    """

    variance: Fraction
    most: int

    @cached_property
    def _ideal(self) -> list[int]:
        """exp(-v²/(2·variance)) in fixed point, up to `most` or until no word of it is left."""
        one = 1 << FIXED_BITS
        with precise():
            factor = int((-Decimal(self.variance.denominator) / (2 * self.variance.numerator)).exp() * one)
        square = factor * factor >> FIXED_BITS
        weights: list[int] = []
        weight, step = one, factor  # step is factor^(2v + 1)
        least = one >> (self.bits + 2)
        while weight > least and len(weights) <= self.most:
            weights.append(weight)
            weight, step = weight * step >> FIXED_BITS, step * square >> FIXED_BITS
        return weights

    @cached_property
    def _whole(self) -> int:
        """The sum of the ideal over all values, in fixed point."""
        return 2 * sum(self._ideal) - self._ideal[0]

    @cached_property
    def masses(self) -> Masses:
        """The ideal rounded down; the words that this leaves over go to the smallest values, one to
        each.
        """
        whole = 1 << self.bits
        rounded = [(weight << self.bits) // self._whole for weight in self._ideal]
        masses = rounded[: next((v for v, mass in enumerate(rounded) if mass == 0), len(rounded))]
        left = whole - 2 * sum(masses) + masses[0]
        for v in range(1, len(masses)):
            if left < 2:
                break
            masses[v] += 1
            left -= 2
        masses[0] += left
        return masses

    @cached_property
    def deviations(self) -> Floats:
        """ln(masses[v]/ideal) for v = 0..reach, from exact differences."""
        deviations = []
        for mass, weight in zip(self.masses, self._ideal, strict=False):
            ideal = weight << self.bits
            deviations.append(math.log1p((mass * self._whole - ideal) / ideal))
        return np.array(deviations)

    @cached_property
    def log_above_density(self) -> float:
        """Ln max_v P[v]/φ(v), for the density φ of the continuous Gaussian law; nearly 0.

        Its terms nearly cancel, so it is computed with 50 digits, and only then a float.
        """
        with precise():
            density = (2 * PI * self.variance.numerator / self.variance.denominator).ln() / 2
            whole = (Decimal(self._whole) / (1 << FIXED_BITS)).ln()
            return float(Decimal(float(self.deviations.max())) + density - whole)

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        small = SMALLEST_VARIANCE <= self.variance <= LARGEST_VARIANCE and self.variance.denominator < 1 << 40
        if not small or not 1 <= self.most <= MOST_REACH:
            yield "the variance or the reach of a cut law is out of range"
