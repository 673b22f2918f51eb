"""Retrieval as a user meets it: errors, bias, sums, crowding."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import sparsedp
from sparsedp.errors import ParameterError
from sparsedp.mechanisms.retrieval import RetrievalPlan
from sparsedp.randomness import reproducible_for_tests

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
    release = sparsedp.release({"a": 3}, epsilon=1.0, delta=1e-9)
    assert release.mechanism == "retrieval"
    assert release.epsilon <= 1.0
    assert 0 < release.delta <= 1e-9


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


def test_more_keys_than_planned_lose_accuracy_and_nothing_else() -> None:
    crowded = build(seed=5, nonzero=KEYS // 4)
    assert not crowded.sides[0][0]["retrieval.filled"][0]
    small = crowded.lookup(np.flatnonzero(COUNTS < 10), clamp=False)
    assert abs(small.mean()) < 0.1  # pure noise around zero
    assert np.abs(crowded.lookup(np.arange(100)) - COUNTS[:100]).mean() < 2  # large counts are in the table


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
