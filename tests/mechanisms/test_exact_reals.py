"""Reals with a δ: the rounded count couples the stages, and the exact divergence is still what is
stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest

from exact import Outcome, exp_up, hockey_stick
from sparsedp.privacy.laws import precise
from sparsedp.structures.rounding import LinearRounding
from sparsedp.structures.thresholds import StableStage
from test_exact_alp import array_law
from test_exact_threshold import stable_law
from test_exact_tight_alp import APART, MIXED, TOGETHER, Positions, joint_law, make_plan, stable_stage

ONE = 1 << 64


def between(
    low: Mapping[Outcome, Fraction], high: Mapping[Outcome, Fraction], part: Fraction
) -> dict[Outcome, Fraction]:
    """The law of one or the other, the second with probability `part`."""
    zero = Fraction(0)
    return {o: (1 - part) * low.get(o, zero) + part * high.get(o, zero) for o in {**low, **high}}


def real_factor(step_loss: Decimal, distance: Fraction) -> Fraction:
    """A rational number just above e^((e^w - 1) · distance)."""
    with precise():
        return exp_up((step_loss.exp() - 1) * distance.numerator / distance.denominator)


@pytest.mark.parametrize("distance", [1, 2, 3])
@pytest.mark.parametrize("slope", ["0.25", "1.6"])
def test_the_delta_of_threshold_alp_is_that_of_its_table(distance: int, slope: str) -> None:
    stage = StableStage.plan(Decimal("0.6"), Fraction(distance), Fraction(1, 50))
    rounding = LinearRounding(int(Decimal(slope) * ONE), 2, Fraction(1, 4))
    with precise():
        step_loss = stage.step_loss + rounding.step_loss
    most = stage.unit + distance + 1
    grid = []
    for count in range(most + 1):
        table, array = stable_law(stage, count, 6), array_law(rounding, 1, ((0, 0),), (count,))
        grid.append({(o, z): table[o] * array[z] for o, z in product(table, array)})
    quarters = [Fraction(q, 4) for q in range(4 * most)]
    laws = {t: between(grid[int(t)], grid[int(t) + 1], t % 1) for t in quarters}
    worst = Fraction(0)
    for a, b in product(quarters, repeat=2):
        length = abs(b - a)
        if 0 < length <= distance:
            share = stage.stored_chance * length / stage.unit
            divergence = hockey_stick(laws[b], laws[a], real_factor(step_loss, length))
            assert divergence <= share
            worst = max(worst, divergence / share)
    assert worst == 1  # from zero, anything that is stored falls under δ


@pytest.mark.parametrize("positions", [APART, TOGETHER, MIXED])
def test_the_delta_of_tight_alp_is_that_of_its_table(positions: Positions) -> None:
    plan = make_plan(stable_stage("0.7"), (2,))
    corners = {x: joint_law(plan, positions, x) for x in product(range(5), repeat=2)}
    halves = [Fraction(h, 2) for h in range(8)]
    laws = {}
    for s, t in product(halves, repeat=2):
        i, j = int(s), int(t)
        low = between(corners[i, j], corners[i + 1, j], s % 1)
        laws[s, t] = between(low, between(corners[i, j + 1], corners[i + 1, j + 1], s % 1), t % 1)
    for (s, t), p in laws.items():
        for (u, v), q in laws.items():
            length = abs(s - u) + abs(t - v)
            if 0 < length <= 1:
                assert hockey_stick(p, q, real_factor(plan.step_loss, length)) <= plan.exact_delta * length
