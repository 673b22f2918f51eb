"""Retrieval with geometric noise: every hash outcome, noise, number and array of tiny systems, with
exact probabilities. Gaussian noise: test_exact_gaussian.py.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sparsedp
from exact import PreparedWords, exp_up
from exact import hockey_stick as divergence
from sparsedp import _native
from sparsedp.mechanisms.retrieval import RetrievalPlan
from sparsedp.mechanisms.support import (
    OVERFLOW_SHARE,
    SupportSize,
    margin,
    overflow,
    step_delta,
    step_multiplier,
)
from sparsedp.planning.request import Request
from sparsedp.privacy.contributions import Contribution
from sparsedp.privacy.cut_laws import CutGaussian, CutGeometric, CutLaw
from sparsedp.privacy.laws import TwoSided
from sparsedp.privacy.randomness import Randomness, ReproducibleRandomness
from sparsedp.structures.linear_system import LinearSystem
from systems import solve
from tiny_systems import REDRAWS, Masses, Seen, System, Vector, dense, hockey_stick, support, together

# Masses 2, 1 · 4, 2 · 6, 1 · 10, 2, 1 · 6, 3, 2, from zero on.
LAWS = [CutGeometric(bits, Decimal(rate)) for bits, rate in ((2, "0.7"), (3, "0.7"), (3, "1.5"), (4, "1"), (4, "0.7"))]
STEPS: list[tuple[Vector, Vector]] = [
    ((0, 0), (1, 0)),
    ((0, 0), (-1, 0)),
    ((1, 0), (2, 0)),
    ((-2, 0), (-1, 0)),
    ((0, 2), (1, 2)),
    ((0, -3), (-1, -3)),
    ((1, 1), (1, 2)),
    ((5, -1), (5, 0)),
]


def whole(system: System, x: Vector) -> dict[Seen, Masses]:
    return dict(system.accepted(x))


def denominator(system: System) -> int:
    return system.denominator * len(system.hashes) ** 3


def seed_delta(system: System, x: Vector, y: Vector) -> Fraction:
    """δ_h/(1 - p)² and p^redraws for one step, with p and δ_h of these supports."""
    before, after = sorted(system.defect(support(v)) for v in (x, y))
    return (after - before) / (1 - after) ** 2 + after**REDRAWS


def worst_ratio(law: CutGeometric) -> Fraction:
    """e^w of a step; the stated loss is its logarithm, rounded up."""
    ratio = max(Fraction(max(a, b), min(a, b)) for a, b in zip(law.masses[1:], law.masses[:-1], strict=True))
    assert ratio <= exp_up(law.step_loss) <= ratio * (1 + Fraction(1, 10**15))
    return ratio


@pytest.mark.parametrize("law", LAWS, ids=lambda law: str(law.masses))
@pytest.mark.parametrize(("x", "y"), STEPS)
def test_one_step_is_within_the_stated_loss_and_delta(law: CutGeometric, x: Vector, y: Vector) -> None:
    # Catches buckets that are not the law, R for R + 1, stored keys that are left out of the system,
    # and a sign that is treated differently.
    system = System(law, keys=2)
    p, q, factor, of = whole(system, x), whole(system, y), worst_ratio(law), denominator(system)
    assert sum(int(masses.sum()) for masses in p.values()) == sum(int(masses.sum()) for masses in q.values()) == of
    delta = law.step_delta + seed_delta(system, x, y)
    both = [hockey_stick(p, q, factor, of), hockey_stick(q, p, factor, of)]
    assert max(both) <= delta
    if len(support(x)) == len(support(y)):
        assert max(both) <= law.step_delta
    assert min(both) >= law.step_delta / 2  # it is really spent, both ways


@pytest.mark.parametrize("law", LAWS, ids=lambda law: str(law.masses))
@pytest.mark.parametrize(("x", "y"), STEPS)
def test_given_independent_rows_it_is_noise_on_every_key(law: CutGeometric, x: Vector, y: Vector) -> None:
    # The heart of the proof: what is published about two inputs differs exactly as dense noise does.
    system = System(law, keys=2)
    rows = system.good(together(x, y) or [0])[-1]
    p, q = system.given(rows, x), system.given(rows, y)
    noise = dense(law, x), dense(law, y)
    for factor in (Fraction(1), Fraction(3, 2), worst_ratio(law), Fraction(4)):
        assert hockey_stick(p, q, factor, system.denominator) == divergence(noise[0], noise[1], factor)
        assert hockey_stick(q, p, factor, system.denominator) == divergence(noise[1], noise[0], factor)


def test_a_threshold_one_lower_breaks_the_guarantee() -> None:
    law = LAWS[3]
    x, y = STEPS[0]
    right, mutant = System(law, keys=2), System(law, keys=2, stored_from=law.reach)
    factor, of = worst_ratio(law), denominator(right)
    delta = law.step_delta + seed_delta(right, x, y)
    assert hockey_stick(whole(right, y), whole(right, x), factor, of) <= delta
    assert hockey_stick(whole(mutant, y), whole(mutant, x), factor, of) > delta


def test_only_independent_rows_may_be_accepted() -> None:
    # A mutant that takes the first seed, whatever the rows: two keys that read the same word.
    law, x, y = LAWS[0], (0, 2), (1, 2)
    system = System(law, keys=2)
    same = next(rows for rows in system.hashes if rows[0] == rows[1])
    p, q = system.given(same, x), system.given(same, y)
    totals = [sum(int(masses.sum()) for masses in own.values()) for own in (p, q)]
    assert totals[0] == system.denominator != totals[1]  # there is no such law


@pytest.mark.parametrize("law", [CutGeometric(8, Decimal("0.7")), CutGaussian(8, Fraction(4), 5)])
def test_words_are_uniform_among_those_of_their_value(law: CutLaw) -> None:
    start = 0
    for value in range(-law.reach, law.reach + 1):
        width = law.masses[abs(value)]
        words = [w for i in range(width) for w in (0, -(-(i << 64) // width))]
        drawn = law.words_for(np.full(width, value), PreparedWords(words))
        assert sorted(drawn.tolist()) == list(range(start, start + width))
        assert law.values_of(drawn).tolist() == [value] * width
        start += width
    assert start == 1 << law.bits


@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
@pytest.mark.parametrize("signed", [False, True])
def test_the_build_stores_exactly_what_no_zero_can_be(
    noise: str, signed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Catches >= for >, a threshold on one side only, and words of another value.
    plan = sparsedp.plan(1.0, 1e-6, nonzero=50, mechanism="retrieval", noise=noise, signed=signed)
    assert isinstance(plan, RetrievalPlan)
    reach = plan.buckets.threshold - 1
    counts = np.array([3, 3, 3, 3, 3])
    drawn = np.array([reach - 3, reach - 2, -reach - 3, -reach - 4, 0])

    def draw(law: CutLaw, count: int, randomness: Randomness) -> Masses:
        return drawn[:count]

    monkeypatch.setattr(CutLaw, "draw", draw)
    ids = np.arange(1, 6, dtype=np.uint64)
    arrays = plan.build(ids, counts, ReproducibleRandomness(1))
    assert arrays["table.ids"].tolist() == [2, 4]
    assert arrays["table.values"].tolist() == [reach + 1, -reach - 1]
    answers = plan.reader((arrays,)).estimate(ids, "median", "flat")
    assert answers.tolist() == (counts + drawn).tolist()


@pytest.mark.parametrize("slots", [2, 3, 5])
def test_solutions_satisfy_every_equation_and_are_uniform_otherwise(slots: int) -> None:
    random = np.random.default_rng(slots)
    segment = 40
    for trial in range(30):
        ids = random.integers(0, 2**63, 25).astype(np.uint64)
        values = random.integers(0, 2**40, 25).astype(np.uint64)
        z = ReproducibleRandomness(trial).words(slots * segment)
        rows = _native.slots_of(trial, 7, slots, segment, ids).reshape(-1, slots)
        masks = [sum(1 << int(slot) for slot in row) for row in rows]
        solved = solve(z.view(np.uint8), 8, (trial, 7), slots, segment, ids, values)
        assert solved == independent_big(masks)
        if solved:
            assert np.array_equal(np.bitwise_xor.reduce(z[rows], axis=1), values)


def independent_big(rows: list[int]) -> bool:
    basis: dict[int, int] = {}
    for row in rows:
        left = row
        while left and left.bit_length() in basis:
            left ^= basis[left.bit_length()]
        if not left:
            return False
        basis[left.bit_length()] = left
    return True


def test_a_tiny_solution_is_uniform_over_all_solutions() -> None:
    # All 2^12 fillings of four slots of three bits: every solution of the two equations occurs
    # equally often.
    ids, values = np.array([3, 8], np.uint64), np.array([5, 2], np.uint64)
    seed = next(s for s in range(50) if solve(np.zeros(4, np.uint8), 1, (s, 0), 2, 2, ids, values))
    seen: dict[tuple[int, ...], int] = {}
    for filling in product(range(8), repeat=4):
        z = np.array(filling, np.uint8)
        assert solve(z, 1, (seed, 0), 2, 2, ids, values)
        seen[tuple(z.tolist())] = seen.get(tuple(z.tolist()), 0) + 1
    assert len(seen) == 64
    assert set(seen.values()) == {64}


@pytest.mark.parametrize(("slots", "segment", "keys"), [(2, 12, 4), (3, 6, 4), (3, 8, 8), (4, 5, 6)])
def test_dependence_is_rarer_than_its_bound(slots: int, segment: int, keys: int) -> None:
    random = np.random.default_rng(segment)
    trials = 4000
    dependent = 0
    for trial in range(trials):
        ids = random.integers(0, 2**63, keys + 1).astype(np.uint64)
        rows = _native.slots_of(trial, 1, slots, segment, ids).reshape(-1, slots)
        masks = [sum(1 << int(slot) for slot in row) for row in rows]
        dependent += independent_big(masks[:-1]) and not independent_big(masks)
    system = LinearSystem(slots, segment, 6, keys)
    bound = float(system.dependence)
    assert dependent / trials <= bound + 4 * np.sqrt(bound / trials)
    assert dependent / trials > bound / 30 or bound < 0.01  # the bound is not vacuous


def test_the_papers_figures_of_the_bound() -> None:
    assert np.log2(float(LinearSystem(5, 300, 6, 1000).dependence)) == pytest.approx(-31, abs=0.5)
    assert np.log2(float(LinearSystem(5, 2600, 6, 10_000).dependence)) == pytest.approx(-43, abs=0.6)


def test_a_small_system_is_padded_until_its_rows_are_independent_enough() -> None:
    for keys in (1, 10, 1000, 100_000):
        system = LinearSystem.smallest(keys, 6, Fraction(1, 10**11))
        assert system.dependence <= Fraction(1, 10**11)
        assert system.rank_defect <= Fraction(1, 4)


def test_delta_grows_with_the_steps_between_neighbours() -> None:
    one, five = Request(epsilon=1.0, delta=1e-9).problem, Request(epsilon=1.0, delta=1e-9, sensitivity=5).problem
    assert step_multiplier(one, Decimal(1)) == 1
    exact = sum(Decimal(i * Decimal("0.2")).exp() for i in range(5))
    assert float(step_multiplier(five, Decimal("0.2"))) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("step", [None, 0.1])
@pytest.mark.parametrize("sensitivity", [1, 4])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_plans_keep_their_epsilon_and_delta(step: float | None, sensitivity: int, epsilon: float) -> None:
    plan = sparsedp.plan(epsilon, 1e-8, nonzero=500, step=step, sensitivity=sensitivity, mechanism="retrieval")
    assert isinstance(plan, RetrievalPlan)
    assert 0.99 * epsilon < plan.epsilon <= epsilon
    assert 0 < plan.delta <= 1e-8
    assert set(plan.delta_parts) == {"stored", "dependent", "overflow", "no seed"}


def test_delta_counts_the_loss_of_estimating_the_size_too() -> None:
    problem = Request(epsilon=1.0, delta=1e-9, sensitivity=5).problem
    sized = replace(problem, sizing_loss=Decimal("0.05"))
    assert step_multiplier(sized, Decimal("0.15")) == step_multiplier(problem, Decimal("0.2"))
    release = sparsedp.release({"a": 3}, epsilon=1.0, delta=1e-9, sensitivity=5, mechanism="retrieval")
    assert release.plan.problem.sizing_loss > 0
    assert release.delta <= 1e-9


def test_an_estimated_size_spends_the_delta_of_the_worst_size() -> None:
    # The noisy size decides between plans with different δ; the guarantee is that of the largest
    # one.
    problem = Request(epsilon=1.0, delta=1e-6).problem
    size = SupportSize.plan(problem, 0.1)
    plans = [RetrievalPlan.create(size.sized(problem, [keys])) for keys in (1, 5000, 20_000)]
    needed = [sum(plan.delta_parts.values()) for plan in plans]
    assert max(needed) > 1.03 * min(needed)
    for plan in plans:
        assert max(needed) <= plan.delta <= problem.delta


@pytest.mark.parametrize("nonzero", [None, 10])
@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), [(1.0, 1e-19, 1), (3.0, 1e-17, 100)])
def test_a_delta_too_small_for_64_bits_is_refused(
    epsilon: float, delta: float, sensitivity: int, nonzero: int | None
) -> None:
    with pytest.raises(sparsedp.ParameterError, match="larger delta"):
        sparsedp.release(
            {"a": 3}, epsilon=epsilon, delta=delta, sensitivity=sensitivity, nonzero=nonzero, mechanism="retrieval"
        )


def test_a_step_may_have_a_large_delta_when_neighbours_are_much_closer() -> None:
    plan = sparsedp.plan(1.0, 0.5, nonzero=10, step=1, sensitivity=0.001, mechanism="retrieval")
    assert plan.epsilon <= 1
    assert plan.delta <= 0.5


def test_a_slot_stays_within_64_bits_when_the_buckets_need_more_noise() -> None:
    # At this δ the last bucket just fits, and the noise that its integers require raises the
    # threshold by one.
    release = sparsedp.release({"a": 3}, epsilon=0.4464, delta=6.099348670541042e-14, nonzero=1, mechanism="retrieval")
    assert isinstance(release.plan, RetrievalPlan)
    assert release.plan.buckets.bits <= 64
    assert np.isfinite(release["a"])


MARGIN = 1
COUNT_NOISE = TwoSided.with_rate(Decimal("2.5"), 8)
NUMBERS = range(-1, 3)  # values of the noisy number of keys; the rest of its law is at the two ends


def number_law(keys: int) -> dict[int, Fraction]:
    first, last = NUMBERS[0], NUMBERS[-1]
    law = {n: COUNT_NOISE.probability(n - keys) for n in NUMBERS}
    law[first] = 1 - COUNT_NOISE.at_least(first + 1 - keys)
    law[last] = COUNT_NOISE.at_least(last - keys)
    return law


def sized_delta(law: CutGeometric, x: Vector, y: Vector, factor: Fraction) -> Fraction:
    """The exact δ of the whole release, whose noisy number of keys and a margin decide whether
    there is room for two.
    """
    systems = {1: System(law, keys=2, segment=1), 2: System(law, keys=2)}
    laws = {room: (whole(own, x), whole(own, y)) for room, own in systems.items()}
    total = Fraction(0)
    for (n, p), q in zip(number_law(len(support(x))).items(), number_law(len(support(y))).values(), strict=True):
        room = 1 if max(1, n + MARGIN) == 1 else 2
        total += p * hockey_stick(*laws[room], factor * q / p, denominator(systems[room]))
    return total


@pytest.mark.parametrize(("x", "y"), [((0, 0), (1, 0)), ((0, 1), (1, 1)), ((0, 1), (-1, 1))])
def test_an_array_that_is_too_small_is_part_of_the_guarantee(x: Vector, y: Vector) -> None:
    # In the other cases a number of keys that comes out too small has no room for two: only its
    # noise protects.
    law = LAWS[0]
    factor = worst_ratio(law) * exp_up(COUNT_NOISE.step_loss)
    problem = Request(epsilon=1.0, delta=1e-6).problem
    delta = law.step_delta + seed_delta(System(law, keys=2), x, y) + overflow(problem, COUNT_NOISE, MARGIN)
    assert delta < 1
    assert sized_delta(law, x, y, factor) <= delta
    assert sized_delta(law, y, x, factor) <= delta
    assert sized_delta(law, y, x, factor) >= law.step_delta / 3  # δ is really spent


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize(("sensitivity", "keys", "step"), [(1, 1, None), (6, 6, None), (6, 2, None), (2, 2, 0.5)])
def test_overflow_is_the_chance_that_some_part_has_no_room(
    sensitivity: int, keys: int, step: float | None, parts: int
) -> None:
    # Every way to spread the keys of a user over parts, with separate noise for each part; catches
    # a shift by one key, forgotten keys of a user, and parts that are not counted.
    contribution = Contribution(keys, Fraction(sensitivity, keys), "user")
    problem = Request(
        epsilon=1.0, delta=1e-4, sensitivity=sensitivity, step=step, parts=parts, contribution=contribution
    ).problem
    moved = problem.moved_keys
    assert moved == (1 if step else keys)
    law = SupportSize.plan(problem, 0.05).law
    above = margin(problem, law)
    spreads = [s for s in product(range(moved + 1), repeat=parts) if sum(s) == moved]
    missed = max(sum((law.at_least(above + 1 - own) for own in spread if own), Fraction(0)) for spread in spreads)
    stated = overflow(problem, law, above)
    assert missed <= stated
    assert parts > 1 or missed == stated
    allowed = step_delta(problem) if step else Fraction(problem.delta)
    assert stated <= allowed * OVERFLOW_SHARE < overflow(problem, law, above - 1)


def test_a_plan_states_the_overflow_of_the_margin_that_it_has() -> None:
    plan = sparsedp.plan(1.0, 1e-6, nonzero=5000, sensitivity=4, mechanism="retrieval")
    assert isinstance(plan, RetrievalPlan)
    law = plan.problem.sizing_noise
    assert law is not None
    assert plan.room is not None
    assert plan.delta_events["overflow"] == overflow(plan.problem, law, plan.system.keys - plan.room)
    smaller = replace(plan, system=replace(plan.system, keys=plan.room + 10))
    assert smaller.exact_delta > 1e-6
