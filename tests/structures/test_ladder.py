"""The ladder's laws: tight at every step, and exactly what their integers say."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import sparsedp
from sparsedp import _native
from sparsedp.mechanisms.leftover import ratio_up, steepest, unstored_chances
from sparsedp.mechanisms.tight_alp import TightAlpPlan
from sparsedp.privacy.laws import log_bounds
from sparsedp.structures.ladder import RATIO_BITS, Ladder, Level, fastest_climb, spread_anchors, whole_masses

BUDGETS = {
    "one noise scale a count": [1.0] * 37,
    "many counts a symbol": [0.1] * 370,
    "large steps": [4.0] * 9,
    "dwindling": [0.7 * 0.8**c + 1e-6 for c in range(40)],
}
SYMBOLS = [(1,) * 3, (2, 3), (4, 5), (5, 3), (6,)]


def all_ratios(ladder: Ladder) -> list[tuple[Fraction, Fraction]]:
    return [ladder.step_ratios(count) for count in range(ladder.height)]


@pytest.mark.parametrize("budgets", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("bits", SYMBOLS)
def test_no_step_loses_more_than_its_budget(budgets: list[float], bits: tuple[int, ...]) -> None:
    # Catches a climb that is too steep, a level that starts one count early, masses that do not
    # belong together.
    ladder = Ladder.climb(budgets, bits)
    assert ladder.height == len(budgets)
    for budget, ratios in zip(budgets, all_ratios(ladder), strict=True):
        for ratio in ratios:
            assert math.log(ratio) <= budget * (1 + 1e-9) + 2e-6  # the smallest masses are 2^20 and round by 2^-21


@pytest.mark.parametrize("budgets", list(BUDGETS.values())[:2], ids=list(BUDGETS)[:2])
def test_every_step_up_to_the_middle_of_a_climb_spends_its_budget(budgets: list[float]) -> None:
    ladder = Ladder.climb(budgets, (4, 5))
    spent = [max(math.log(up), math.log(down)) for up, down in all_ratios(ladder)]
    assert np.mean(spent) > 0.97 * np.mean(budgets)


def test_symbols_one_count_apart_follow_clamped_geometric_noise() -> None:
    level = Ladder.climb([1.0] * 7, (3,)).levels[0]
    a = math.exp(-1)
    noise = {j: (1 - a) / (1 + a) * a ** abs(j) for j in range(-200, 201)}
    for height in range(8):
        wanted = np.zeros(8)
        for j, chance in noise.items():
            wanted[min(max(height + j, 0), 7)] += chance
        assert np.allclose(level.law[height], wanted, rtol=1e-12)


@pytest.mark.parametrize("budgets", [[1.0], [0.3] * 7, [0.01] * 500, [2.0, 0.1, 0.5], [30.0]])
def test_the_climb_is_the_fastest_there_is(budgets: list[float]) -> None:
    climb = fastest_climb(np.exp(budgets)).tolist()
    assert len(climb) == len(budgets) + 1
    assert climb[-1] == 1 - climb[0]
    for w, (g, after) in zip(budgets, pairwise(climb), strict=True):
        fastest = min(g * math.exp(w), 1 - (1 - g) * math.exp(-w))
        assert after <= fastest * (1 + 1e-12)
        assert after >= fastest * (1 - 1e-9) - 1e-15


def test_two_symbols_are_the_tight_bit() -> None:
    # A level of length L = 2 ln(1/(2p)) between the flip probabilities p and 1 - p.
    for p in (1 / 16, 1 / 32):
        length = 2 * math.log(1 / (2 * p))
        assert fastest_climb(np.exp(np.full(2000, length / 2000)))[0] == pytest.approx(p, rel=1e-3)


def test_anchors_cut_the_budget_evenly() -> None:
    assert spread_anchors([1.0] * 5, 10) == [0, 1, 2, 3, 4, 5]
    anchors = spread_anchors([0.1] * 100, 10)
    assert anchors == list(range(0, 101, 10))
    dwindling = spread_anchors(BUDGETS["dwindling"], 8)
    assert dwindling[0] == 0
    assert dwindling[-1] == 40
    assert len(dwindling) <= 9


@pytest.mark.parametrize("budgets", BUDGETS.values(), ids=BUDGETS)
def test_masses_are_whole_positive_and_complete(budgets: list[float]) -> None:
    for level in Ladder.climb(budgets, (4, 5)).levels:
        for row in level.masses:
            assert len(row) == level.symbols
            assert sum(row) == 1 << 64
            assert min(row) >= 1
        assert (np.diff(level.thresholds.astype(object), axis=1) > 0).all()


def test_rounding_keeps_the_proportions() -> None:
    masses = whole_masses(np.array([[0.5, 0.3, 0.2 - 1e-18, 1e-18]]), 64)[0].tolist()
    assert masses[3] == 1 << 20  # the least
    assert masses[1] == round(0.3 * 2**64)
    assert sum(masses) == 1 << 64
    assert whole_masses(np.array([[1.0, 1e-30], [0.25, 0.75]]), 8).tolist() == [[255, 1], [64, 192]]
    assert whole_masses(np.array([[1.0, 1e-30]]), 64).tolist() == [[(1 << 64) - (1 << 20), 1 << 20]]


def test_ratios_are_rounded_up_by_almost_nothing() -> None:
    level = Level(0, 1, ((10, 6), (3, 13)), word_bits=4)
    up, down = level.step_ratios(0)
    assert 0 < up - Fraction(13, 6) < Fraction(1, 2**128)
    assert 0 < down - Fraction(10, 3) < Fraction(1, 2**128)


@pytest.mark.parametrize("word_bits", [4, 6])
def test_cells_follow_the_masses_on_every_word(word_bits: int) -> None:
    # Every word once for each height: the symbols occur exactly as often as the masses say.
    level = Ladder.climb([0.8] * 3, (2,), word_bits).levels[0]
    words = np.arange(1 << word_bits, dtype=np.uint64)
    thresholds = np.append(np.uint64(len(level.masses)), level.thresholds.ravel())
    for height in range(4):
        counts = np.zeros(4, int)
        for word in words:
            array = np.zeros(8, np.uint64)
            key, heights = np.zeros(1, np.uint64), np.array([[height]], np.uint32)
            shape = np.array([[2, 1]], np.uint32)
            _native.build_blocks(array, shape, 1, 0, 1, key, 0, heights, thresholds, np.array([word], np.uint64))
            counts[int(array[0]) & 3] += 1
        assert tuple(counts) == level.masses[height]


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1), (1.0, 20), (6.0, 1)])
def test_the_ratios_of_a_step_are_the_largest_of_all_symbols(epsilon: float, sensitivity: int) -> None:
    # Floats leave out symbols that cannot have the largest ratio. Mutant: leaving out the symbol
    # that has it.
    plan = sparsedp.plan(epsilon, nonzero=1000, sensitivity=sensitivity, mechanism="tight-alp")
    assert isinstance(plan, TightAlpPlan)
    for level in plan.blocks.ladder.levels:
        for height in range(level.height):
            low, high = level.masses[height], level.masses[height + 1]
            up = max((b << RATIO_BITS) // a for a, b in zip(low, high, strict=True)) + 1
            down = max((a << RATIO_BITS) // b for a, b in zip(low, high, strict=True)) + 1
            assert level.step_ratios(height) == (Fraction(up, 1 << RATIO_BITS), Fraction(down, 1 << RATIO_BITS))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.2, 1), (1.0, 1), (1.0, 20), (6.0, 1)])
def test_the_loss_of_a_plan_is_that_of_its_worst_step(epsilon: float, sensitivity: int, delta: float) -> None:
    # Floats leave out steps that cannot lose most. Mutant: leaving out the one that does.
    plan = sparsedp.plan(epsilon, delta=delta, nonzero=1000, sensitivity=sensitivity, mechanism="tight-alp")
    assert isinstance(plan, TightAlpPlan)
    absent = unstored_chances(plan.stage, plan.blocks.ladder.height + 1)
    losses = [plan.stage.step_loss]
    for (up, down), before, (after, *_) in zip(all_ratios(plan.blocks.ladder), absent, absent[1:], strict=False):
        losses += [
            log_bounds(Fraction(ratio_up(ratio, *chances), 1 << RATIO_BITS)).high
            for start in before
            for ratio, chances in ((up, (after, start)), (down, (start, after)))
        ]
    assert plan.step_loss == max(losses)
    rising, falling = plan.blocks.ladder.rough_ratios
    for count, (up, down) in enumerate(all_ratios(plan.blocks.ladder)):
        assert abs(Fraction(rising[count]) / up - 1) < Fraction(1, 10**15)
        assert abs(Fraction(falling[count]) / down - 1) < Fraction(1, 10**15)


def test_a_step_whose_loss_is_not_a_number_is_not_left_out() -> None:
    half = Fraction(1, 2)
    assert steepest([(half,)] * 4, np.array([1.0, 2.0, 2.0]), np.array([1.0, 1.0, 1.0])) == [1, 2]
    assert steepest([(half,)] * 4, np.array([1.0, np.nan, 2.0]), np.array([1.0, 1.0, 1.0])) == [0, 1, 2]
    tiny = Fraction(1, 1 << 2000)  # zero as a float
    assert steepest([(half,), (half,), (tiny,), (tiny,)], np.ones(3), np.ones(3)) == [0, 1, 2]
