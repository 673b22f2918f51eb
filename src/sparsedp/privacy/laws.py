"""Distributions given by integers: the laws that are actually sampled, and how far they are from
ideal ones.

A random decision compares a uniform 64-bit word with an integer threshold, so every law here is a
tuple of integers, every probability a rational number, and every privacy loss follows from those
integers. The ideal geometric law cannot be met exactly with finite thresholds; instead each law
states a decay rate λ and a *deviation* interval [low, high] with

    ln P[n] = constant - λ n + e(n),       low <= e(n) <= high for every n,

so that two probabilities at distance c differ by a factor of at most exp(λ c + (high - low)): the
error is paid once, not once per step (docs/privacy.md, "Geometric noise"). Logarithms are taken
with 50 correctly rounded decimal digits and every interval is widened by 1e-40, more than the sum
of all rounding errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._util.lazy import cached_property
from . import bounds

WORD_BITS = 64

# Smaller losses per cell need finer thresholds than 64 bits; larger ones cannot be told apart by
# the thresholds.
SMALLEST_STEP_LOSS = Decimal(2) ** -20
LEAST_RATE = Decimal(2) ** -60  # noise of a smaller rate would be larger than all counts
LARGEST_STEP_LOSS = Decimal(30)

# Of laws in files: more digits could keep a reader busy for a long time.
MOST_LAW_DIGITS, MOST_NOISE_DIGITS = 128, 62
GUARD = Decimal("1e-40")

# A high part with 8 to 16 bits of headroom below certainty keeps thresholds accurate to 2^-48 (see
# `Geometric`).
_TAIL_BITS = 8


@contextmanager
def precise(rounding: str = ROUND_HALF_EVEN) -> Iterator[None]:
    """Decimal arithmetic with 50 digits and exponents that no probability here can leave."""
    with localcontext(Context(prec=50, rounding=rounding, Emin=-(10**15), Emax=10**15)):
        yield


def to_decimal(value: Fraction, rounding: str = ROUND_HALF_EVEN) -> Decimal:
    """The rational number with 50 digits."""
    with precise(rounding):
        return Decimal(value.numerator) / Decimal(value.denominator)


def log_bounds(value: Fraction) -> Interval:
    """Bounds around ln(value), at most 1e-40 away from it."""
    with precise():
        logarithm = to_decimal(value).ln()
        return Interval(logarithm - GUARD, logarithm + GUARD)


def float_up(value: Decimal | Fraction) -> float:
    """The smallest double that is not below the value."""
    exact = Fraction(value)
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def round_up(value: Fraction) -> Decimal:
    """The value with 50 digits, never below it."""
    return to_decimal(value, ROUND_CEILING)


def round_down(value: Fraction) -> Decimal:
    """The value with 50 digits, never above it."""
    return to_decimal(value, ROUND_FLOOR)


class Interval(NamedTuple):
    """A closed interval of logarithms."""

    low: Decimal
    high: Decimal

    def __add__(self, other: object) -> Interval:
        with precise():
            if isinstance(other, Interval):
                return Interval(self.low + other.low, self.high + other.high)
            if isinstance(other, Decimal):
                return Interval(self.low + other, self.high + other)
        return NotImplemented

    def hull(self, other: Interval) -> Interval:
        """The smallest interval around both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    @property
    def width(self) -> Decimal:
        """The length of the interval, rounded up."""
        with precise(ROUND_CEILING):
            return self.high - self.low


