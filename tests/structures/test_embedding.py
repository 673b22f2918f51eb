"""ALP's kernels against the paper's lines in plain NumPy, and the paper's worked example."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from sparsedp import _native
from sparsedp.keys.hashing import draw_row_functions
from sparsedp.privacy.randomness import ReproducibleRandomness
from sparsedp.structures.embedding import Columns, dyadic_flip_probability, estimate_bits
from sparsedp.structures.rounding import LinearRounding
from statistics_helpers import LEVEL, chi_square_p

ONE = 1 << 64


def paper_estimator(bits: npt.ArrayLike) -> float:
    """ALP1-estimator as the paper writes it."""
    steps = 2 * np.asarray(bits, int) - 1
    f = np.concatenate([[0], np.cumsum(steps)])
    return float(np.flatnonzero(f == f.max()).mean())


def to_matrix(columns: Columns, array: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """The bit array as an s × m matrix."""
    words = array.reshape(columns.levels, columns.words_per_level)
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, : columns.rows].T


def test_the_worked_example_of_the_paper() -> None:
    # Figures 1 and 2: m = 8, s = 5, y = 5; after noise the sum is maximised at 3 and 5, the
    # estimate is 4.
    columns = Columns(rows=5, levels=8, flip_probability=Fraction(1, 4))
    functions = draw_row_functions(ReproducibleRandomness(0), 8)
    array = np.zeros(8, np.uint64)
    key = np.array([7], np.uint64)
    _native.embed_columns(array, functions, 5, key, np.array([5], np.uint64))
    rows = [int(_native.rows_of(functions, 5, level, key)[0]) for level in range(8)]
    matrix = to_matrix(columns, array)
    assert [int(matrix[row, level]) for level, row in enumerate(rows)] == [1] * 5 + [0] * 3
    assert matrix.sum() == 5
    assert columns.estimate(array, functions, key)[0] == 5

    array[3] ^= np.uint64(1 << rows[3])  # randomized response flips the fourth of its bits
    assert [array[level] >> np.uint64(rows[level]) & np.uint64(1) for level in range(8)] == [1, 1, 1, 0, 1, 0, 0, 0]
    assert columns.estimate(array, functions, key)[0] == 4


@pytest.mark.parametrize("levels", [1, 2, 7, 12])
def test_the_estimator_is_the_papers_on_every_bit_string(levels: int) -> None:
    bits = np.arange(1 << levels)[:, None] >> np.arange(levels) & 1 == 1
    assert estimate_bits(bits).tolist() == [paper_estimator(row) for row in bits]


@pytest.mark.parametrize("levels", [63, 64, 65, 200, 1667])
def test_the_estimator_skips_no_maximiser_of_long_rows(levels: int) -> None:
    # Steep, flat and falling walks: words far below the maximum are skipped, and ties are at any
    # distance.
    random = np.random.default_rng(levels)
    for chance in (0.1, 0.48, 0.5, 0.52, 0.9):
        bits = random.random((300, levels)) < chance
        bits[:, : levels // 2] |= random.random((300, levels // 2)) < 0.3
        assert estimate_bits(bits).tolist() == [paper_estimator(row) for row in bits]


def test_all_zeros_estimate_zero_and_all_ones_the_top() -> None:
    assert estimate_bits(np.zeros((1, 9), bool))[0] == 0
    assert estimate_bits(np.ones((1, 9), bool))[0] == 9


def test_projection_sets_exactly_the_unary_bits() -> None:
    random = np.random.default_rng(1)
    columns = Columns(rows=131, levels=6, flip_probability=Fraction(1, 4))
    functions = draw_row_functions(ReproducibleRandomness(1), 6)
    ids = random.integers(0, ONE - 1, 40, np.uint64, endpoint=True)
    heights = random.integers(0, 7, 40).astype(np.uint64)
    array = np.zeros(6 * columns.words_per_level, np.uint64)
    _native.embed_columns(array, functions, 131, ids, heights)
    wanted = np.zeros((131, 6), np.uint8)
    for level in range(6):  # z_{a,b} = 1 iff there is an i with b <= y_i and h_b(i) = a
        rows = _native.rows_of(functions, 131, level, ids)
        wanted[rows[heights > level].astype(int), level] = 1
    assert np.array_equal(to_matrix(columns, array), wanted)
    bits = np.stack([wanted[_native.rows_of(functions, 131, b, ids).astype(int), b] for b in range(6)], axis=1)
    assert columns.estimate(array, functions, ids).tolist() == [paper_estimator(row) for row in bits]


def test_randomized_response_flips_every_bit_with_probability_p() -> None:
    # Catches a flip probability that is off by 1 %: 5.5 σ of 4·10⁶ bits is 0.55 % of p.
    columns = Columns(rows=64 * 1000, levels=64, flip_probability=dyadic_flip_probability(3))
    nobody = np.empty(0, np.uint64)
    array, _ = columns.project(nobody, nobody, ReproducibleRandomness(2))
    bits, p = 64 * len(array), float(columns.flip_probability)
    assert abs(np.bitwise_count(array).sum() - bits * p) < 5.5 * math.sqrt(bits * p * (1 - p))


def test_each_projection_draws_its_own_hash_functions() -> None:
    columns = Columns(rows=64, levels=2, flip_probability=Fraction(1, 4))
    stream = ReproducibleRandomness(3)
    nobody = np.empty(0, np.uint64)
    first, second = (columns.project(nobody, nobody, stream)[1] for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("slope", [ONE // 7, int(0.9 * ONE), ONE, int(2.3 * ONE)])
def test_heights_are_randomly_rounded_and_cut(slope: int) -> None:
    rounding = LinearRounding(slope, 5, Fraction(1, 4))
    counts = np.array([0, 1, 2, 3, 10, 10**6, 2**61, 2**63 - 1])
    for count in counts.tolist():
        whole, chance = rounding.round_up_chance(count)
        threshold = int(chance * ONE)
        words = [0, max(0, threshold - 1), threshold, ONE - 1]
        for word in words:
            height = _native.unary_heights(
                np.array([count], np.uint64),
                cap=min(-(-(5 * ONE) // slope), 2**63 - 1),
                slope_whole=slope >> 64,
                slope_fraction=slope & (ONE - 1),
                levels=5,
                words=np.array([word], np.uint64),
            )[0]
            assert height == whole + (word < threshold)


def test_random_rounding_has_the_right_mean() -> None:
    rounding = LinearRounding(int(0.3 * ONE), 100, Fraction(1, 4))
    heights = rounding.heights(np.full(200_000, 4), ReproducibleRandomness(4))
    counts = np.bincount(heights.astype(int), minlength=3)
    assert counts[0] == 0
    assert chi_square_p(counts[1:3], [160_000, 40_000]) > LEVEL  # 4 · 0.3 = 1.2


@pytest.mark.parametrize("alpha", [0.05, 0.5, 1, 3, 10, 1000])
def test_the_flip_probability_is_the_papers_rounded_up(alpha: float) -> None:
    p = dyadic_flip_probability(alpha)
    ideal = 1 / (Fraction(alpha) + 2)
    assert ideal <= p < ideal + Fraction(1, 1 << 16)
    assert p < Fraction(1, 2)


def test_kernels_refuse_shapes_that_do_not_fit() -> None:
    functions = draw_row_functions(ReproducibleRandomness(5), 2)
    ids = np.zeros(3, np.uint64)
    with pytest.raises(ValueError, match="words for each level"):
        _native.estimate_columns(np.zeros(5, np.uint64), functions, 64, ids)
    with pytest.raises(ValueError, match="height exceeds"):
        _native.embed_columns(np.zeros(2, np.uint64), functions, 64, ids, np.full(3, 3, np.uint64))
    with pytest.raises(ValueError, match="multiple of"):
        _native.two_sided(np.zeros(4, np.uint64), 1, np.zeros(1, np.uint64))
