"""Plans and releases with Gaussian noise: what they promise, what they refuse, and intervals that
cover.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sparsedp
from sparsedp import ParameterError
from sparsedp.mechanisms.problem import UserBounds
from sparsedp.mechanisms.retrieval import RetrievalPlan
from sparsedp.mechanisms.stability import StabilityPlan
from sparsedp.privacy.composition import most_revealed
from sparsedp.privacy.cut_laws import CutGaussian
from sparsedp.privacy.randomness import reproducible_for_tests
from sparsedp.structures.thresholds import GaussianStage

KEYS = 6000
ABSENT = 2000


def law_of(plan: Any) -> CutGaussian:
    law = plan.buckets if isinstance(plan, RetrievalPlan) else plan.stage.noise
    assert isinstance(law, CutGaussian)
    return law


@pytest.mark.parametrize("mechanism", ["retrieval", "stability"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    ("epsilon", "delta", "keys", "per_key"),
    [(1.0, 1e-6, 20, 1), (1.0, 1e-9, 100, 1), (0.3, 1e-6, 5, 3), (3.0, 1e-8, 50, 2), (1.0, 1e-9, 1000, 1)],
)
def test_plans_spend_all_of_epsilon_and_not_more_than_delta(
    mechanism: str, signed: bool, epsilon: float, delta: float, keys: int, per_key: int
) -> None:
    # Catches noise that is planned for ℓ1, a number of keys that takes too much, and coarse integers.
    plan = sparsedp.plan(
        epsilon,
        delta,
        nonzero=100_000,
        max_keys_per_user=keys,
        max_per_key=per_key,
        signed=signed,
        mechanism=mechanism,
        noise="gaussian",
    )
    assert plan.epsilon == epsilon
    assert delta / 2 < plan.delta <= delta
    assert plan.releases == 1
    analytic = math.sqrt(keys) * per_key / most_revealed(epsilon, delta)
    assert analytic < math.sqrt(law_of(plan).variance_of_draws) * 1.001
    assert math.sqrt(law_of(plan).variance) <= 1.06 * analytic
    assert f"differ in at most {keys} keys by at most {per_key}" in str(plan)
    if isinstance(plan, RetrievalPlan):
        predicted = plan.error(1e6).mean_absolute
        assert predicted == pytest.approx(law_of(plan).mean_size, rel=0.01)
        assert plan.smallest_stored == law_of(plan).reach + 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"step": 0.5, "max_keys_per_user": 3}, "whole units: rounding real values at random has no guarantee"),
        ({"sensitivity": 20}, "sensitivity alone does not say over how many keys"),
        ({"max_keys_per_user": 3, "delta": 0.0}, "gaussian noise needs delta > 0"),
        ({"max_keys_per_user": 3, "mechanism": "tight-alp"}, "tight-alp has no gaussian noise; use .*retrieval"),
        ({"max_keys_per_user": 3, "mechanism": "laplace", "domain": 9}, "laplace has no gaussian noise"),
        ({"max_keys_per_user": 4, "max_per_key": 0.5}, "max_per_key must be at least 1"),
        ({"max_keys_per_user": 3, "sensitivity": 4}, "sensitivity follows from"),
        ({"max_keys_per_user": 0}, "at least 1|positive"),
        ({"max_keys_per_user": 10**9}, "there is no gaussian noise for these bounds"),
        ({"max_keys_per_user": 20, "epsilon": 1e-3}, "there is no gaussian noise for these bounds"),
        ({"noise": "laplace"}, "'auto', 'geometric' or 'gaussian'"),
        ({"mechanism": "stability", "max_keys_per_user": 3, "threshold_rule": "paper"}, "is for geometric noise"),
        ({"mechanism": "stability", "max_keys_per_user": 3, "goal": "both"}, "goal must be"),
    ],
)
def test_what_gaussian_noise_cannot_do_is_refused_with_the_reason(options: dict[str, Any], reason: str) -> None:
    asked: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "noise": "gaussian", "mechanism": "retrieval"}
    asked |= {"nonzero": 100} | options
    for call in (sparsedp.plan, lambda **given: sparsedp.release({}, **given)):
        with pytest.raises(ParameterError, match=reason):
            call(**asked)


def counts_of(signed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Zipf's law, and with signed values every third count below zero."""
    counts = np.maximum(1, np.round(3e4 / np.arange(1, KEYS + 1) ** 0.9)).astype(np.int64)
    return np.arange(KEYS), np.where(np.arange(KEYS) % 3 == 0, -counts, counts) if signed else counts


def coverage(release: sparsedp.Release, signed: bool) -> float:
    keys, counts = counts_of(signed)
    low, high = release.interval(np.arange(KEYS + ABSENT))
    truth = np.concatenate([counts, np.zeros(ABSENT, int)])
    assert len(keys) == KEYS
    return float(((low <= truth) & (truth <= high)).mean())


LEAST = 0.95 - 5 * math.sqrt(0.95 * 0.05 / (KEYS + ABSENT))  # a correct one is lower once in a million runs