@dataclass(frozen=True)
class Geometric:
    """Geometric law on 0, 1, 2, …: P[n] proportional to exp(-λ n), by independent binary digits.

    n = (digits of n below 2^D) + 2^D h, where digit i is 1 with probability digits[i] / 2^word_bits
    and h counts successes of probability tail / 2^word_bits before the first failure. For ideal
    thresholds P[digit i] = a^(2^i) / (1 + a^(2^i)) and tail a^(2^D) this is the geometric law with
    ratio a = exp(-λ).
    """

    digits: tuple[int, ...]
    tail: int
    word_bits: int = WORD_BITS

    @classmethod
    def with_rate(cls, rate: Decimal, word_bits: int = WORD_BITS) -> Geometric:
        """The thresholds nearest to the law with decay rate λ = rate."""
        scale = 1 << word_bits
        digits: list[int] = []
        with precise():
            power = (-rate).exp()  # a^(2^i)
            enough = Decimal(2) ** -min(_TAIL_BITS, word_bits // 2)
            while power > enough:
                digits.append(int((power / (1 + power) * scale).to_integral_value()))
                power *= power
            tail = max(1, int((power * scale).to_integral_value()))
        return cls(tuple(digits), tail, word_bits)

    @property
    def _scale(self) -> int:
        return 1 << self.word_bits

    @property
    def period(self) -> int:
        """2^D, the size of one step of the high part."""
        return 1 << len(self.digits)

    @property
    def tail_probability(self) -> Fraction:
        """Probability of one more step of the high part."""
        return Fraction(self.tail, self._scale)

    @cached_property
    def rate(self) -> Decimal:
        """The decay rate λ, to 50 digits."""
        with precise():
            return -to_decimal(self.tail_probability).ln() / self.period

    @cached_property
    def at_zero(self) -> Fraction:
        """P[0], exactly."""
        product = 1 - self.tail_probability
        for threshold in self.digits:
            product *= 1 - Fraction(threshold, self._scale)
        return product

    @cached_property
    def deviation(self) -> Interval:
        """Bounds of e(n) in ln P[n] = ln P[0] - λ n + e(n); e(0) = 0."""
        low = high = Decimal(0)
        with precise():
            for i, threshold in enumerate(self.digits):
                odds = Fraction(threshold, self._scale - threshold)
                error = to_decimal(odds).ln() + self.rate * (1 << i)
                low += min(error, Decimal(0))
                high += max(error, Decimal(0))
            return Interval(low - GUARD, high + GUARD)

    def probability(self, n: int) -> Fraction:
        """P[n], exactly."""
        if n < 0:
            return Fraction(0)
        steps, below = divmod(n, self.period)
        result = (1 - self.tail_probability) * self.tail_probability**steps
        for i, threshold in enumerate(self.digits):
            chance = Fraction(threshold, self._scale)
            result *= chance if below >> i & 1 else 1 - chance
        return result

    def scaled(self, n: int, scale: int) -> int:
        """⌊scale · P[n]⌋ for n >= 0, without the cost of reducing fractions."""
        steps, below = divmod(n, self.period)
        product: int = scale * (self._scale - self.tail) * pow(self.tail, steps)
        for i, threshold in enumerate(self.digits):
            product *= threshold if below >> i & 1 else self._scale - threshold
        return product >> (self.word_bits * (1 + steps + len(self.digits)))

    def at_least(self, n: int) -> Fraction:
        """P[G >= n], exactly."""
        if n <= 0:
            return Fraction(1)
        steps, below = divmod(n, self.period)
        # P[digits >= below]: walk down from the top digit; leaving the common prefix upwards
        # decides.
        prefix, above = Fraction(1), Fraction(0)
        for i in reversed(range(len(self.digits))):
            chance = Fraction(self.digits[i], self._scale)
            if below >> i & 1:
                prefix *= chance
            else:
                above += prefix * chance
                prefix *= 1 - chance
        more = self.tail_probability**steps
        return more * (self.tail_probability + (1 - self.tail_probability) * (prefix + above))

    def faults(self) -> Iterator[str]:
        """What is wrong with one that was not planned here, if anything."""
        if self.word_bits != WORD_BITS:
            yield f"words must have {WORD_BITS} bits"
        if len(self.digits) > MOST_LAW_DIGITS or not all(0 < t < 1 << WORD_BITS for t in (*self.digits, self.tail)):
            yield f"thresholds must be in 1..2^64 - 1, for at most {MOST_LAW_DIGITS} digits"


@dataclass(frozen=True)
class TwoSided:
    """Two-sided geometric law: P[j] proportional to exp(-λ |j|), as zero test, fair sign and
    magnitude.

    Zero has probability zero / 2^word_bits; otherwise |η| - 1 follows `magnitude` and the sign is
    fair.
    """

    zero: int
    magnitude: Geometric

    @classmethod
    def with_rate(cls, rate: Decimal, word_bits: int = WORD_BITS) -> TwoSided:
        """The thresholds nearest to the law with decay rate λ = rate: P[0] = (1 - a)/(1 + a)."""
        with precise():
            ratio = (-rate).exp()
            zero = int(((1 - ratio) / (1 + ratio) * (1 << word_bits)).to_integral_value())
        return cls(zero, Geometric.with_rate(rate, word_bits))

    @property
    def rate(self) -> Decimal:
        """The decay rate λ."""
        return self.magnitude.rate

    @cached_property
    def at_zero(self) -> Fraction:
        """P[0], exactly."""
        return Fraction(self.zero, 1 << self.magnitude.word_bits)

    @cached_property
    def one_side(self) -> Fraction:
        """P[η > 0] = P[η < 0], exactly."""
        return (1 - self.at_zero) / 2

    @cached_property
    def deviation(self) -> Interval:
        """Bounds of ln P[j] + λ |j| over all j."""
        beside = log_bounds(self.one_side * self.magnitude.at_zero) + self.rate
        return (beside + self.magnitude.deviation).hull(log_bounds(self.at_zero))

    @cached_property
    def step_loss(self) -> Decimal:
        """Largest |ln P[j] - ln P[j + 1]|, rounded up: the privacy loss of one unit."""
        with precise(ROUND_CEILING):
            return self.rate + self.deviation.width + GUARD

    def probability(self, j: int) -> Fraction:
        """P[η = j], exactly."""
        return self.at_zero if j == 0 else self.one_side * self.magnitude.probability(abs(j) - 1)

    def at_least(self, j: int) -> Fraction:
        """P[η >= j], exactly."""
        if j <= 0:
            return 1 - self.at_least(1 - j)
        return self.one_side * self.magnitude.at_least(j - 1)

    def tails(self, first: int, last: int) -> list[Fraction]:
        """P[η >= j] for j = first..last, first >= 1, each less than 2^-240 too small: sums of 256
        binary digits.
        """
        scale = 1 << 256
        side = math.floor(self.one_side * scale)
        sums = [math.floor(self.at_least(last) * scale)]
        for j in range(last - 1, first - 1, -1):
            sums.append(sums[-1] + self.magnitude.scaled(j - 1, side))
        return [Fraction(value, scale) for value in reversed(sums)]

    def smallest_tail(self, chance: Fraction) -> int:
        """The smallest j >= 1 with P[η >= j] <= chance."""
        # An estimate from the ideal law, then exact steps: the tail decreases in j.
        with precise():
            j = max(1, int((to_decimal(self.one_side).ln() - to_decimal(chance).ln()) / self.rate))
        while self.at_least(j) > chance:
            j += 1
        while j > 1 and self.at_least(j - 1) <= chance:
            j -= 1
        return j

    # As floats, for predictions and intervals.

    @property
    def mean_size(self) -> float:
        """E|η|."""
        return bounds.geometric_mean_error(float(self.rate))

    @property
    def variance_of_draws(self) -> float:
        """The variance of the noise."""
        return bounds.geometric_variance(float(self.rate))

    def exceeded_with(self, failure: float) -> float:
        """The smallest r with P[|η| > r] at most `failure`."""
        return bounds.geometric_error_with_probability(float(self.rate), failure)

    def largest_of(self, draws: float) -> float:
        """A bound on the expected largest |η| of so many draws."""
        return bounds.expected_maximum(float(self.rate), draws)

    def spread(self, samples: int) -> npt.NDArray[np.int64]:
        """Evenly spaced quantiles in random order: a sample without sampling error, for
        predictions.
        """
        rate = float(self.rate)
        fractions = (np.arange(samples) + 0.5) / samples
        side = np.minimum(fractions, 1 - fractions)  # P[η <= -j] = exp(-λ j)/(1 + exp(-λ))
        magnitudes = np.floor(-np.log(side * (1 + math.exp(-rate))) / rate)
        noise = np.where(fractions < 0.5, -1, 1) * np.maximum(magnitudes, 0)
        return np.random.default_rng(0).permutation(noise).astype(np.int64)

    def faults(self) -> Iterator[str]:
        """What is wrong with one that was not planned here, if anything."""
        if not 0 < self.zero < 1 << WORD_BITS:
            yield "the threshold of zero must be in 1..2^64 - 1"
        if len(self.magnitude.digits) > MOST_NOISE_DIGITS or self.rate < SMALLEST_STEP_LOSS / 4:
            yield "the noise is wider than any noise that is drawn"


@dataclass(frozen=True)
class Passing:
    """Which positions of a domain pass, each with a small probability, by jumping over geometric
    gaps.
    """

    gap: Geometric

    @classmethod
    def with_chance(cls, chance: Fraction, word_bits: int = WORD_BITS) -> Passing:
        """Thresholds nearest to independent passing with the given probability."""
        with precise():
            rate = -(1 - to_decimal(chance)).ln()
        return cls(Geometric.with_rate(rate, word_bits))

    @cached_property
    def log_odds(self) -> Interval:
        """Bounds of ln(P[i passes] / P[i does not]) given all other positions.

        Splitting a gap g = g1 + 1 + g2 at i multiplies by P[g1] P[g2] / P[g] = P[0] exp(λ + e(g1) +
        e(g2) - e(g)), and the same with tail sums if i is the last that passes.
        """
        low, high = self.gap.deviation
        with precise():
            center = log_bounds(self.gap.at_zero) + self.gap.rate
            return Interval(center.low + 2 * low - high, center.high + 2 * high - low)

    @cached_property
    def chance(self) -> tuple[Fraction, Fraction]:
        """Bounds of the probability that a position passes, given all other positions."""
        with precise():
            low, high = (odds.exp() for odds in self.log_odds)
            return Fraction(low / (1 + low) * (1 - GUARD)), Fraction(high / (1 + high) * (1 + GUARD))
