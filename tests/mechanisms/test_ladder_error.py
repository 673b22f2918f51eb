"""The error of `tight-alp` as docs/paper.md bounds it: what "not stored" costs in all, and how far
symbols are from the truth.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import sparsedp
from sparsedp.mechanisms.leftover import step_factors, unstored_chances
from sparsedp.mechanisms.tight_alp import TightAlpPlan
from sparsedp.structures.decoding import poisson_load

Floats = npt.NDArray[np.float64]

SETTINGS: list[dict[str, Any]] = [
    {"sensitivity": 5},
    {"sensitivity": 20},
    {"sensitivity": 20, "delta": 1e-9},
    {"sensitivity": 100, "nonzero": 1000},
]


DEFAULTS: dict[str, Any] = {"epsilon": 1.0, "nonzero": 100_000, "mechanism": "tight-alp"}


def plan_of(settings: dict[str, Any], levels: int = 1) -> TightAlpPlan:
    plan = sparsedp.plan(**DEFAULTS | settings)
    assert isinstance(plan, TightAlpPlan)
    assert len(plan.blocks.ladder.levels) == levels
    return plan


def growth_rate(plan: TightAlpPlan) -> float:
    """The w of the bounds: what a ladder spends of each step, "not stored" included. It is the step
    loss, less what rounding to integers would exceed.
    """
    recipe = plan.blocks.ladder.recipe
    assert recipe is not None
    w = math.log(recipe.growth)
    assert 0.999 * float(plan.step_loss) < w <= float(plan.step_loss) + 1e-12
    return w


def budgets_of(plan: TightAlpPlan) -> tuple[npt.NDArray[np.int64], Floats]:
    """The anchors, and the leftover budget of each gap between them."""
    recipe = plan.blocks.ladder.recipe
    assert recipe is not None
    left = np.log(step_factors(plan.stage, recipe.growth, recipe.anchors[-1]))
    return np.array(recipe.anchors), np.array([left[low:high].sum() for low, high in pairwise(recipe.anchors)])


def anchor_law(plan: TightAlpPlan) -> Floats:
    """P[anchor | height]: symbols that no anchor needs stand for the last one."""
    (level,) = plan.blocks.ladder.levels
    last = len(budgets_of(plan)[0]) - 1
    return np.concatenate([level.law[:, :last], level.law[:, last:].sum(axis=1, keepdims=True)], axis=1)


@pytest.mark.parametrize("settings", [{}, {"delta": 1e-9}, *SETTINGS])
def test_not_stored_costs_one_bit_in_all(settings: dict[str, Any]) -> None:
    plan = plan_of(settings, levels=1 if "sensitivity" in settings else 2)
    absent = [float(chances[-1]) for chances in unstored_chances(plan.stage, plan.stage.threshold)]
    price = math.log(absent[0] / absent[-1])
    assert price == pytest.approx(math.log(1 + math.exp(-float(plan.stage.noise.rate))), rel=1e-6)
    assert price < math.log(2)


@pytest.mark.parametrize("settings", SETTINGS)
def test_gaps_are_as_high_as_their_budgets_and_one_bit(settings: dict[str, Any]) -> None:
    plan = plan_of(settings)
    anchors, budgets = budgets_of(plan)
    w, spent = growth_rate(plan), np.append(0.0, np.cumsum(budgets))
    for low, high in combinations(range(len(anchors)), 2):
        assert w * (anchors[high] - anchors[low]) <= spent[high] - spent[low] + math.log(2) + 1e-6


@pytest.mark.parametrize("settings", SETTINGS)
def test_symbols_pass_a_gap_as_rarely_as_its_budget_says(settings: dict[str, Any]) -> None:
    # Catches a climb that starts too high: 1 + B is the least that a gap of budget B divides by.
    plan = plan_of(settings)
    anchors, budgets = budgets_of(plan)
    law, last = anchor_law(plan), len(anchors) - 2
    for count, chances in enumerate(law):
        own = min(int(np.searchsorted(anchors, count, side="right")) - 1, last)
        above = np.cumprod(1 / (2 * np.exp(budgets[own + 1 :] / 2) - 1))
        below = np.cumprod(1 / (2 * np.exp(budgets[:own][::-1] / 2) - 1))
        # Masses are at least 2^-44, which is more than the last symbols would have.
        assert (np.cumsum(chances[::-1])[::-1][own + 2 :] <= above + 1e-11).all()
        assert (np.cumsum(chances)[:own][::-1] <= below + 1e-11).all()
        assert (above <= np.cumprod(1 / (1 + budgets[own + 1 :]))).all()


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_anchor_of_a_symbol_errs_by_no_more_than_is_proved(settings: dict[str, Any]) -> None:
    plan = plan_of(settings)
    anchors, budgets = budgets_of(plan)
    w, law = growth_rate(plan), anchor_law(plan)
    rate = math.log(2 * math.exp(budgets.max() / 2) - 1) / budgets.max()
    distances = np.abs(anchors - np.arange(len(law))[:, None])
    own = np.clip(np.searchsorted(anchors, np.arange(len(law)), side="right") - 1, 0, len(budgets) - 1)
    assert ((law * distances).sum(axis=1) <= (budgets[own] + 2 + math.log(2)) / w).all()
    for x in (0.0, 0.5, 1.0, 2.0, 5.0, 10.0):
        beyond = distances > ((budgets[own] + math.log(2) + x) / w)[:, None]
        assert ((law * beyond).sum(axis=1) <= 2 * math.exp(-rate * x) + 1e-11).all()


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_other_keys_add_at_most_their_cut_counts_over_the_cells(settings: dict[str, Any], share: float) -> None:
    # All other keys at one height, which is the worst for a given sum.
    plan = plan_of(settings)
    anchors, budgets = budgets_of(plan)
    (level,), (cells,) = plan.blocks.ladder.levels, plan.blocks.cells
    height, keys = round(share * level.height), plan.problem.entries or 1
    load = poisson_load(cells, np.where(np.arange(level.height + 1) < height, float(keys), 0.0))
    law, alone = anchor_law(plan), (budgets.max() + 2 + math.log(2)) / growth_rate(plan)
    for count in range(0, level.height + 1, max(1, level.height // 50)):
        seen = np.cumsum(load)[count] * law[count] + load[count + 1 :] @ law[count + 1 :]
        assert seen @ np.abs(anchors - count) <= alone + keys * height / cells
