"""What many draws of Gaussian noise cost together: δ for a given ε, as an upper bound.

A user moves up to m keys by up to M each. For noise that is a `CutGaussian`, the worst is m keys
moved by M, and the privacy loss is a linear function of the *sum* of the draws, apart from the
rounding of the masses to integers. The sum of the draws has nearly a discrete Gaussian law, with a
proven bound on every probability; rounding is paid for by a stated part of δ. So there is one sum
over integers to evaluate, with no grid and no Fourier transform (docs/privacy.md, "Gaussian
composition"). Floats are rounded up by `GUARD`, which exceeds all of their errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..errors import ParameterError
from .cut_laws import CutGaussian, Floats

GUARD = 1 + 1e-9
_MOST_TERMS = 1 << 16
_NEGLIGIBLE = 80.0  # e^-80 of a sum is less than its guard


@dataclass(frozen=True)
class Moved:
    """`draws` independent draws of a law, each of whose centres moves by up to `by`."""

    law: CutGaussian
    draws: int
    by: int

    @property
    def squared(self) -> Fraction:
        """Σ by²/variance over the draws: the square of what they reveal together."""
        return self.draws * Fraction(self.by) ** 2 / self.law.variance

    @property
    def slope(self) -> Fraction:
        """The loss of one unit of the sum of the draws."""
        return self.by / self.law.variance

    @property
    def rounding(self) -> float:
        """The part of δ for masses that are whole numbers: E min(1, loss - its linear part), where
        that is positive, for every draw and for the worst move up to `by`.
        """
        law, by = self.law, self.by
        deviations = np.concatenate([law.deviations[::-1], law.deviations[1:]])
        probabilities = np.concatenate([law.probabilities[::-1], law.probabilities[1:]])
        if by >= len(deviations):
            return 1.0
        excess = np.minimum(deviations[by:] - _least_before(deviations, by), 1.0)
        lost = probabilities[:by].sum()  # where a move makes a value impossible
        return float(GUARD * self.draws * (lost + (probabilities[by:] * excess).sum()))

    @property
    def log_constant(self) -> float:
        """The logarithm of C, if P[the sum of the draws is s] <= C·exp(-s²/(2·draws·variance))."""
        variance = float(self.law.variance)
        uneven = math.log1p(3 * math.exp(-(math.pi**2) * variance))
        # Only numbers near 0 are multiplied by the number of draws, or their errors would be too.
        many = self.draws * self.law.log_above_density + (self.draws - 1) * uneven
        return many - math.log(2 * math.pi * variance * self.draws) / 2


def _least_before(values: Floats, by: int) -> Floats:
    """The least of each value and the `by` values before it, from the first that has as many."""
    least, width = values, 1
    while width <= by:  # each entry is the least of `width` values that end there
        step = min(width, by + 1 - width)
        least = np.minimum(least[step:], least[:-step])
        width += step
    return least


@dataclass(frozen=True)
class SumLosses:
    """A bound on the losses of draws together: slope·y + centre has a mass of at most
    e^log_constant·exp(-y²/(2·variance)), for all whole y, and `rounding` is a δ beside that.
    """

    slope: Fraction
    centre: Fraction
    variance: Fraction
    log_constant: float
    rounding: float

    @classmethod
    def of(cls, moves: Sequence[Moved]) -> SumLosses:
        """The losses of one or two kinds of draws.

        The slopes of two kinds must be multiples of one another, so that the loss is a function of
        one whole number.
        """
        if len(moves) not in (1, 2):
            raise ValueError(f"there must be one or two kinds of draws, got {len(moves)}")
        first = moves[0]
        log_constant, slope = first.log_constant, first.slope
        variance = first.draws * first.law.variance  # of the whole number that decides the loss
        if len(moves) == 2:
            second = moves[1]
            slope = min(first.slope, second.slope)
            a, b = first.slope / slope, second.slope / slope
            if a.denominator != 1 or b.denominator != 1:
                raise ValueError("the slopes of two kinds of draws must be multiples of one another")
            other = second.draws * second.law.variance
            both = a * a * variance + b * b * other
            inner = float(variance * other / both)
            if inner < 1:
                raise ParameterError("this noise is too small to be composed; use noise='geometric'")
            log_constant += second.log_constant + math.log(2 * math.pi * inner) / 2
            log_constant += math.log1p(3 * math.exp(-2 * math.pi**2 * inner))
            variance = both
        centre = sum((move.squared for move in moves), Fraction(0)) / 2
        return cls(slope, centre, variance, log_constant, sum(move.rounding for move in moves))


def composed_delta(epsilon: float, moves: Sequence[Moved]) -> float:
    """The δ of one or two kinds of draws together, rounded up."""
    losses = SumLosses.of(moves)
    if losses.log_constant > _NEGLIGIBLE:  # nothing is known of laws that are so coarse, or draws so many
        return 1.0
    slope = losses.slope
    start = float((Fraction(epsilon) - losses.centre) / slope)
    exceeding = _expected_excess(start, float(slope), float(losses.variance))
    return GUARD * (GUARD * exceeding * math.exp(losses.log_constant) + losses.rounding)


def naming_delta(epsilon: float, moved: Moved, named: float, both_ways: bool, enough: float = 0.0) -> float:
    """The δ of noise on non-zero keys that are published only if they reach a threshold, rounded up
    by 1 % or to `enough`.

    Of the keys of a user, j are shared with others, and the noise hides the user. The others are new,
    and each of those is published with probability at most `named`. With signed values (`both_ways`)
    a user may also make the count of a key zero. The worst j is found by halving: noise costs more
    with more shared keys, and naming costs more with fewer (docs/privacy.md, "Gaussian names").
    """
    if named >= 1:
        return 1.0
    log_hidden = math.log1p(-named)  # of one new key

    def most(low: int, high: int) -> float:
        """A bound for all numbers of shared keys from low to high."""
        least, largest = (moved.draws - low) * log_hidden, (moved.draws - high) * log_hidden
        shown = -math.expm1(least)
        if high == 0:
            return GUARD * (shown if not both_ways else shown + max(0.0, -math.expm1(epsilon + least)))
        shared = [Moved(moved.law, high, moved.by)]
        hidden = composed_delta(epsilon + least, shared)
        if both_ways:
            return GUARD * (shown + hidden)
        return GUARD * max(shown + math.exp(largest) * composed_delta(epsilon - largest, shared), hidden)

    worst, left = 0.0, [(most(0, moved.draws), 0, moved.draws)]
    while left and max(left)[0] > max(enough, 1.01 * worst):
        bound, low, high = max(left)
        left.remove((bound, low, high))
        if low == high:
            worst = max(worst, bound)
            continue
        middle = (low + high) // 2
        left += [(most(low, middle), low, middle), (most(middle + 1, high), middle + 1, high)]
    return max(worst, max(left)[0] if left else 0.0)


def _expected_excess(start: float, slope: float, variance: float) -> float:
    """Σ exp(-y²/(2·variance))·(1 - exp(-slope·(y - start))) over whole y > start, or more."""
    end = math.sqrt(max(start, 0.0) ** 2 + 2 * _NEGLIGIBLE * variance)
    first = math.floor(max(start, -end)) + 1
    each = max(1, math.ceil((end - first) / _MOST_TERMS))  # of so many terms the largest factors are taken
    low = np.arange(first, end + each, each)
    high = low + (each - 1)
    nearest = np.where(low > 0, low, np.where(high < 0, high, 0.0))
    return float(each * (np.exp(-(nearest**2) / (2 * variance)) * -np.expm1(-slope * (high - start))).sum())


def gaussian_delta(epsilon: float, revealed: float) -> float:
    """δ of continuous Gaussian noise with Σ moves²/variance = revealed² (Balle and Wang 2018)."""

    def tail(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    if revealed <= 0:
        return 0.0
    less = tail(epsilon / revealed - revealed / 2)
    return less - math.exp(epsilon) * tail(epsilon / revealed + revealed / 2)


def most_revealed(epsilon: float, delta: float) -> float:
    """The largest Σ moves²/variance, as its root, that continuous Gaussian noise may have."""
    low, high = 0.0, 1.0
    while gaussian_delta(epsilon, high) < delta:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(epsilon, middle) <= delta else (low, middle)
    return low
