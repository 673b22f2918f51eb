"""Threshold and Threshold2: exact ε and δ of tiny instances, every output enumerated in rational
arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from exact import exp_up, hockey_stick, independent
from sparsedp import plan as make_plan
from sparsedp.mechanisms.stability import StabilityPlan
from sparsedp.mechanisms.threshold_alp import ThresholdAlpPlan
from sparsedp.mechanisms.tight_alp import TightAlpPlan
from sparsedp.privacy.laws import Passing, TwoSided
from sparsedp.privacy.randomness import ReproducibleRandomness
from sparsedp.structures.thresholds import PureStage, StableStage
from test_laws import passing_probability

Vector = tuple[int, ...]
UNSTORED = None


def pure_stage(rate: str, threshold: int, domain: int, bits: int) -> PureStage:
    noise = TwoSided.with_rate(Decimal(rate), bits)
    return PureStage(noise, threshold, Passing.with_chance(noise.at_least(threshold), bits), domain)


def pure_law(stage: PureStage, x: Vector, window: int) -> dict[tuple[int | None, ...], Fraction]:
    """P[table | x], where passing positions that are non-zero keys are ignored, for values in a
    window.
    """
    values = [UNSTORED, *range(stage.threshold, stage.threshold + window)]
    law: dict[tuple[int | None, ...], Fraction] = {}
    zeros = [i for i, count in enumerate(x) if count == 0]
    patterns: dict[tuple[bool, ...], Fraction] = {}
    for mask in range(1 << stage.domain):
        pattern = tuple(bool(mask >> i & 1) for i in zeros)
        chance = passing_probability(stage.passing, stage.domain, mask)
        patterns[pattern] = patterns.get(pattern, Fraction(0)) + chance
    for output in product(values, repeat=len(x)):
        mass = patterns[tuple(output[i] is not UNSTORED for i in zeros)]
        for count, value in zip(x, output, strict=True):
            if count and value is UNSTORED:
                mass *= 1 - stage.noise.at_least(stage.threshold - count)
            elif count and value is not None:
                mass *= stage.noise.probability(value - count)
            elif value is not None:
                mass *= stage.noise.magnitude.probability(value - stage.threshold)
        law[output] = mass
    return law


def unit_steps(domain: int, largest: int) -> Iterator[tuple[Vector, Vector]]:
    for x in product(range(largest + 1), repeat=domain):
        for i in range(domain):
            if x[i] < largest:
                yield x, (*x[:i], x[i] + 1, *x[i + 1 :])


@pytest.mark.parametrize(("rate", "threshold", "bits"), [("0.7", 2, 8), ("0.3", 1, 10), ("1.5", 3, 12)])
def test_no_output_of_threshold_changes_by_more_than_the_step_loss(rate: str, threshold: int, bits: int) -> None:
    # Catches T - 1 for zeros only, noise of another scale on zeros, and zeros that pass with a
    # wrong probability.
    stage = pure_stage(rate, threshold, domain=2, bits=bits)
    bound = exp_up(stage.step_loss)
    worst = Fraction(0)
    for x, y in unit_steps(2, threshold + 2):
        p, q = pure_law(stage, x, 8), pure_law(stage, y, 8)
        worst = max(worst, *(max(p[o] / q[o], q[o] / p[o]) for o in p))
    assert worst <= bound
    assert worst >= exp_up(stage.noise.rate * Decimal("0.9"))  # the loss is really spent


def test_zeros_that_pass_too_rarely_break_the_step_loss() -> None:
    right = pure_stage("0.7", 3, domain=2, bits=12)
    mutant = PureStage(right.noise, 3, Passing.with_chance(right.noise.at_least(4), 12), 2)
    p, q = pure_law(mutant, (0, 0), 6), pure_law(mutant, (1, 0), 6)
    assert max(max(p[o] / q[o], q[o] / p[o]) for o in p) > exp_up(right.step_loss)
    assert mutant.step_loss > right.step_loss + Decimal("0.3")  # and the accounting sees it


def test_the_planned_threshold_stores_few_zeros_and_is_the_smallest() -> None:
    for domain in (10, 10**6, 1 << 64):
        stage = PureStage.plan(Decimal(1), domain, Fraction(1))
        assert domain * stage.noise.at_least(stage.threshold) <= 1
        assert stage.threshold == 1 or domain * stage.noise.at_least(stage.threshold - 1) > 1
        assert stage.step_loss < Decimal("1.000001")


def stable_law(stage: StableStage, count: int, window: int) -> dict[int | None, Fraction]:
    """The law of one key: not stored, each stored value of a window, and everything beyond as one
    outcome.
    """
    raised = {0: 1 - Fraction(count, stage.unit), stage.unit: Fraction(count, stage.unit)}
    law: dict[int | None, Fraction] = {UNSTORED: Fraction(0)}
    for start, chance in (raised if count < stage.unit else {count: Fraction(1)}).items():
        if start == 0:
            law[UNSTORED] += chance
            continue
        law[UNSTORED] += chance * (1 - stage.noise.at_least(stage.threshold - start))
        for value in range(stage.threshold, stage.threshold + window):
            law[value] = law.get(value, Fraction(0)) + chance * stage.noise.probability(value - start)
        beyond = stage.threshold + window
        law[beyond] = law.get(beyond, Fraction(0)) + chance * stage.noise.at_least(beyond - start)
    return law


@pytest.mark.parametrize("threshold", range(1, 41))
def test_delta_is_the_exact_divergence_at_every_threshold(threshold: int) -> None:
    # >= against > is off by e^w here: P[1 + η >= T] and P[1 + η > T] differ by that factor.
    stage = StableStage(TwoSided.with_rate(Decimal("0.5")), threshold, 1, Fraction(1))
    factor = exp_up(stage.step_loss)
    absent, one, two = (stable_law(stage, count, 60) for count in (0, 1, 2))
    assert hockey_stick(one, absent, factor) == stage.delta == stage.noise.at_least(threshold - 1)
    assert hockey_stick(two, one, factor) == 0
    if stage.absence_is_covered:
        assert hockey_stick(absent, one, factor) == 0
    else:
        assert threshold <= 2


def test_the_planned_threshold_is_the_smallest_within_delta() -> None:
    for delta in (Fraction(1, 100), Fraction(1, 10**9), Fraction(1, 10**15)):
        stage = StableStage.plan(Decimal(1), Fraction(1), delta)
        assert stage.delta <= delta
        assert stage.noise.at_least(stage.threshold - 1 - stage.unit) > delta


@pytest.mark.parametrize("distance", [2, 3])
def test_delta_holds_for_neighbours_spread_over_several_keys(distance: int) -> None:
    stage = StableStage.plan(Decimal("0.6"), Fraction(distance), Fraction(1, 50))
    factor = exp_up(stage.step_loss, distance)
    counts = range(stage.unit + distance + 1)
    laws = {count: stable_law(stage, count, 8) for count in counts}
    coarse = stage.delta / 100  # what lumping the far tail can hide
    pairs = {x: independent(laws[x[0]], laws[x[1]]) for x in product(counts, repeat=2)}
    for x, p in pairs.items():
        for y, q in pairs.items():
            if 0 < sum(abs(a - b) for a, b in zip(x, y, strict=True)) <= distance:
                assert hockey_stick(p, q, factor) <= stage.delta + coarse


def test_real_neighbours_spread_over_many_keys_share_one_delta() -> None:
    # Twenty keys that each move by 1/20 of the distance: the sum of their divergences is within δ.
    stage = StableStage.plan(Decimal("0.05"), Fraction(20), Fraction(1, 1000))
    one = stable_law(stage, 1, 400)
    assert 20 * hockey_stick(one, stable_law(stage, 0, 400), Fraction(1)) <= stage.delta


@pytest.mark.parametrize("mechanism", ["stability", "tight-alp", "threshold-alp"])
@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "step"),
    [(8.0, 1.9, 1.0), (30.0, 1.5, 1.0), (2.0, 4.9, 1.0), (2.0, 0.5, 0.3), (60.0, 2.0, 1.0)],
)
def test_one_real_value_that_appears_is_stored_with_at_most_delta(
    mechanism: str, epsilon: float, sensitivity: float, step: float
) -> None:
    # A key that goes from zero to Δ, a distance that is not a whole number of cells: any stored
    # value falls under δ.
    plan = make_plan(epsilon, 1e-6, mechanism=mechanism, sensitivity=sensitivity, step=step, nonzero=100)
    assert isinstance(plan, StabilityPlan | TightAlpPlan | ThresholdAlpPlan)
    stage = plan.stage
    assert isinstance(stage, StableStage)
    cells = plan.problem.neighbours.sensitivity / plan.problem.neighbours.step
    whole = math.floor(cells)
    below, above = (1 - stable_law(stage, count, 0)[UNSTORED] for count in (whole, whole + 1))
    assert (1 - (cells - whole)) * below + (cells - whole) * above <= plan.exact_delta


@pytest.mark.parametrize("pure", [True, False])
def test_a_value_that_just_reaches_the_threshold_is_stored(pure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # The laws above are those of noisy >= T; catches a build that stores noisy > T.
    rate = Decimal(1)
    stage: PureStage | StableStage
    if pure:
        stage = PureStage.plan(rate, 1 << 40, Fraction(1, 1000))
    else:
        stage = StableStage.plan(rate, Fraction(1), Fraction(1, 1000))
    noise = np.array([stage.threshold - 6, stage.threshold - 5, stage.threshold - 4])
    monkeypatch.setattr("sparsedp.structures.table.two_sided", lambda randomness, law, count: noise.copy())
    ids, counts = np.array([1, 2, 3], np.uint64), np.full(3, 5)
    assert stage.select(ids, counts, ReproducibleRandomness(1)).stored.tolist() == [False, True, True]
