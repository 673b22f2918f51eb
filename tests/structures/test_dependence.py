"""The bound on dependent rows is an upper bound: against the exact sum of tiny systems (promise
26).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import pytest

from sparsedp.structures.dependence import _log_factorial, dependence, pairs

# A segment must divide 2^32 for its slots to be equally likely, which the exact sum assumes.
SYSTEMS = [(1, 3, 4), (3, 2, 8), (7, 3, 8), (10, 5, 16), (20, 4, 16), (40, 3, 32), (60, 8, 16), (64, 5, 32)]


def even(t: int, m: int) -> Fraction:
    """P[t balls leave each of m bins even], exactly: 2^-m Σ_j C(m, j) (1 - 2j/m)^t."""
    total = sum((math.comb(m, j) * Fraction((m - 2 * j) ** t, m**t) for j in range(m + 1)), Fraction(0))
    return Fraction(total, 2**m)


def exact(keys: int, slots: int, segment: int) -> Fraction:
    sizes = range(2, keys + 2, 2)
    return sum((math.comb(keys, t - 1) * even(t, segment) ** slots for t in sizes), Fraction(0))


@pytest.mark.parametrize(("keys", "slots", "segment"), SYSTEMS)
@pytest.mark.promise(26)
def test_the_bound_is_above_the_exact_sum_and_close_to_it(
    keys: int, slots: int, segment: int, measured: Callable[..., None]
) -> None:
    # Catches C(k, t) for C(k, t - 1), a power of slots that is one off, and a term or a run that is
    # left out.
    sum_of_all = min(Fraction(1), exact(keys, slots, segment))
    bound = dependence(keys, slots, segment)
    assert sum_of_all <= bound <= 1
    assert bound <= 3 * sum_of_all
    measured(ratio=float(bound / sum_of_all))


@pytest.mark.parametrize("keys", [10**3, 10**5, 10**8, 10**10])
def test_large_systems_are_ruled_by_pairs(keys: int) -> None:
    segment = max(1 << 8, 1 << (keys.bit_length() - 1))
    if segment >= 1 << 31:
        assert dependence(keys, 5, (1 << 31) - 1) == 1  # too many keys: it says so quickly
        return
    alone = Fraction(keys) / Fraction(segment) ** 5
    assert alone < dependence(keys, 5, segment) < alone * Fraction(11, 10)


@pytest.mark.parametrize("keys", [1, 2, 10, 1000])
def test_pairs_are_the_first_term_so_no_system_is_left_out_by_them(keys: int) -> None:
    # Mutant: pairs that exceed the whole bound, so that a larger system than needed is taken.
    for slots in range(3, 9):
        for segment in (3, 7, 100, 12345, (1 << 31) - 1):
            assert min(Fraction(1), pairs(keys, slots, segment)) <= dependence(keys, slots, segment)


def test_slots_that_are_not_equally_likely_count_as_the_likeliest() -> None:
    # 2^32 hashes over 3 slots: one has a hash more than the others.
    assert dependence(1, 2, 3) >= Fraction(-(-(1 << 32) // 3), 1 << 32) ** 2


@pytest.mark.parametrize("n", [0, 1, 2, 39, 40, 41, 100, 1000])
def test_logarithms_of_factorials_are_right_to_24_digits(n: int) -> None:
    ours = _log_factorial(n)
    with localcontext(Context(prec=60)):
        assert abs(ours - Decimal(math.factorial(n)).ln()) < Decimal("1e-24")


def test_even_sums_do_not_increase() -> None:
    # Runs are bounded by their first P_t.
    for m in (1, 2, 3, 8, 16):
        chances = [even(t, m) for t in range(2, 60, 2)]
        assert all(later <= earlier for earlier, later in pairwise(chances))
