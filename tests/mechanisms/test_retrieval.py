"""Retrieval as a user sees it: errors, bias, sums, crowding."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import sparsedp
from sparsedp.errors import ParameterError
from sparsedp.mechanisms.retrieval import RetrievalPlan
from sparsedp.mechanisms.support import SupportSize
from sparsedp.planning.request import Request
from sparsedp.privacy.contributions import Contribution
from sparsedp.privacy.randomness import reproducible_for_tests

KEYS = 40_000
COUNTS = np.maximum(1, np.round(8e4 / np.arange(1, KEYS + 1) ** 1.05)).astype(np.int64)
ABSENT = np.arange(10**6, 10**6 + KEYS)


def build(values: npt.ArrayLike = COUNTS, seed: int = 1, **parameters: Any) -> sparsedp.Release:
    counts = np.asarray(values)
    arguments: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": 1e-9,
        "nonzero": len(counts),
        "mechanism": "retrieval",
        **parameters,
    }
    with reproducible_for_tests(seed):
        return sparsedp.release((np.arange(len(counts)), counts), **arguments)


def test_it_is_the_default_for_approximate_privacy() -> None:
    release = sparsedp.release(dict.fromkeys(range(10_000), 3), epsilon=1.0, delta=1e-9)
    assert release.mechanism == "retrieval"
    assert release.epsilon <= 1.0
    assert 0 < release.delta <= 1e-9


def test_for_few_keys_its_margin_is_too_much_space() -> None:
    # The mechanism follows from the noisy number of keys, so the choice costs nothing; the plan
    # states it.
    with reproducible_for_tests(9):
        few = sparsedp.release(dict.fromkeys(range(100), 3), epsilon=1.0, delta=1e-9, sensitivity=20)
    assert few.mechanism == "tight-alp"
    assert "retrieval would take" in few.plan.reason
    assert few.nbytes < 20_000
    assert (few.plan.problem.sizing_loss > 0, few.epsilon) == (True, 1.0)
    assert sparsedp.plan(1.0, 1e-9, nonzero=1000, sensitivity=20).mechanism == "tight-alp"
    assert sparsedp.plan(1.0, 1e-9, nonzero=10**5, sensitivity=20).mechanism == "retrieval"


def test_every_key_has_the_error_of_geometric_noise() -> None:
    release = build()
    errors = release.lookup(np.arange(KEYS), clamp=False) - COUNTS
    absent = release.lookup(ABSENT, clamp=False)
    for sample in (errors, absent):
        assert np.abs(sample).mean() == pytest.approx(0.874, abs=0.03)
        assert abs(sample.mean()) < 5 * 1.4 / np.sqrt(KEYS)
    assert np.abs(release.lookup(np.arange(KEYS)) - COUNTS).mean() < 0.88
    assert release.lookup(ABSENT).mean() < 0.46


def test_the_noise_of_absent_and_present_keys_has_the_same_law() -> None:
    release = build(np.full(KEYS, 5), seed=2)
    present = release.lookup(np.arange(KEYS), clamp=False) - 5
    absent = release.lookup(ABSENT, clamp=False)
    for j in range(-4, 5):
        assert abs((present == j).mean() - (absent == j).mean()) < 6 * np.sqrt(2 * 0.25 / KEYS)


def test_intervals_cover_and_predictions_hold() -> None:
    release = build(seed=3)
    low, high = release.interval(np.arange(KEYS))
    assert ((low <= COUNTS) & (high >= COUNTS)).mean() > 0.945
    for value in (0, 1, 5, 100):
        assert release.plan.error(value).mean_absolute < 0.88
    observed = np.abs(release.lookup(np.arange(KEYS)) - COUNTS)[COUNTS == 2].mean()
    assert observed == pytest.approx(release.plan.error(2).mean_absolute, rel=0.05)


def test_sums_are_unbiased_with_an_honest_standard_error() -> None:
    release = build(seed=4)
    for keys, truth in ((np.arange(KEYS), int(COUNTS.sum())), (ABSENT, 0)):
        total, error = release.sum(keys)
        assert error == pytest.approx(np.sqrt(KEYS) * 1.39, rel=0.05)
        assert abs(total - truth) < 5 * error
    tight = build(seed=4, mechanism="tight-alp", delta=0.0)
    large = np.flatnonzero(COUNTS > 60)
    total, error = tight.sum(large)
    assert abs(total - COUNTS[large].sum()) < 5 * error
    with pytest.raises(ParameterError, match="no unbiased estimates to sum"):
        build(seed=4, mechanism="threshold").sum(large)


def test_without_a_bound_every_key_has_its_place() -> None:
    # Of 40 000 keys of at most 20 per user; a mutant that sizes by what matters to a ladder answers
    # noise.
    release = build(seed=5, nonzero=None, sensitivity=20)
    assert release.filled
    assert release.overload is None
    assert release.plan.problem.nonzero == pytest.approx(KEYS, abs=12_000)
    errors = release.lookup(np.arange(KEYS), clamp=False) - COUNTS
    assert np.abs(errors).mean() < 1.08 * 20
    low, high = release.interval(np.arange(KEYS))
    assert ((low <= COUNTS) & (high >= COUNTS)).mean() > 0.945


@pytest.mark.parametrize("parts", [1, 3])
def test_more_keys_than_the_bound_leave_the_array_unfilled_and_say_so(parts: int) -> None:
    with pytest.warns(sparsedp.OverloadWarning, match="larger nonzero="):
        crowded = build(seed=5, nonzero=KEYS // 10, parts=parts)
    assert not crowded.filled
    assert crowded.overload is not None
    assert crowded.nbytes < build(seed=5, parts=parts).nbytes / 3
    assert isinstance(crowded.plan, RetrievalPlan)
    threshold = crowded.plan.buckets.threshold
    small = np.flatnonzero(threshold // 2 > COUNTS)
    assert crowded.lookup(small).max() == 0
    assert crowded[int(small[0])] == 0
    assert np.abs(crowded.lookup(np.arange(100)) - COUNTS[:100]).mean() < 2  # large counts are in the table
    low, high = crowded.interval(np.arange(KEYS))
    assert ((low <= COUNTS) & (high >= COUNTS)).mean() > 0.945
    assert threshold < high[small].max() < threshold + 10
    assert crowded.plan.error(5).mean_absolute == pytest.approx(5, abs=0.1)
    with pytest.raises(ParameterError, match="nothing unbiased to sum"):
        crowded.sum([1, 2])


def test_the_number_of_keys_moves_by_the_keys_of_a_user_and_not_by_what_they_count() -> None:
    # A user has 10 keys and counts 100 on each: the margin is that of 10 keys, not of 1000 counts.
    few, many = Contribution(10, Fraction(100), "user"), Contribution(1000, Fraction(1), "user")
    laws = []
    for contribution in (few, many):
        problem = Request(epsilon=50.0, delta=1e-9, sensitivity=1000, contribution=contribution).problem
        law = SupportSize.plan(problem, 0.05).law
        laws.append(law)
        assert float(problem.loss_of_number(law)) * 1000 == pytest.approx(0.05 * 50, rel=1e-4)
        assert problem.moved_keys == contribution.keys
    assert float(laws[0].rate) == pytest.approx(100 * float(laws[1].rate), rel=1e-6)


def test_signed_real_and_cut_values_work() -> None:
    signs = np.where(np.arange(KEYS) % 2, 1, -1)
    signed = build(COUNTS * signs, seed=6, signed=True)
    assert np.abs(signed.lookup(np.arange(KEYS)) - COUNTS * signs).mean() < 1.5
    real = build(COUNTS * 0.37, seed=7, step=0.1)
    assert np.abs(real.lookup(np.arange(KEYS)) - COUNTS * 0.37).mean() < 1.2
    cut = build(seed=8, upper=10, domain=2**40)
    assert cut.lookup(np.arange(KEYS)).max() == 10


def test_space_and_slots_are_planned() -> None:
    plan = sparsedp.plan(1.0, 1e-9, nonzero=100_000, mechanism="retrieval")
    assert isinstance(plan, RetrievalPlan)
    assert plan.bits_per_entry is not None
    assert plan.bits_per_entry < 90
    assert plan.system.slots == 4
    assert sum(plan.delta_parts.values()) <= 1e-9
    with pytest.raises(ParameterError, match="retrieval needs delta > 0"):
        sparsedp.plan(1.0, nonzero=10, mechanism="retrieval")