@pytest.mark.parametrize("mechanism", ["retrieval", "stability"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("users_keys", [20, 100])
def test_intervals_cover_and_sums_are_as_uncertain_as_stated(mechanism: str, signed: bool, users_keys: int) -> None:
    # Catches intervals of geometric noise, of one sign, or without the noise of unstored keys.
    with reproducible_for_tests(users_keys):
        release = sparsedp.release(
            counts_of(signed),
            epsilon=1.0,
            delta=1e-6,
            max_keys_per_user=users_keys,
            signed=signed,
            mechanism=mechanism,
            noise="gaussian",
        )
    assert len(release.sides) == 1
    assert coverage(release, signed) >= LEAST
    if mechanism == "retrieval":
        assert coverage(release, signed) < 0.99 or not signed  # and they are no wider than they must be
        random = np.random.default_rng(1)
        keys, counts = counts_of(signed)
        deviations = []
        for _ in range(100):
            own = random.permutation(KEYS)[:300]
            total, error = release.sum(keys[own])
            assert error == pytest.approx(math.sqrt(300 * law_of(release.plan).variance_of_draws), rel=0.01)
            deviations.append((total - counts[own].sum()) / error)
        # The keys of sums overlap little: their mean square is 1 ± 0.15.
        assert 0.4 < float(np.mean(np.square(deviations))) < 1.8
    assert release.delta <= 1e-6


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_sizes_are_estimated_or_public_in_any_number_of_parts(parts: int, public: bool, signed: bool) -> None:
    with reproducible_for_tests(3):
        release = sparsedp.release(
            counts_of(signed),
            epsilon=1.0,
            delta=1e-6,
            max_keys_per_user=150,
            signed=signed,
            parts=parts,
            nonzero=KEYS if public else None,
            mechanism="retrieval",
            noise="gaussian",
        )
    plan = release.plan
    assert isinstance(plan, RetrievalPlan)
    assert release.filled
    assert plan.problem.bounded == public
    assert UserBounds.of(plan.problem).unit == 2
    assert plan.system.keys >= KEYS / parts + 150
    assert (plan.room is None) == (not public)
    assert release.delta == 1e-6 or public
    assert coverage(release, signed) >= LEAST


def test_values_are_cut_at_a_public_upper_bound() -> None:
    with reproducible_for_tests(2):
        release = sparsedp.release(
            counts_of(False), epsilon=1.0, delta=1e-6, max_keys_per_user=20, upper=300, noise="gaussian"
        )
    keys, counts = counts_of(False)
    low, high = release.interval(keys)
    assert high.max() <= 300
    assert float(((low <= np.minimum(counts, 300)) & (counts.clip(max=300) <= high)).mean()) >= LEAST


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("parts", [1, 3])
def test_more_keys_than_a_public_bound_leave_the_array_empty_and_say_so(signed: bool, parts: int) -> None:
    with reproducible_for_tests(4), pytest.warns(sparsedp.OverloadWarning):
        release = sparsedp.release(
            counts_of(signed),
            epsilon=1.0,
            delta=1e-6,
            max_keys_per_user=20,
            signed=signed,
            parts=parts,
            nonzero=100,
            mechanism="retrieval",
            noise="gaussian",
        )
    assert not release.filled
    assert "its array was not filled" in (release.overload or "")
    assert coverage(release, signed) >= LEAST
    threshold = release.plan.smallest_stored
    low, high = release.interval([KEYS + 1])
    assert high[0] >= threshold - 1
    assert low[0] == (-high[0] if signed else 0)
    assert release[KEYS + 1] == 0
    with pytest.raises(ParameterError, match="nothing unbiased to sum"):
        release.sum([1, 2])


@pytest.mark.parametrize("mechanism", ["retrieval", "stability"])
def test_auto_takes_the_noise_with_the_smaller_figure(mechanism: str) -> None:
    def noise(**bounds: Any) -> str:
        return sparsedp.plan(1.0, 1e-6, nonzero=10_000, mechanism=mechanism, **bounds).problem.noise

    assert noise() == "geometric"
    assert noise(sensitivity=100) == "geometric"  # over how many keys is not known
    assert noise(max_keys_per_user=2) == "geometric"
    assert noise(max_keys_per_user=100) == "gaussian"
    assert noise(max_per_key=100) == "geometric"  # one key that moves far
    assert noise(max_keys_per_user=100, noise="geometric") == "geometric"


def test_a_release_promises_what_its_noise_can_keep() -> None:
    # Mutant: the ℓ1 distance, at which one key might move by all of it.
    for mechanism in ("retrieval", "stability"):
        plan = sparsedp.plan(
            1.0, 1e-6, nonzero=100, max_keys_per_user=20, max_per_key=2, mechanism=mechanism, noise="gaussian"
        )
        assert plan.problem.promise == "integer counts that differ in at most 20 keys by at most 2"
        assert "ℓ1" not in str(plan)


def test_names_have_a_lower_threshold_than_geometric_noise_gives() -> None:
    plans = [
        sparsedp.plan(1.0, 1e-9, max_keys_per_user=20, mechanism="stability", noise=noise)
        for noise in ("gaussian", "geometric")
    ]
    assert all(isinstance(plan, StabilityPlan) for plan in plans)
    assert plans[0].smallest_stored < plans[1].smallest_stored / 2
    stages = [
        sparsedp.plan(1.0, 1e-9, max_keys_per_user=20, mechanism="stability", noise="gaussian", goal=goal).stage  # type: ignore[attr-defined]  # of a StabilityPlan
        for goal in ("names", "error")
    ]
    assert all(isinstance(stage, GaussianStage) for stage in stages)
    assert stages[0].threshold <= stages[1].threshold <= 1.02 * stages[0].threshold
    assert stages[1].noise.variance <= stages[0].noise.variance
