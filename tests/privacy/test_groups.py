"""Hops between inputs, found by trying all ways, and what several of them lose, in rational
arithmetic.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from itertools import product

import pytest

from exact import exp_up
from sparsedp.errors import ParameterError
from sparsedp.privacy.groups import Hop, group
from sparsedp.privacy.laws import precise

Vector = tuple[int, ...]
KEYS, LARGEST = 3, 4


def near(x: Vector, y: Vector, hop: Hop) -> bool:
    """Whether two inputs are neighbours."""
    moved = [abs(a - b) for a, b in zip(x, y, strict=True)]
    if hop.keys is None:
        return sum(moved) <= hop.total
    return sum(1 for by in moved if by) <= hop.keys and max(moved) <= hop.per_key


def hops_needed(hop: Hop) -> dict[Vector, int]:
    """The least number of hops from zero to every vector, by trying all of them."""
    vectors = list(product(range(LARGEST + 1), repeat=KEYS))
    reached = {(0,) * KEYS: 0}
    latest = list(reached)
    while latest:
        latest = [y for y in vectors if y not in reached and any(near(x, y, hop) for x in latest)]
        reached |= dict.fromkeys(latest, max(reached.values()) + 1)
    return reached


@pytest.mark.parametrize("hop", [Hop(Fraction(total)) for total in (1, 2, 5)], ids=str)
def test_hops_by_total_distance_are_as_few_as_there_can_be(hop: Hop) -> None:
    for moved, needed in hops_needed(hop).items():
        assert hop.between(KEYS, Fraction(sum(moved)), Fraction(LARGEST)) == needed


@pytest.mark.parametrize(("keys", "per_key"), [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (1, 3), (2, 3)])
def test_hops_by_keys_are_enough_for_all_inputs_and_needed_by_some(keys: int, per_key: int) -> None:
    # Catches hops that forget one of the three distances, or round one of them down.
    hop = Hop(Fraction(keys * per_key), keys, per_key)
    needed = hops_needed(hop)
    for count, largest in product(range(1, KEYS + 1), range(1, LARGEST + 1)):
        for total in range(1, count * largest + 1):
            within = [
                hops
                for moved, hops in needed.items()
                if sum(1 for by in moved if by) <= count and sum(moved) <= total and max(moved) <= largest
            ]
            assert max(within) == hop.between(count, Fraction(total), Fraction(largest))


def test_neighbours_are_one_hop_apart_and_equal_inputs_none() -> None:
    hop = Hop(Fraction(20), 20, 1)
    assert hop.between(20, Fraction(20), Fraction(1)) == hop.between(20, Fraction(1000), Fraction(1)) == 1
    assert hop.between(21, Fraction(21), Fraction(1)) == hop.between(1, Fraction(2), Fraction(2)) == 2
    assert hop.between(0, Fraction(9), Fraction(9)) == hop.between(9, Fraction(9), Fraction(0)) == 0
    assert Hop(Fraction(1, 2)).between(3, Fraction(5, 4), Fraction(1)) == 3
    with pytest.raises(ParameterError, match="must not be negative"):
        hop.between(1, Fraction(-1), Fraction(1))


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 7.5])
@pytest.mark.parametrize("delta", [5e-324, 1e-12, 0.3])
def test_what_hops_lose_is_their_sum_rounded_up(epsilon: float, delta: float) -> None:
    for hops in (2, 3, 20):
        grown, failing = group(epsilon, delta, hops)
        assert 0 <= Fraction(grown) - hops * Fraction(epsilon) <= Fraction(math.ulp(grown))
        loss = Decimal(epsilon)
        with precise(ROUND_FLOOR):
            least = Fraction(delta) * sum(Fraction((i * loss).exp()) for i in range(hops))
        most = Fraction(delta) * sum(exp_up(loss, i) for i in range(hops))
        assert failing == 1 or least <= Fraction(failing) <= most * (1 + Fraction(1, 10**15)) + Fraction(5e-324)
        assert failing == 1 or least < 1


def test_one_hop_is_the_guarantee_itself_and_far_ones_are_none() -> None:
    assert group(900.0, 1e-9, 1) == (900.0, 1e-9)
    assert group(900.0, 1e-9, 0) == (0.0, 0.0)
    assert group(0.5, 0.0, 4_000_000) == (2e6, 0.0)
    assert group(0.5, 1e-300, 4_001) == (2000.5, 1.0)
    # Up to there it is computed, and the sum is above one before.
    assert group(1000.0, 5e-324, 2) == (2000.0, 1.0)
