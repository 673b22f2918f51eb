"""Tight ALP: tables and symbols of tiny instances together, every output with its exact
probability.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from exact import exp_up, hockey_stick
from sparsedp.mechanisms.leftover import not_stored, unstored_chances
from sparsedp.mechanisms.tight_alp import TightAlpPlan
from sparsedp.planning.request import Request
from sparsedp.privacy.laws import Passing, TwoSided
from sparsedp.structures.embedding import Blocks
from sparsedp.structures.ladder import Ladder
from sparsedp.structures.thresholds import PureStage, StableStage

Vector = tuple[int, ...]
Output = tuple[tuple[int | None, ...], tuple[int, ...]]
Positions = tuple[tuple[int, ...], ...]  # positions[key][level] = cell of that level
Stage = PureStage | StableStage
THRESHOLD = 4
WINDOW = 3


def pure_stage(rate: str) -> PureStage:
    noise = TwoSided.with_rate(Decimal(rate), 12)
    return PureStage(noise, THRESHOLD, Passing.with_chance(noise.at_least(THRESHOLD), 12), domain=2)


def stable_stage(rate: str) -> StableStage:
    return StableStage(TwoSided.with_rate(Decimal(rate), 12), THRESHOLD, 1, Fraction(1))


def make_plan(stage: Stage, bits: tuple[int, ...], leftover: bool = True) -> TightAlpPlan:
    """The plan of a tiny ladder; without `leftover` the price of "not stored" is ignored (a
    mutant).
    """
    absent = not_stored(stage, np.arange(THRESHOLD))
    price = np.abs(np.diff(np.log(absent))) if leftover else np.zeros(THRESHOLD - 1)
    budgets = np.maximum(float(stage.step_loss) - price, 1e-6).tolist()
    blocks = Blocks(Ladder.climb(budgets, bits, word_bits=16), (2,) * len(bits), 1, hashed=True)
    return TightAlpPlan(Request(epsilon=1.0, nonzero=2).problem, stage, blocks, ())


def table_laws(stage: Stage, x: Vector) -> Iterator[tuple[tuple[int | None, ...], Fraction]]:
    """Every table (None where a key is not stored, values in a window) and its probability."""
    values = [None, *range(THRESHOLD, THRESHOLD + WINDOW)]
    for table in product(values, repeat=len(x)):
        mass = Fraction(1)
        for count, value in zip(x, table, strict=True):
            if count == 0:
                # bounds of a zero's chance differ by less than the test can see; the exact gaps are
                # tested elsewhere
                chance = stage.passing.chance[0] if isinstance(stage, PureStage) else Fraction(0)
                excess = stage.noise.magnitude.probability((value or 0) - THRESHOLD)
                mass *= 1 - chance if value is None else chance * excess
            elif value is None:
                mass *= 1 - stage.noise.at_least(THRESHOLD - count)
            else:
                mass *= stage.noise.probability(value - count)
        yield table, mass


def joint_law(
    plan: TightAlpPlan, positions: Positions, x: Vector, embed_stored: bool = False
) -> dict[Output, Fraction]:
    """P[table, symbols | x] for fixed hash functions with two cells per level."""
    levels = plan.blocks.ladder.levels
    law: dict[Output, Fraction] = {}
    for table, mass in table_laws(plan.stage, x):
        cells: list[tuple[int, ...]] = []  # the masses of every cell's symbols
        for j, level in enumerate(levels):
            tallest = [0, 0]
            for key, (count, value) in enumerate(zip(x, table, strict=True)):
                if value is None or embed_stored:
                    cell = positions[key][j]
                    tallest[cell] = max(tallest[cell], min(max(count - level.start, 0), level.height))
            cells += [level.masses[height] for height in tallest]
        whole = prod(1 << level.word_bits for level in levels for _ in range(2))
        for symbols in product(*(range(len(cell)) for cell in cells)):
            share = prod(cell[s] for cell, s in zip(cells, symbols, strict=True))
            law[table, symbols] = mass * Fraction(share, whole)
    return law


def worst_step(plan: TightAlpPlan, positions: Positions, **mutation: bool) -> Fraction:
    """The largest ratio of any output over all unit steps of two keys."""
    counts = range(THRESHOLD + 2)
    laws = {x: joint_law(plan, positions, x, **mutation) for x in product(counts, repeat=2)}
    worst = Fraction(1)
    for (first, second), p in laws.items():
        q = laws.get((first + 1, second))
        if q is not None:
            both = [o for o in p if p[o] and q[o]]
            worst = max(worst, *(max(p[o] / q[o], q[o] / p[o]) for o in both))
    return worst


APART: Positions = ((0, 0), (1, 1))
TOGETHER: Positions = ((0, 1), (0, 1))
MIXED: Positions = ((0, 0), (0, 1))


@pytest.mark.parametrize("rate", ["0.4", "1.1"])
@pytest.mark.parametrize("bits", [(2,), (1, 1)])
@pytest.mark.parametrize("positions", [APART, TOGETHER, MIXED])
def test_no_output_changes_by_more_than_the_step_loss(rate: str, bits: tuple[int, ...], positions: Positions) -> None:
    plan = make_plan(pure_stage(rate), bits)
    worst = worst_step(plan, positions)
    assert worst <= exp_up(plan.step_loss)
    assert worst >= exp_up(plan.step_loss * Decimal("0.97"))  # the loss is really spent


def test_the_whole_budget_is_enough_for_both_stages() -> None:
    # "Not stored" and the symbols together lose what the threshold stage loses alone, up to rounded
    # masses.
    stage = pure_stage("1.1")
    assert make_plan(stage, (2,)).step_loss <= stage.step_loss * Decimal("1.001")


def test_embedding_stored_keys_as_well_breaks_the_step_loss() -> None:
    plan = make_plan(pure_stage("1.1"), (2,))
    assert worst_step(plan, APART, embed_stored=True) > exp_up(plan.step_loss * Decimal("1.3"))


def test_ignoring_the_price_of_not_stored_is_seen_by_the_accounting() -> None:
    stage = pure_stage("1.1")
    mutant = make_plan(stage, (2,), leftover=False)
    assert mutant.step_loss > stage.step_loss * Decimal("1.15")
    assert worst_step(mutant, APART) > exp_up(stage.step_loss * Decimal("1.15"))


def test_losses_add_over_keys_and_distances() -> None:
    plan = make_plan(pure_stage("0.7"), (1, 1))
    for x, y in (((0, 0), (1, 1)), ((0, 2), (3, 1)), ((1, 4), (3, 0))):
        distance = sum(abs(a - b) for a, b in zip(x, y, strict=True))
        p, q = (joint_law(plan, MIXED, v) for v in (x, y))
        assert max(max(p[o] / q[o], q[o] / p[o]) for o in p) <= exp_up(plan.step_loss, distance)


@pytest.mark.parametrize("positions", [APART, TOGETHER, MIXED])
def test_delta_is_that_of_the_threshold_stage(positions: Positions) -> None:
    plan = make_plan(stable_stage("0.7"), (2,))
    factor = exp_up(plan.step_loss)
    counts = range(THRESHOLD + 1)
    laws = {x: joint_law(plan, positions, x) for x in product(counts, repeat=2)}
    worst = Fraction(0)
    for (first, second), p in laws.items():
        q = laws.get((first + 1, second))
        if q is not None:
            worst = max(worst, hockey_stick(p, q, factor), hockey_stick(q, p, factor))
    assert worst <= plan.exact_delta
    assert worst >= plan.exact_delta * Fraction(8, 10)  # only the values beyond the window are missing


def test_chances_of_not_being_stored_are_the_stages() -> None:
    stable = StableStage(TwoSided.with_rate(Decimal("0.1")), 60, 4, Fraction(3))
    for stage in (pure_stage("0.7"), stable_stage("0.7"), stable):
        counts = min(stage.threshold, 30)
        exact = unstored_chances(stage, counts)
        floats = not_stored(stage, np.arange(counts))
        assert len(exact) == counts
        for count in range(counts):
            assert float(exact[count][0]) == pytest.approx(float(floats[count]), rel=2e-3)
    assert abs(unstored_chances(stable, 10)[7][0] - (1 - stable.noise.at_least(53))) < Fraction(1, 2**230)
    assert unstored_chances(stable, 10)[2][0] == 1 - Fraction(1, 2) * stable.noise.at_least(56)
