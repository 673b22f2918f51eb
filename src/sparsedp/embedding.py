"""The noisy bit array of ALP, in the paper's layout: one column of bits per level, one hash function each."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from . import _native
from .hashing import draw_row_functions
from .randomness import Randomness, Words, flip

FLIP_DIGITS = 16
SMALLEST_ALPHA, LARGEST_ALPHA = 0.05, 1000.0


def dyadic_flip_probability(alpha: float) -> Fraction:
    """The paper's p = 1/(α + 2), rounded up to a multiple of 2^-16 so that flips are exact."""
    scale = 1 << FLIP_DIGITS
    return Fraction(-(-scale // (Fraction(alpha) + 2)), scale)


@dataclass(frozen=True)
class Columns:
    """The shape of the classic embedding: `rows` (s) bits for each of `levels` (m) levels."""

    rows: int
    levels: int
    flip_probability: Fraction

    @property
    def words_per_level(self) -> int:
        """64-bit words of one level."""
        return -(-self.rows // 64)

    @property
    def nbytes(self) -> int:
        """Bytes of the bit array and of its hash functions."""
        return 8 * self.levels * (self.words_per_level + 4)

    def project(self, ids: Words, heights: Words, randomness: Randomness) -> tuple[Words, Words]:
        """Steps (2) and (3) of ALP1-projection: fresh hash functions, unary bits, randomized response."""
        functions = draw_row_functions(randomness, self.levels)
        array = np.zeros(self.levels * self.words_per_level, np.uint64)
        _native.embed_columns(array, functions, self.rows, ids, heights)
        flip(randomness, array, *self._flip_digits())
        return array, functions

    def estimate(self, array: Words, functions: Words, ids: Words) -> npt.NDArray[np.float64]:
        """ALP1-estimator: for each id the average of all maximisers of the partial sums, in levels."""
        return _native.estimate_columns(array, functions, self.rows, ids)

    def _flip_digits(self) -> tuple[int, int]:
        # Fewer digits when the probability allows: p = 1/4 needs two random words per word, not sixteen.
        denominator = self.flip_probability.denominator
        return self.flip_probability.numerator, denominator.bit_length() - 1
