"""Sizes that are counted with noise: what such a release states, and files that state too little."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsedp
from sparsedp import FormatError
from sparsedp.format.description import Contents
from sparsedp.format.files import save
from sparsedp.keys.hashing import Partition
from sparsedp.mechanisms import Plan
from sparsedp.mechanisms.alp import AlpPlan
from sparsedp.mechanisms.retrieval import RetrievalPlan
from sparsedp.mechanisms.support import OVERFLOW_SHARE, SupportSize
from sparsedp.planning.drafts import draft
from sparsedp.planning.request import Request
from sparsedp.privacy.contributions import Contribution
from sparsedp.privacy.laws import TwoSided
from sparsedp.privacy.randomness import Randomness
from sparsedp.releasing.cells import Sums
from sparsedp.releasing.parts import PartWork


@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), [(1.0, 1e-6, 5), (10.0, 1e-13, 3), (5.0, 1e-12, 4)])
def test_whatever_the_number_of_keys_decides_the_release_states_all_of_epsilon_and_delta(
    epsilon: float, delta: float, sensitivity: int
) -> None:
    # Mutant: each states its own loss, though another number would have led to the other mechanism.
    drafted = draft(Request(epsilon=epsilon, delta=delta, sensitivity=sensitivity))
    assert drafted.label == "retrieval or tight-alp"
    plans = [drafted.finish([keys]) for keys in (1, 30, 1000, 30_000, 10**6)]
    assert {plan.mechanism for plan in plans} == {"retrieval", "tight-alp"}
    for plan in plans:
        assert (plan.epsilon, plan.delta) == (epsilon, delta)
        assert plan.exact_epsilon <= epsilon


def test_the_overflow_of_a_number_has_a_share_of_delta_that_no_mechanism_uses() -> None:
    # Mutant: tight-alp with all of δ beside the chance that a number is too small.
    drafted = draft(Request(epsilon=1.0, delta=1e-6, sensitivity=5))
    few, many = drafted.finish([1]), drafted.finish([10**5])
    assert isinstance(many, RetrievalPlan)
    overflow = many.delta_events["overflow"]
    stage: Any = few
    assert overflow <= OVERFLOW_SHARE * Fraction(1e-6)
    assert stage.stage.delta + overflow <= Fraction(1e-6)


def test_rounded_values_leave_no_choice() -> None:
    # The number and the build share their coins, which tight-alp would not.
    drafted = draft(Request(epsilon=1.0, delta=1e-6, step=0.5))
    assert [drafted.finish([keys]).mechanism for keys in (1, 10**5)] == ["retrieval", "retrieval"]
    assert drafted.label == "retrieval"


def test_auto_takes_tight_alp_where_retrieval_finds_no_plan() -> None:
    release = sparsedp.release({"a": 3}, epsilon=20.0, delta=2e-14, sensitivity=300)  # of more than 64 bits
    assert release.mechanism == "tight-alp"


def forged(release: sparsedp.Release, plan: Plan, path: Path, **arrays: Any) -> Path:
    sides = tuple(tuple({**part, **arrays} for part in side) for side in release.sides)
    save(Contents(plan, release.key_space, sides, release.reproducible), path)
    return path


def test_a_file_cannot_state_less_by_calling_its_size_a_number_of_keys(tmp_path: Path) -> None:
    release = sparsedp.release({"a": 3}, epsilon=4.0, sensitivity=20, mechanism="alp", sizing_share=0.5)
    assert isinstance(release.plan, AlpPlan)
    problem = replace(release.plan.problem, contribution=Contribution(1, Fraction(20), "user"), sizing_keys=1)
    assert problem.sizing_noise is not None
    problem = replace(problem, sizing_loss=problem.loss_of_number(problem.sizing_noise))
    plan = replace(release.plan, problem=problem)
    assert plan.exact_epsilon < 0.6 * release.epsilon
    with pytest.raises(FormatError, match="does not count keys"):
        sparsedp.load(forged(release, plan, tmp_path / "a"), allow_reproducible=True)


@pytest.mark.parametrize("room", [0, 1, 50])
def test_a_counted_size_is_not_a_bound_and_a_room_is_the_planned_one(room: int, tmp_path: Path) -> None:
    release = sparsedp.release({"a": 3}, epsilon=1.0, delta=1e-6, mechanism="retrieval")
    assert isinstance(release.plan, RetrievalPlan)
    problem = replace(release.plan.problem, bounded=True)
    plan = replace(release.plan, problem=problem, room=room)
    path = forged(release, plan, tmp_path / "a", **{"retrieval.filled": np.array([True])})
    with pytest.raises(FormatError, match="margin above the number of keys"):
        sparsedp.load(path, allow_reproducible=True)


def test_numbers_of_each_part_are_of_format_1_only(tmp_path: Path) -> None:
    release = sparsedp.release({"a": 3}, epsilon=1.0, delta=1e-6, nonzero=50, mechanism="retrieval")
    assert isinstance(release.plan, RetrievalPlan)
    problem = release.plan.problem
    assert isinstance(problem.sizing_noise, TwoSided)
    bare = replace(problem, sizing_noise=None, sizing_keys=None, sizing_loss=0 * problem.sizing_loss, bounded=False)
    plan = replace(release.plan, problem=bare, count_noise=problem.sizing_noise)
    with pytest.raises(FormatError, match="format 1 may state the number of keys"):
        sparsedp.load(forged(release, plan, tmp_path / "a"), allow_reproducible=True)


def test_rows_that_change_between_the_passes_are_refused() -> None:
    # Mutant: an array that was made for other rows.
    problem = Request(epsilon=1.0, delta=1e-6, parts=2).problem
    plan = RetrievalPlan.create(SupportSize.plan(problem).sized(problem, [3, 3]))
    work = PartWork(plan.problem, Partition(2, hashed=True), Randomness().part_streams(), plan, counted=(2, 0))
    ids, values = np.array([5, 9, 5], np.uint64), np.array([1, 2, 1])
    work.build(0, Sums.of(ids, values, Fraction(1)))
    with pytest.raises(RuntimeError, match="the rows changed between counting and building"):
        work.build(0, Sums.of(ids[:1], values[:1], Fraction(1)))


def test_a_large_share_of_a_large_epsilon_is_drawn_with_noise() -> None:
    problem = Request(
        epsilon=60.0, delta=1e-6, sensitivity=10, contribution=Contribution(1, Fraction(10), "user")
    ).problem
    assert SupportSize.plan(problem, 0.9).law.at_zero < 1


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        ("threshold-alp", {"epsilon": 1e-5}),
        ("alp", {"epsilon": 3e-4, "step": 0.1, "sensitivity": 5}),
        ("alp", {"epsilon": 5e-4, "sensitivity": 50}),
    ],
)
def test_a_size_whose_noise_no_file_may_have_is_refused_before_the_debit(
    mechanism: str, options: dict[str, Any], tmp_path: Path
) -> None:
    # Catches a release that is paid for, and that no program can open.
    ledger = sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=1)
    with pytest.raises(sparsedp.ParameterError, match=r"sizing_share must be large enough.*give nonzero= or total="):
        sparsedp.release({"a": 1}, mechanism=mechanism, path=tmp_path / "a", ledger=ledger, **options)
    assert ledger.entries() == []
