"""Retrieval with Gaussian noise: every output of tiny systems for users with two or three keys, with
exact probabilities.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import sparsedp
from exact import hockey_stick as divergence
from sparsedp.mechanisms.gaussian import GaussianSize, number_margin, number_overflow
from sparsedp.mechanisms.problem import UserBounds
from sparsedp.mechanisms.retrieval import RetrievalPlan
from sparsedp.mechanisms.support import margin
from sparsedp.planning.request import Request
from sparsedp.privacy.composition import Moved, composed_delta
from sparsedp.privacy.cut_laws import CutGaussian
from sparsedp.privacy.randomness import ReproducibleRandomness
from tiny_systems import REDRAWS, Masses, Seen, System, Vector, dense, hockey_stick, support, together

# Masses 4, 2 · 2, 2, 1 · 4, 3, 2, 1 · 10, 3, from zero on; the second is as flat as a law can be.
SMALL, FLAT = CutGaussian(3, Fraction(1), 1), CutGaussian(3, Fraction(4), 2)
WIDE, STEEP = CutGaussian(4, Fraction(4), 3), CutGaussian(4, Fraction(1, 2), 2)
FACTORS = [Fraction(1), Fraction(5, 4), Fraction(2), Fraction(5)]

# Keys that appear, vanish, move up and down, change their sign; by one, by two, by more than R.
PAIRS: list[tuple[Vector, Vector]] = [
    ((0, 0), (1, 1)),
    ((0, 0), (2, -1)),
    ((0, 1), (1, 0)),
    ((0, 3), (1, 4)),
    ((1, -1), (-1, 1)),
    ((2, 0), (0, -2)),
    ((0, 0), (5, 1)),
]


def log_below(factor: Fraction) -> float:
    """An ε with e^ε at most the factor."""
    return math.log(factor) - 1e-12


def changed(x: Vector, y: Vector) -> tuple[int, int]:
    """In how many keys two inputs differ, and by how much at most."""
    apart = [abs(a - b) for a, b in zip(x, y, strict=True) if a != b]
    return len(apart), max(apart)


@pytest.mark.parametrize("law", [SMALL, FLAT, WIDE, STEEP], ids=lambda law: str(law.masses))
@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_given_independent_rows_it_is_noise_on_every_key(law: CutGaussian, x: Vector, y: Vector) -> None:
    # Equal for every factor, so that nothing but dense noise is left to account for. Catches R for
    # R + 1, buckets of another law, stored keys outside of the system, one-sided thresholds.
    system = System(law, keys=2)
    noise = dense(law, x), dense(law, y)
    for rows in system.good(together(x, y))[:2]:
        p, q = system.given(rows, x), system.given(rows, y)
        for factor in FACTORS:
            assert hockey_stick(p, q, factor, system.denominator) == divergence(noise[0], noise[1], factor)
            assert hockey_stick(q, p, factor, system.denominator) == divergence(noise[1], noise[0], factor)


@pytest.mark.parametrize(("x", "y"), [((0, 0, 0), (1, 1, 1)), ((0, 1, 2), (1, 0, 1)), ((0, -1, 0), (2, 0, -2))])
def test_three_keys_are_as_private_as_dense_noise_on_them(x: Vector, y: Vector) -> None:
    system = System(SMALL, keys=3)
    noise = dense(SMALL, x), dense(SMALL, y)
    rows = system.good(together(x, y))[0]
    p, q = system.given(rows, x), system.given(rows, y)
    for factor in FACTORS:
        assert hockey_stick(p, q, factor, system.denominator) == divergence(noise[0], noise[1], factor)


@pytest.mark.parametrize("law", [SMALL, FLAT], ids=lambda law: str(law.masses))
def test_a_threshold_one_lower_is_not_dense_noise(law: CutGaussian) -> None:
    x, y = (0, 0), (1, 1)
    mutant = System(law, keys=2, stored_from=law.reach)
    rows = mutant.good([0, 1])[0]
    lost = hockey_stick(mutant.given(rows, y), mutant.given(rows, x), Fraction(2), mutant.denominator)
    assert lost > divergence(dense(law, y), dense(law, x), Fraction(2))


@pytest.mark.parametrize(
    "law", [SMALL, FLAT, WIDE, STEEP, CutGaussian(8, Fraction(3), 6)], ids=lambda law: str(law.masses)
)
def test_dense_noise_is_within_the_composed_delta_for_all_moves(law: CutGaussian) -> None:
    # Every way to move up to two keys by up to M, for M up to more than the reach: the accounting of
    # the worst move covers all of them, however coarse the integers. Catches a bound that takes only
    # the largest move, or leaves out values that a move makes impossible.
    for most in range(1, law.reach + 2):
        stated = {factor: composed_delta(log_below(factor), [Moved(law, 2, most)]) for factor in FACTORS}
        for move in product(range(-most, most + 1), repeat=2):
            for factor in FACTORS:
                assert divergence(dense(law, (0, 0)), dense(law, move), factor) <= stated[factor]


def test_the_composed_delta_is_nearly_attained_where_integers_are_fine() -> None:
    # Catches a variance that is five per cent smaller than stated.
    law, thinner = CutGaussian(16, Fraction(4), 20), CutGaussian(16, Fraction(4) * Fraction(95, 100) ** 2, 20)
    factor, zero, moved = Fraction(2), (0, 0), (1, 1)
    stated = composed_delta(log_below(factor), [Moved(law, 2, 1)])
    assert 0.97 * stated <= divergence(dense(law, zero), dense(law, moved), factor) <= stated
    assert divergence(dense(thinner, zero), dense(thinner, moved), factor) > stated
    assert divergence(dense(law, (0, 0)), dense(law, (1, 2)), factor) > stated  # a key that moves by two


def lost_seeds(system: System, x: Vector, y: Vector) -> Fraction:
    """The mass of outputs under x that do not come from a seed with the same density under y."""
    union, own = together(x, y), support(x)
    defect = {name: system.defect(keys) for name, keys in (("x", own), ("y", support(y)), ("union", union))}
    density = {name: sum((defect[name] ** tries for tries in range(REDRAWS)), Fraction(0)) for name in ("x", "y")}
    beyond = density["x"] * (defect["union"] - defect["x"])
    extra = max(Fraction(0), density["x"] - density["y"]) * (1 - defect["union"])
    return beyond + extra + defect["x"] ** REDRAWS


def stated_seeds(system: System, x: Vector, y: Vector) -> Fraction:
    """m·δ_h·(1/(1 - p) + 1/(1 - p)²) + p^redraws."""
    union = together(x, y)
    defect, users = system.defect(union), changed(x, y)[0]
    further = max(
        system.defect(union[: at + 1]) - system.defect(union[:at]) for at in range(len(union))
    )  # rows are exchangeable
    return users * further * (1 / (1 - defect) + 1 / (1 - defect) ** 2) + defect**REDRAWS


def whole(system: System, x: Vector) -> dict[Seen, Masses]:
    return dict(system.accepted(x))


@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_the_seed_costs_no_more_than_stated(x: Vector, y: Vector) -> None:
    # Catches δ_h that is counted for one key only, and a density of seeds that is taken for equal.
    for system in (System(SMALL, keys=2), System(SMALL, keys=2, segment=3)):
        assert lost_seeds(system, x, y) <= stated_seeds(system, x, y)
    system = System(SMALL, keys=2)
    p, of = whole(system, x), system.denominator * len(system.hashes) ** 3
    assert sum(int(masses.sum()) for masses in p.values()) == of
    for factor in FACTORS:
        noise = divergence(dense(SMALL, x), dense(SMALL, y), factor)
        spent = hockey_stick(p, whole(system, y), factor, of)
        assert spent <= noise + lost_seeds(system, x, y)
        assert spent >= noise / 4  # and the noise is really spent


NUMBER = CutGaussian(8, Fraction(8), 6)
USER = UserBounds(2, 1)


def number_masses(keys: int) -> dict[int, Fraction]:
    """The law of the noisy number of keys."""
    reach = NUMBER.reach
    return {keys + v: Fraction(NUMBER.masses[abs(v)], 1 << NUMBER.bits) for v in range(-reach, reach + 1)}


def with_number(law: CutGaussian, x: Vector) -> dict[tuple[int, ...], Fraction]:
    """Dense noise on the counts, and noise on the number of those that are not zero."""
    number, noise = number_masses(len(support(x))), dense(law, x)
    return {(n, *values): p * q for n, p in number.items() for values, q in noise.items()}


@pytest.mark.parametrize(("x", "y"), [((0, 0), (1, 1)), ((0, 1), (1, 0)), ((1, 0), (0, 0)), ((1, -1), (0, 0))])
def test_the_noisy_number_is_composed_with_the_counts(x: Vector, y: Vector) -> None:
    # The number moves by up to two with the keys. Catches a number that is left out of the
    # composition, and one that moves by one only.
    law = CutGaussian(12, Fraction(4), 8)
    moves = [Moved(law, USER.keys, USER.per_key), Moved(NUMBER, 1, USER.number_shift)]
    for factor in FACTORS[1:]:
        stated = composed_delta(log_below(factor), moves)
        spent = divergence(with_number(law, x), with_number(law, y), factor)
        assert spent <= stated
        if changed(x, y) == (2, 1) and len(support(x)) != len(support(y)):
            assert spent > composed_delta(log_below(factor), moves[:1])
            assert spent > composed_delta(log_below(factor), [moves[0], replace(moves[1], by=1)])


def sized(x: Vector, y: Vector, factor: Fraction, above: int) -> Fraction:
    """The exact δ of the whole release of two keys: there is room for one unless the noisy number,
    and what is added to it, asks for more.
    """
    systems = {1: System(SMALL, keys=2, segment=1), 2: System(SMALL, keys=2)}
    laws = {room: (whole(own, x), whole(own, y)) for room, own in systems.items()}
    theirs = number_masses(len(support(y)))
    released = Fraction(0)
    for n, p in number_masses(len(support(x))).items():
        system = systems[room := min(2, max(1, max(1, n) + above))]
        of = system.denominator * len(system.hashes) ** 3
        released += p * hockey_stick(*laws[room], factor * theirs.get(n, 0) / p, of)
    return released


@pytest.mark.parametrize("above", [-3, -1, 0, 1, 2])
@pytest.mark.parametrize(("x", "y"), [((0, 0), (1, 1)), ((0, 1), (1, 0)), ((0, 1), (0, 2)), ((2, -1), (0, 0))])
def test_an_array_that_is_too_small_is_part_of_the_guarantee(x: Vector, y: Vector, above: int) -> None:
    # Catches an overflow without the keys of a user, or with the noise of one key.
    system = System(SMALL, keys=2)
    for factor in FACTORS[1:]:
        for one, other in ((x, y), (y, x)):
            noise = divergence(with_number(SMALL, one), with_number(SMALL, other), factor)
            small = number_overflow(USER, NUMBER, above)
            assert sized(one, other, factor, above) <= noise + small + lost_seeds(system, one, other)


def test_the_margin_is_the_smallest_that_keeps_the_share_of_delta() -> None:
    for keys in (1, 3, 100, 1000):
        user = UserBounds(keys, 1)
        law = CutGaussian(64, Fraction(100), 1 << 17)
        chance = Fraction(1, 10**7)
        above = number_margin(user, law, chance)
        assert number_overflow(user, law, above) <= chance < number_overflow(user, law, above - user.unit)


@pytest.mark.parametrize("keys", [1, 2, 5, 200])
@pytest.mark.parametrize("parts", [1, 3])
def test_no_array_is_too_small_unless_the_number_is(keys: int, parts: int) -> None:
    # All splits of a user's keys over parts, on top of any number of other keys. Catches a margin
    # without the user's keys, units that are rounded down, and a number that is not the largest.
    user = UserBounds(keys, 1)
    law = CutGaussian(32, Fraction(9), 40)
    spreads = (
        [(keys, *[0] * (parts - 1))]
        if parts == 1 or keys > 9
        else [spread for spread in product(range(keys + 1), repeat=parts) if sum(spread) <= keys]
    )
    for before in product((0, 1, user.unit, user.unit + 1, 70), repeat=parts):
        for spread in spreads:
            union = max(own + more for own, more in zip(before, spread, strict=True))
            for above in (keys, keys + user.unit, keys + 7 * user.unit - 1):
                units = -(-max(before) // user.unit)
                missed = sum(
                    Fraction(law.masses[abs(noise)], 1 << 32)
                    for noise in range(-law.reach, law.reach + 1)
                    if union > max(1, user.unit * (units + noise)) + above
                )
                assert missed <= number_overflow(user, law, above)


@pytest.mark.parametrize(("keys", "parts"), [(1, 1), (3, 1), (3, 4), (130, 3), (700, 2)])
def test_the_largest_part_moves_by_no_more_than_the_keys_of_a_user(keys: int, parts: int) -> None:
    # Catches the sum over parts, units that are counted as keys, and units of which a user has more.
    user = UserBounds(keys, 1)
    random = np.random.default_rng(keys)
    law = CutGaussian(16, Fraction(1), 1)
    size = GaussianSize(law, user)
    zero = law.draw(1, ReproducibleRandomness(1))[0]
    for _ in range(200):
        before = random.integers(0, 3 * keys + 2, parts)
        more = np.bincount(random.integers(0, parts, int(random.integers(0, keys + 1))), minlength=parts)
        numbers = []
        for counted in (before, before + more):
            (noisy,) = size.noisy(counted.tolist(), ReproducibleRandomness(1))
            assert noisy % user.unit == 0
            numbers.append(noisy // user.unit - zero)
            assert user.unit * numbers[-1] >= counted.max()
        assert 0 <= numbers[1] - numbers[0] <= user.number_shift
    assert user.unit * user.number_shift >= keys


def test_a_release_states_all_causes_of_its_delta() -> None:
    plan = sparsedp.plan(
        1.0, 1e-6, nonzero=5000, max_keys_per_user=20, parts=3, mechanism="retrieval", noise="gaussian"
    )
    assert isinstance(plan, RetrievalPlan)
    assert set(plan.delta_parts) == {"noise", "dependent", "no seed", "overflow"}
    law, system = plan.problem.sizing_noise, plan.system
    assert isinstance(law, CutGaussian)
    assert plan.room is not None
    assert plan.delta_events["overflow"] == number_overflow(UserBounds(20, 1), law, system.keys - plan.room)
    assert plan.delta_events["no seed"] == 3 * system.rank_defect**16
    rows = 20 * system.dependence * (1 / (1 - system.rank_defect) + 1 / (1 - system.rank_defect) ** 2)
    assert plan.delta_events["dependent"] >= rows + Fraction(math.comb(20, 2), 1 << 64)
    assert sum(plan.delta_events.values()) == plan.exact_delta <= 1e-6


def test_two_keys_of_a_user_with_one_fingerprint_are_paid_for() -> None:
    # Counts are kept by fingerprint: such a key would move by twice what the noise is made for.
    # Kept keys have noise of their own, and only one of them is in the system; a user's key may share
    # the fingerprint of any key, of whatever part.
    def dependent(**options: Any) -> tuple[Fraction, RetrievalPlan]:
        plan = sparsedp.plan(1.0, 1e-6, nonzero=9000, mechanism="retrieval", noise="gaussian", **options)
        assert isinstance(plan, RetrievalPlan)
        return plan.delta_events["dependent"] - 2 * plan.problem.moved_keys * _rows(plan), plan

    assert dependent(max_keys_per_user=1000)[0] == Fraction(math.comb(1000, 2), 1 << 64)
    assert dependent(max_keys_per_user=1000, domain=1 << 40)[0] == 0
    kept, plan = dependent(max_keys_per_user=20, keep_keys=True, parts=3)
    assert kept == Fraction(20 * 3 * plan.system.keys, 1 << 64)
    stage = sparsedp.plan(1.0, 1e-6, max_keys_per_user=1000, mechanism="stability", noise="gaussian")
    assert stage.exact_delta - Fraction(stage.stage.delta(1.0)) == Fraction(math.comb(1000, 2), 1 << 64)  # type: ignore[attr-defined]  # of a StabilityPlan
    user: dict[str, Any] = {"max_keys_per_user": 20, "noise": "gaussian", "mechanism": "retrieval", "keep_keys": True}
    for keys, parts in ((10**9, 1), (9000, 1 << 20)):
        with pytest.raises(sparsedp.ParameterError, match="share a fingerprint"):
            sparsedp.plan(1.0, 1e-10, nonzero=keys, parts=parts, **user)


def _rows(plan: RetrievalPlan) -> Fraction:
    return plan.system.dependence / (1 - plan.system.rank_defect) ** 2


def test_fingerprints_collide_as_often_as_stated() -> None:
    # With 2^12 fingerprints in place of 2^64: how often two of m keys share one.
    random, keys, trials = np.random.default_rng(1), 20, 20_000
    shared = sum(Counter(random.integers(0, 1 << 12, keys).tolist()).most_common(1)[0][1] > 1 for _ in range(trials))
    bound = math.comb(keys, 2) / (1 << 12)
    assert 0.9 * bound < shared / trials < bound + 5 * math.sqrt(bound / trials)


def test_margins_are_planned_for_the_users_keys() -> None:
    problem = Request(epsilon=1.0, delta=1e-6, max_keys_per_user=50, noise="gaussian").problem
    problem = replace(problem, noise="gaussian")
    law = GaussianSize.plan(problem).law
    user = UserBounds.of(problem)
    assert user == UserBounds(50, 1)
    assert margin(problem, law) == number_margin(user, law, Fraction(1e-6) / 16)
