"""Buckets of files that are older than `privacy/cut_laws.py`: ranges of numbers whose widths are
nearly those of a geometric law, so that a uniform number reads as noise around zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, pairwise

from .._util.lazy import cached_property
from ..privacy.laws import TwoSided, log_bounds
from .table import threshold_fits

MOST_BUCKETS = 1 << 13  # noisy values up to the threshold; plans stay well below


@dataclass(frozen=True)
class NoiseBuckets:
    """The numbers below 2^bits, cut into one run for each noisy value from `lowest` to threshold -
    1.
    """

    noise: TwoSided
    lowest: int
    threshold: int
    bits: int

    @cached_property
    def ends(self) -> list[int]:
        """Numbers below ends[i] decode to at most lowest + i: P[η <= v | η < T] · 2^bits, less than
        two off.
        """
        extra = 1 << 64  # keeps the floors of all values together less than one off
        scale = Fraction(extra << self.bits) / (1 - self.noise.at_least(self.threshold))
        side = math.floor(self.noise.one_side * scale)
        at_zero = math.floor(self.noise.at_zero * scale)
        lowest = math.floor(self.noise.at_least(-self.lowest) * scale)  # η <= lowest
        inner = (
            at_zero if v == 0 else self.noise.magnitude.scaled(abs(v) - 1, side)
            for v in range(self.lowest + 1, self.threshold - 1)
        )
        return [end // extra for end in accumulate(inner, initial=lowest)] + [1 << self.bits]

    @cached_property
    def widths(self) -> list[int]:
        """How many numbers decode to each value."""
        return [high - low for low, high in pairwise([0, *self.ends])]

    @cached_property
    def zero_loss(self) -> Decimal:
        """The largest |ln(P[v | count 1] / P[v | count 0])| over values that are not stored,
        rounded up.
        """
        scale = 1 << (self.bits + 256)  # masses are floors of integers of at least 2^200, less than two off
        side, at_zero = math.floor(self.noise.one_side * scale), math.floor(self.noise.at_zero * scale)
        masses = [math.floor(self.noise.at_least(1 - self.lowest) * scale)]  # 1 + η <= lowest
        for v in range(self.lowest + 1, self.threshold):
            masses.append(at_zero if v == 1 else self.noise.magnitude.scaled(abs(v - 1) - 1, side))
        widths = [width << 256 for width in self.widths]
        most = max(Fraction(mass + 2, width) for mass, width in zip(masses, widths, strict=True))
        least = min(Fraction(mass, width) for mass, width in zip(masses, widths, strict=True))
        # A uniform number below a width is off by a share of 2^-64.
        worst = max(most, 1 / least) * (1 + Fraction(1, 1 << 60))
        return log_bounds(worst).high

    def faults(self) -> Iterator[str]:
        """What is wrong with buckets that were not planned here, if anything."""
        if not 2 <= self.threshold <= MOST_BUCKETS or not threshold_fits(self.noise, self.threshold):
            yield "the threshold is out of range"
        elif self.lowest != 1 - self.threshold or self.bits not in range(8, 65, 8):
            yield "values must be symmetric, and numbers must have 8, 16, … 64 bits"
        elif min(self.widths) < 1:
            yield "every value must have a number"
