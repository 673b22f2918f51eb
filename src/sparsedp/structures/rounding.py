"""Random rounding of reals to the grid of counts, and of counts to levels of the embedding.

`LinearRounding` is step (1) of ALP1-projection: y = RandRound(count · slope), where slope = ε/α.
The slope is a 64-bit fixed-point number, so the rounding probability is exactly the fraction of
count · slope, and the law is exactly linear in the count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .. import _native
from ..errors import InputError
from ..privacy.laws import GUARD, precise, round_up, to_decimal
from ..privacy.randomness import Randomness, Words, bernoulli, pieces
from .table import LARGEST_COUNT

_FRACTION_BITS = 64


MOST_LEVELS = 1 << 16


@dataclass(frozen=True)
class LinearRounding:
    """A linear climb of one level every 1/slope counts, cut at `levels`; bits are flipped with
    `flip_probability`.
    """

    slope_fixed: int
    levels: int
    flip_probability: Fraction

    @classmethod
    def for_scale(cls, scale: Decimal, flip_probability: Fraction, largest: int) -> LinearRounding:
        """The paper's rounding: slope = scale/α with α = 1/p - 2, and m = ⌈largest · slope⌉ levels."""
        with precise():
            return cls._with_slope(scale / to_decimal(1 / flip_probability - 2), flip_probability, largest)

    @classmethod
    def for_loss(cls, step_loss: Decimal, flip_probability: Fraction, largest: int) -> LinearRounding:
        """The steepest linear rounding whose exact loss per count is at most `step_loss`."""
        odds = 1 / flip_probability - 1
        with precise():
            level_loss = to_decimal(odds).ln()
            whole = step_loss // level_loss
            part = ((step_loss - whole * level_loss).exp() - 1) / to_decimal(odds - 1)
            return cls._with_slope(whole + part, flip_probability, largest)

    @classmethod
    def _with_slope(cls, slope: Decimal, flip_probability: Fraction, largest: int) -> LinearRounding:
        fixed = int(slope * (1 << _FRACTION_BITS))
        levels = max(1, -(-largest * fixed >> _FRACTION_BITS))
        return cls(fixed, levels, flip_probability)

    @property
    def slope(self) -> Fraction:
        """Levels per count, exactly."""
        return Fraction(self.slope_fixed, 1 << _FRACTION_BITS)

    @property
    def step_loss(self) -> Decimal:
        """The exact loss of one count, rounded up: ⌊W⌋ ln ρ + ln(1 + (ρ - 1) frac(W)), W = slope, ρ
        = (1 - p)/p.
        """
        odds = 1 / self.flip_probability - 1
        whole = math.floor(self.slope)
        with precise(ROUND_CEILING):
            loss = round_up(1 + (odds - 1) * (self.slope - whole)).ln()
            if whole:
                loss += whole * round_up(odds).ln()
            return loss + GUARD

    def round_up_chance(self, count: int) -> tuple[int, Fraction]:
        """The height that a count always reaches, and the probability of one more level."""
        whole, fraction = divmod(count * self.slope_fixed, 1 << _FRACTION_BITS)
        if whole >= self.levels:
            return self.levels, Fraction(0)
        return whole, Fraction(fraction, 1 << _FRACTION_BITS)

    def heights(self, counts: npt.NDArray[np.int64], randomness: Randomness) -> Words:
        """Y = RandRound(count · slope), cut at `levels`."""
        whole, fraction = divmod(self.slope_fixed, 1 << _FRACTION_BITS)
        saturated = -(-(self.levels << _FRACTION_BITS) // self.slope_fixed)
        return _native.unary_heights(
            counts.astype(np.uint64),
            cap=min(saturated, (1 << 63) - 1),
            slope_whole=whole,
            slope_fraction=fraction,
            levels=self.levels,
            words=randomness.words(len(counts)),
        )

    def faults(self) -> Iterator[str]:
        """What is wrong with a rounding that was not planned here, if anything."""
        if self.slope_fixed < 1 or self.slope > MOST_LEVELS or not 0 < self.flip_probability < Fraction(1, 2):
            yield "the slope must be positive and the flip probability below one half"


def round_to_grid(values: npt.NDArray[np.float64], step: Fraction, randomness: Randomness) -> npt.NDArray[np.int64]:
    """Each value as a random neighbouring multiple of the step, unbiased; `InputError` beyond 2^63
    steps.
    """
    cells = np.empty(len(values), np.int64)
    for piece in pieces(len(values)):
        words = randomness.words(piece.stop - piece.start)
        rounded = _native.round_to_grid(values[piece], step.numerator, step.denominator, words)
        if isinstance(rounded, int):
            at = piece.start + rounded
            raise InputError(f"value at position {at} is 2^63 steps or more; use a larger step than {float(step):g}")
        cells[piece] = rounded
    return cells


def round_sums_to_grid(
    values: npt.NDArray[np.float64], starts: npt.NDArray[np.int64], step: Fraction, randomness: Randomness
) -> npt.NDArray[np.int64]:
    """The sums of the runs of values that begin at `starts`, each rounded once like one value of
    `round_to_grid`.

    Sums are exact except that every value loses up to 2^-64 of a cell; they are cut to ±2^61 after
    they are rounded.
    """
    cells = np.empty(len(starts), np.int64)
    for piece in pieces(len(starts)):
        first = starts[piece.start]
        end = starts[piece.stop] if piece.stop < len(starts) else len(values)
        words = randomness.words(piece.stop - piece.start)
        cells[piece] = _native.round_sums(
            values[first:end], starts[piece] - first, step.numerator, step.denominator, words, LARGEST_COUNT
        )
    return cells


def round_integers(values: npt.NDArray[np.int64], step: int, randomness: Randomness) -> npt.NDArray[np.int64]:
    """Each integer as a random neighbouring multiple of a step below 2^63, unbiased, in units of
    the step.

    Integers may have been cut before: cutting positions never increases a distance, and the coin is
    that of the position after the cut.
    """
    cells = np.empty(len(values), np.int64)
    for piece in pieces(len(values)):
        whole, part = np.divmod(np.abs(values[piece]).astype(np.uint64), np.uint64(step))
        rounded = (whole + bernoulli(randomness, _native.fractions(part, step))).astype(np.int64)
        cells[piece] = np.where(values[piece] < 0, -rounded, rounded)
    return cells
