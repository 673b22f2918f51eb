"""Retrieval: every hash outcome, noise, number and array of tiny systems, with exact probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sparsedp
from exact import PreparedWords, exp_up, hockey_stick
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
from sparsedp.privacy.laws import TwoSided
from sparsedp.privacy.randomness import ReproducibleRandomness
from sparsedp.structures.buckets import NoiseBuckets
from sparsedp.structures.linear_system import LinearSystem

Vector = tuple[int, ...]
Rows = tuple[int, ...]  # the slots of each key, as a bit mask
KEYS, SEGMENT, BITS = 2, 2, 2


def rows_of(segment: int) -> list[int]:
    return [1 << a | 1 << (segment + b) for a in range(segment) for b in range(segment)]


ROWS = rows_of(SEGMENT)


def buckets() -> NoiseBuckets:
    return NoiseBuckets(TwoSided.with_rate(Decimal("0.6"), 8), lowest=-1, threshold=2, bits=BITS)


def independent(rows: list[int]) -> bool:
    """Whether no non-empty subset of the rows sums to zero."""
    sums = {0}
    for row in rows:
        if row in sums:
            return False
        sums |= {row ^ other for other in sums}
    return True


def xor(z: tuple[int, ...], row: int) -> int:
    result = 0
    for slot, word in enumerate(z):
        if row >> slot & 1:
            result ^= word
    return result


def value_law(b: NoiseBuckets, count: int) -> dict[int | None, Fraction]:
    """P[value in the system], by value, and the values of the table: v >= T is stored."""
    law: dict[int | None, Fraction] = {b.lowest: b.noise.at_least(count - b.lowest)}
    for v in range(b.lowest + 1, b.threshold + 3):
        law[v] = b.noise.probability(v - count)
    law[None] = 1 - sum(law.values(), Fraction(0))  # stored beyond the window
    return law


def joint_law(b: NoiseBuckets, x: Vector, segment: int) -> Iterator[tuple[tuple[object, ...], Fraction]]:
    """P[rows of all keys, table, z | x] with seeds accepted when the support's rows are
    independent.
    """
    support = [i for i, count in enumerate(x) if count]
    hashes = list(product(rows_of(segment), repeat=KEYS))
    good = [rows for rows in hashes if independent([rows[i] for i in support])]
    laws = [value_law(b, x[i]) for i in support]
    cube = list(product(range(1 << BITS), repeat=2 * segment))
    for rows in good:
        for outcomes in product(*laws):
            table = tuple((i, v) for i, v in zip(support, outcomes, strict=True) if v is None or v >= b.threshold)
            chance = Fraction(1, len(good) << (BITS * 2 * segment))
            equations = []  # the row of each key in the system, and the numbers that mean its value
            for i, law, v in zip(support, laws, outcomes, strict=True):
                chance *= law[v]
                if v is not None and v < b.threshold:
                    chance *= Fraction(1 << BITS, b.widths[v - b.lowest])
                    equations.append((rows[i], range(([0, *b.ends])[v - b.lowest], b.ends[v - b.lowest])))
            if chance:
                for z in cube:
                    if all(xor(z, row) in numbers for row, numbers in equations):
                        yield (rows, table, z), chance


def law_of(b: NoiseBuckets, x: Vector, segment: int = SEGMENT) -> dict[tuple[object, ...], Fraction]:
    law: dict[tuple[object, ...], Fraction] = {}
    for output, chance in joint_law(b, x, segment):
        law[output] = law.get(output, Fraction(0)) + chance
    return law


@pytest.mark.parametrize(("x", "y"), [((0, 0), (1, 0)), ((1, 0), (2, 0)), ((0, 2), (1, 2)), ((1, 1), (1, 2))])
def test_one_step_is_within_the_stated_loss_and_delta(x: Vector, y: Vector) -> None:
    # Catches buckets of the wrong width, T - 1, acceptance on anything but independence, stored
    # keys in the system.
    b = buckets()
    p, q = law_of(b, x), law_of(b, y)
    assert sum(p.values()) == sum(q.values()) == 1
    loss = max(b.noise.step_loss, b.zero_loss)
    factor = exp_up(loss)
    stored = b.noise.at_least(b.threshold - 1)
    hashes = list(product(ROWS, repeat=KEYS))
    supports = [[i for i, count in enumerate(v) if count] for v in (x, y)]
    bad = [Fraction(sum(not independent([h[i] for i in s]) for h in hashes), len(hashes)) for s in supports]
    dependence = (bad[1] - bad[0]) / (1 - bad[1])
    delta = (stored if x[0] == 0 and y[0] == 1 else Fraction(0)) + dependence
    assert hockey_stick(p, q, factor) <= delta
    assert hockey_stick(q, p, factor) <= delta
    if dependence == 0 and delta:
        assert hockey_stick(q, p, factor) >= stored / 2  # δ is really spent


def test_the_loss_from_zero_to_one_is_that_of_the_widths() -> None:
    for b in (buckets(), NoiseBuckets.plan(TwoSided.with_rate(Decimal("0.3")), 40)):
        one = value_law(b, 1)
        ratios = [one[v] * (1 << b.bits) / b.widths[v - b.lowest] for v in range(b.lowest, b.threshold)]
        worst = max(max(ratio, 1 / ratio) for ratio in ratios)
        assert worst <= exp_up(b.zero_loss) <= worst * (1 + Fraction(1, 10**15))  # attained, not only respected
        assert sum(b.widths) == 1 << b.bits
    assert float(b.zero_loss) == pytest.approx(0.3, abs=1e-4)


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
        solved = _native.solve(z.view(np.uint8), 8, trial, 7, slots, segment, ids, values)
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
    seed = next(s for s in range(50) if _native.solve(np.zeros(4, np.uint8), 1, s, 0, 2, 2, ids, values))
    seen: dict[tuple[int, ...], int] = {}
    for filling in product(range(8), repeat=4):
        z = np.array(filling, np.uint8)
        assert _native.solve(z, 1, seed, 0, 2, 2, ids, values)
        seen[tuple(z.tolist())] = seen.get(tuple(z.tolist()), 0) + 1
    assert len(seen) == 64
    assert set(seen.values()) == {64}


def test_numbers_are_uniform_inside_their_bucket() -> None:
    b = buckets()
    for value in range(b.lowest, b.threshold):
        width = b.widths[value - b.lowest]
        words = [w for i in range(width) for w in (0, -(-(i << 64) // width))]
        drawn = b.draw(np.full(width, value), PreparedWords(words))
        start = ([0, *b.ends])[value - b.lowest]
        assert sorted(drawn.tolist()) == list(range(start, start + width))


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
@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), [(1.0, 1e-18, 1), (3.0, 1e-14, 100)])
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


MARGIN, REDRAWS = 1, 2
COUNT_NOISE = TwoSided.with_rate(Decimal("2.5"), 8)
NUMBERS = range(-1, 3)  # values of the noisy number of keys; the rest of its law is at the two ends


def number_law(keys: int) -> dict[int, Fraction]:
    first, last = NUMBERS[0], NUMBERS[-1]
    law = {n: COUNT_NOISE.probability(n - keys) for n in NUMBERS}
    law[first] = 1 - COUNT_NOISE.at_least(first + 1 - keys)
    law[last] = COUNT_NOISE.at_least(last - keys)
    return law


def sized_law(b: NoiseBuckets, x: Vector, segment: int) -> dict[tuple[object, ...], Fraction]:
    """P[rows, table, z | x] of an array of this size: two tries for a seed, and uniform slots
    otherwise.
    """
    support = [i for i, count in enumerate(x) if count]
    hashes = list(product(rows_of(segment), repeat=KEYS))
    dependent = Fraction(sum(not independent([h[i] for i in support]) for h in hashes), len(hashes))
    solved = 1 - dependent**REDRAWS
    law = {} if dependent == 1 else {output: solved * chance for output, chance in law_of(b, x, segment).items()}
    laws = [value_law(b, x[i]) for i in support]
    tables: dict[tuple[tuple[int, int | None], ...], Fraction] = {}
    for outcomes in product(*laws):
        table = tuple((i, v) for i, v in zip(support, outcomes, strict=True) if v is None or v >= b.threshold)
        mass = Fraction(1)
        for outcome_law, v in zip(laws, outcomes, strict=True):
            mass *= outcome_law[v]
        tables[table] = tables.get(table, Fraction(0)) + mass
    uniform = Fraction(1, len(hashes) << (BITS * 2 * segment))
    for rows, (stored, chance), z in product(hashes, tables.items(), product(range(1 << BITS), repeat=2 * segment)):
        output = (rows, stored, z)
        law[output] = law.get(output, Fraction(0)) + (1 - solved) * chance * uniform
    return law


def whole_law(b: NoiseBuckets, x: Vector, margin: int) -> dict[tuple[object, ...], Fraction]:
    """P[N, rows, table, z | x]: the noisy number of keys and a margin decide whether there is room
    for two.
    """
    small, large = sized_law(b, x, 1), sized_law(b, x, SEGMENT)
    return {
        (n, *output): chance * own
        for n, chance in number_law(sum(map(bool, x))).items()
        for output, own in (small if max(1, n + margin) == 1 else large).items()
    }


@pytest.mark.parametrize(("x", "y"), [((0, 0), (1, 0)), ((0, 1), (1, 1))])
def test_an_array_that_is_too_small_is_part_of_the_guarantee(x: Vector, y: Vector) -> None:
    # In the second case a number of keys that comes out too small has no room for two: only its
    # noise protects.
    b = buckets()
    p, q = whole_law(b, x, MARGIN), whole_law(b, y, MARGIN)
    assert sum(p.values()) == sum(q.values()) == 1
    factor = exp_up(max(b.noise.step_loss, b.zero_loss)) * exp_up(COUNT_NOISE.step_loss)
    stored = b.noise.at_least(b.threshold - 1)
    same_row = Fraction(1, len(ROWS))  # how two keys can be dependent
    dependent = same_row / (1 - same_row) if sum(map(bool, y)) == 2 else Fraction(0)
    problem = Request(epsilon=1.0, delta=1e-6).problem
    delta = stored + dependent + same_row**REDRAWS + overflow(problem, COUNT_NOISE, MARGIN)
    assert delta < 1
    assert hockey_stick(p, q, factor) <= delta
    assert hockey_stick(q, p, factor) <= delta
    assert hockey_stick(q, p, factor) >= stored / 3  # δ is really spent


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
    assert plan.step_delta_parts["overflow"] == overflow(plan.problem, law, plan.system.keys - plan.room)
    smaller = replace(plan, system=replace(plan.system, keys=plan.room + 10))
    assert smaller.exact_delta > 1e-6
