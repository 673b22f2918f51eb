"""The mechanism as a user sees it: errors, intervals, predictions, options."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import sparsedp
from sparsedp.errors import ParameterError
from sparsedp.mechanisms.tight_alp import TightAlpPlan
from sparsedp.privacy.randomness import reproducible_for_tests
from statistics_helpers import LEVEL, chi_square_p

KEYS = 40_000
COUNTS = np.maximum(1, np.round(8e4 / np.arange(1, KEYS + 1) ** 1.05)).astype(np.int64)
ABSENT = np.arange(10**6, 10**6 + KEYS)


def build(values: npt.ArrayLike = COUNTS, seed: int = 1, epsilon: float = 1.0, **parameters: Any) -> sparsedp.Release:
    counts = np.asarray(values)
    arguments: dict[str, Any] = {"nonzero": len(counts), "mechanism": "tight-alp", **parameters}
    with reproducible_for_tests(seed):
        return sparsedp.release((np.arange(len(counts)), counts), epsilon=epsilon, **arguments)


def plan_of(release: sparsedp.Release) -> TightAlpPlan:
    assert isinstance(release.plan, TightAlpPlan)
    return release.plan


def test_it_is_the_default_for_sparse_data() -> None:
    release = sparsedp.release({"a": 3}, epsilon=1.0)
    assert release.mechanism == "tight-alp"
    assert release.epsilon <= 1.0


def test_errors_are_close_to_those_of_dense_noise() -> None:
    release = build(bits_per_entry=50.0)
    errors = np.abs(release.lookup(np.arange(KEYS)) - COUNTS)
    assert errors.mean() < 1.15  # dense Laplace noise: 0.93; the paper's mechanism: 6.6
    assert errors[COUNTS > 120].mean() < 1.05
    assert release.lookup(ABSENT).mean() < 0.7  # clamped dense noise: 0.43; the flat prior: 0.80
    assert np.abs(release.lookup(np.arange(KEYS), prior="fitted") - COUNTS).mean() < errors.mean()


def test_space_is_what_was_asked_for() -> None:
    for bits in (30.0, 40.0, 60.0):
        release = build(bits_per_entry=bits)
        assert release.plan.bits_per_entry == pytest.approx(bits, rel=0.02)
        assert 8 * release.nbytes / KEYS == pytest.approx(bits, rel=0.12)  # the table's length is noisy and varies


def test_less_error_takes_more_space() -> None:
    small, large = (sparsedp.plan(1.0, nonzero=KEYS, mechanism="tight-alp", bits_per_entry=b) for b in (25.0, 80.0))
    assert large.error(1).mean_absolute < small.error(1).mean_absolute
    reached = sparsedp.plan(1.0, nonzero=KEYS, mechanism="tight-alp", target_error=1.0)
    assert reached.bits_per_entry is not None
    assert 15 < reached.bits_per_entry < 80
    with pytest.raises(ParameterError, match=r"target_error 0\.01 is below what any size reaches"):
        sparsedp.plan(1.0, nonzero=KEYS, mechanism="tight-alp", target_error=0.01)


@pytest.mark.parametrize("parameters", [{}, {"epsilon": 0.2}, {"delta": 1e-8}, {"domain": 2**31}])
def test_predictions_and_intervals_hold(parameters: dict[str, float]) -> None:
    values = (0, 1, 2, 5, 10, 20, 40, 80)
    probes = np.repeat(values, 3000)
    counts = np.concatenate([COUNTS, probes])
    release = build(counts, seed=2, **parameters)
    asked = np.arange(KEYS, len(counts))
    errors = np.abs(release.lookup(asked) - probes)
    low, high = release.interval(asked)
    for value in values:
        mine = probes == value
        predicted = release.plan.error(value).mean_absolute
        sigma = errors[mine].std() / np.sqrt(mine.sum())
        assert abs(errors[mine].mean() - predicted) < 0.05 * predicted + 4 * sigma
        covered = ((low <= probes) & (probes <= high))[mine].mean()
        assert covered > 0.945 - 5 * np.sqrt(0.05 / 3000)


def test_the_worst_case_is_bounded_too() -> None:
    # Every key at the public bound and counts uniform up to twice the threshold.
    threshold = plan_of(build()).stage.threshold
    counts = np.random.default_rng(3).integers(0, 2 * threshold, KEYS)
    errors = np.abs(build(counts, seed=3).lookup(np.arange(KEYS)) - counts)
    for value in range(0, 2 * threshold, 4):
        assert errors[(counts >= value) & (counts < value + 4)].mean() < 3.5


def test_a_stored_key_leaves_the_embedding() -> None:
    # Counts far above the threshold are all stored: the cells are then those of an empty release.
    release = build(np.full(KEYS, 10_000), seed=4)
    plan = plan_of(release)
    assert len(release.stored().keys) >= KEYS
    at = 0
    for level in plan.blocks.ladder.levels:
        seen = release.sides[0][0]["embedding.symbols"][at : at + level.symbols]
        assert chi_square_p(seen, level.law[0] * seen.sum()) > LEVEL
        at += level.symbols


def test_estimators_differ_as_they_should() -> None:
    release = build(seed=5)
    asked = np.arange(KEYS)
    errors = {name: release.lookup(asked, estimator=name) - COUNTS for name in ("median", "mean", "paper")}
    assert not np.array_equal(errors["median"], errors["mean"])
    assert np.abs(errors["paper"]).mean() < 1.3
    spread = np.random.default_rng(5).integers(0, 30, KEYS)
    release = build(spread, seed=5)
    squares = {name: ((release.lookup(asked, estimator=name) - spread) ** 2).mean() for name in ("median", "mean")}
    assert squares["mean"] < squares["median"]
    assert np.array_equal(release.lookup(asked), release.lookup(asked, estimator="median", prior="balanced"))
    assert not np.array_equal(release.lookup(asked), release.lookup(asked, prior="flat"))
    for name in ("mean", "paper"):  # of the flat prior, as they always were
        wanted = release.lookup(asked, estimator=name, prior="flat")
        assert np.array_equal(release.lookup(asked, estimator=name), wanted)
        with pytest.raises(ParameterError, match=f"prior 'balanced' has only the estimator 'median', got '{name}'"):
            release.lookup(asked, estimator=name, prior="balanced")
    with pytest.raises(ParameterError, match="estimator of mechanism 'tight-alp' must be one of 'median'"):
        release.lookup(asked, estimator="mode")
    with pytest.raises(ParameterError, match="prior of mechanism 'tight-alp' must be one of 'balanced', 'flat'"):
        release.lookup(asked, prior="sharp")


def test_signed_and_real_values_and_uppers_work() -> None:
    signs = np.where(np.arange(KEYS) % 2, 1, -1)
    signed = build(COUNTS * signs, seed=6, signed=True)
    assert np.abs(signed.lookup(np.arange(KEYS)) - COUNTS * signs).mean() < 1.6
    real = build((COUNTS * 0.37).astype(np.float64), seed=7, step=0.1)
    assert np.abs(real.lookup(np.arange(KEYS)) - COUNTS * 0.37).mean() < 1.4
    assert real.epsilon <= 1.0
    cut = build(seed=8, upper=10)
    assert 9 < cut.lookup(np.arange(KEYS)).max() <= 10
    assert len(plan_of(cut).blocks.ladder.levels[0].masses) <= 16


def test_more_keys_than_planned_cost_accuracy_only() -> None:
    crowded = build(seed=9, nonzero=KEYS // 8)
    assert crowded.nbytes < build(seed=9).nbytes / 2
    assert 1.5 < np.abs(crowded.lookup(np.arange(KEYS)) - COUNTS).mean() < 12


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 12.0, 30.0])
@pytest.mark.parametrize("delta", [0.0, 1e-7])
def test_the_budget_is_spent_but_not_exceeded(epsilon: float, delta: float) -> None:
    plan = sparsedp.plan(epsilon, delta, nonzero=1000, mechanism="tight-alp")
    assert 0.999 * min(epsilon, 30) < plan.epsilon <= epsilon
    assert plan.delta <= delta


@pytest.mark.parametrize("epsilon", [0.001, 1e-5])
def test_a_tiny_budget_moves_counts_to_a_coarser_grid(epsilon: float) -> None:
    plan = sparsedp.plan(epsilon, nonzero=10, mechanism="tight-alp")
    assert plan.problem.neighbours.step == pytest.approx(0.02 / epsilon, rel=0.01)
    assert 0.99 * epsilon < plan.epsilon <= epsilon
    counts = np.full(2000, 10 / epsilon).astype(np.int64) + np.arange(2000)
    release = build(counts, seed=10, epsilon=epsilon)
    assert abs(release.lookup(np.arange(2000), prior="flat").mean() * epsilon - 10) < 1
    # Any key may share its cell with one of count 10/ε here, so balanced answers treat some of them
    # as absent.
    assert abs(release.lookup(np.arange(2000)).mean() * epsilon - 10) < 3.5
    assert release.epsilon <= epsilon


def test_integer_keys_of_the_largest_domain_are_spread_over_the_blocks() -> None:
    release = build(seed=11, domain=2**64)
    assert np.abs(release.lookup(np.arange(KEYS)) - COUNTS).mean() < 1.2


def test_a_few_keys_make_a_small_release() -> None:
    with reproducible_for_tests(12):
        release = sparsedp.release({"a": 50, "b": 3}, epsilon=1.0, nonzero=2)
    assert release.nbytes < 7000
    assert abs(release["a"] - 50) < 25
