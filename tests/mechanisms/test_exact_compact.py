"""Compact: every polynomial over a tiny field, with its exact probability."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparsedp
from exact import PreparedWords, exp_up
from sparsedp.mechanisms.compact import Buckets, CompactPlan, cut_to_total, interpolate
from sparsedp.planning.request import Request
from sparsedp.privacy.laws import TwoSided
from sparsedp.privacy.randomness import ReproducibleRandomness

Vector = tuple[int, ...]
BUCKETS = Buckets(31, TwoSided.with_rate(Decimal("0.6"), 6), largest=2)
DEGREE = 1
KEYS = 3


def noisy_law(buckets: Buckets, count: int) -> list[Fraction]:
    """P[clamp(count + η, 0, largest) = v]."""
    noise, top = buckets.noise, buckets.largest
    middle = [noise.probability(v - count) for v in range(1, top)]
    return [1 - noise.at_least(1 - count), *middle, noise.at_least(top - count)]


def polynomial_law(buckets: Buckets, x: Vector) -> dict[tuple[int, ...], Fraction]:
    """P[coefficients | x], by carrying out the build for every value, element and free coefficient."""
    support = [key for key, count in enumerate(x) if count]
    free = DEGREE + 1 - len(support)
    law: dict[tuple[int, ...], Fraction] = {}
    laws = [noisy_law(buckets, x[key]) for key in support]
    for elements in product(range(buckets.prime), repeat=len(support)):
        mass = Fraction(1, buckets.prime**free)
        for element, values in zip(elements, laws, strict=True):
            v = buckets.decode(element)
            mass *= values[v] / buckets.widths[v]
        for rest in product(range(buckets.prime), repeat=free):
            coefficients = tuple(interpolate(buckets.prime, support, list(elements), list(rest)))
            law[coefficients] = law.get(coefficients, Fraction(0)) + mass
    return law


def test_every_polynomial_has_mass_one_in_all() -> None:
    for x in ((0, 0, 0), (2, 0, 0), (0, 1, 2)):
        law = polynomial_law(BUCKETS, x)
        assert len(law) == BUCKETS.prime ** (DEGREE + 1)
        assert sum(law.values()) == 1


def test_no_polynomial_changes_by_more_than_the_step_loss() -> None:
    # Catches buckets that are off by more than one element and a value law other than that of a
    # zero count.
    bound = exp_up(BUCKETS.noise.step_loss) * exp_up(BUCKETS.loss)
    sparse = [x for x in product(range(3), repeat=KEYS) if sum(map(bool, x)) <= DEGREE + 1]
    laws = {x: polynomial_law(BUCKETS, x) for x in sparse}
    pairs = 0
    for x, p in laws.items():
        for i in range(KEYS):
            q = laws.get((*x[:i], x[i] + 1, *x[i + 1 :]))
            if q is not None:
                pairs += 1
                assert max(max(p[f] / q[f], q[f] / p[f]) for f in p) <= bound
    assert pairs > 15


def test_an_absent_key_decodes_to_the_law_of_zero() -> None:
    law = polynomial_law(BUCKETS, (2, 0, 0))
    decoded = [Fraction(0)] * 3
    for (c0, c1), mass in law.items():
        decoded[BUCKETS.decode((c0 + 2 * c1) % BUCKETS.prime)] += mass
    assert decoded == [Fraction(width, BUCKETS.prime) for width in BUCKETS.widths]


def test_bucket_widths_follow_the_law_of_zero_to_two_elements() -> None:
    for buckets in (BUCKETS, Buckets((1 << 127) - 1, TwoSided.with_rate(Decimal("0.6")), largest=60)):
        for width, mass in zip(buckets.widths, noisy_law(buckets, 0), strict=True):
            assert abs(width - mass * buckets.prime) < 2
        assert sum(buckets.widths) == buckets.prime


def test_encoding_is_uniform_inside_the_bucket() -> None:
    for value, width in enumerate(BUCKETS.widths):
        bits = (width - 1).bit_length()
        seen = {BUCKETS.encode(value, PreparedWords([(word << (64 - bits)) if bits else 0])) for word in range(width)}
        assert len(seen) == width
        assert {BUCKETS.decode(element) for element in seen} == {value}


@given(st.lists(st.integers(1, 9), max_size=8), st.integers(0, 7), st.integers(1, 30))
def test_cutting_to_a_total_at_most_doubles_a_change(counts: list[int], changed: int, total: int) -> None:
    x = dict(enumerate(counts))
    y = {**x, changed: x.get(changed, 0) + 1}

    def cut(vector: dict[int, int]) -> dict[int, int]:
        ids, kept = cut_to_total(np.array(list(vector), np.uint64), np.array(list(vector.values()), np.int64), total)
        return dict(zip(ids.tolist(), kept.tolist(), strict=True))

    a, b = cut(x), cut(y)
    assert sum(a.values()) == min(total, sum(counts))
    assert sum(abs(a.get(key, 0) - b.get(key, 0)) for key in {*a, *b}) <= 2


def test_without_nonzero_the_total_is_enforced_at_twice_the_loss() -> None:
    bound = sparsedp.plan(1.0, total=50, mechanism="compact")
    assumed = sparsedp.plan(1.0, nonzero=50, mechanism="compact")
    assert isinstance(bound, CompactPlan)
    assert isinstance(assumed, CompactPlan)
    assert bound.assumption is None
    assert assumed.assumption is not None
    assert bound.buckets.noise.rate < Decimal("0.51")
    assert 0.999 < bound.epsilon <= 1.0
    assert 0.999 < assumed.epsilon <= 1.0


def test_more_keys_than_the_public_bound_publish_pure_noise() -> None:
    problem = Request(epsilon=1.0, nonzero=2).problem
    plan = CompactPlan.create(problem)
    ids, counts = np.arange(10, dtype=np.uint64), np.full(10, 200)
    arrays = plan.build(ids, counts, ReproducibleRandomness(1))
    assert arrays["coefficients"].shape == (3, 9)
    assert plan.estimate(arrays, ids).max() < 100


@pytest.mark.parametrize("upper", [None, 500, 2000])
def test_larger_counts_take_a_larger_field(upper: int | None) -> None:
    plan = sparsedp.plan(1.0, nonzero=5, upper=upper, mechanism="compact")
    assert isinstance(plan, CompactPlan)
    assert min(plan.buckets.widths) >= 1 << 59
    assert all(low < high for low, high in pairwise(plan.buckets.ends))
    release = sparsedp.release({"a": upper or 100}, epsilon=1.0, nonzero=5, upper=upper, mechanism="compact")
    assert abs(release["a"] - (upper or 100)) < 60
