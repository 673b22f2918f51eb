"""`benchmarks.names` on made-up counts: expectations that releases confirm, and the goal."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pytest

import sparsedp
from benchmarks.names import BOUNDS, DELTAS, GOAL, expected, named
from sparsedp.mechanisms.stability import StabilityPlan
from sparsedp.privacy.contributions import BoundedCounts
from sparsedp.privacy.randomness import reproducible_for_tests


@lru_cache(maxsize=1)
def events(keys: int) -> pa.Table:
    """The first n of 20,000 users have the key of rank 20,000 / n."""
    users = [np.arange(20_000 // (key + 1)) for key in range(keys)]
    named_keys = np.repeat(np.arange(keys), [len(own) for own in users])
    return pa.table({"u": np.concatenate(users), "k": named_keys})


def zipf(keys: int, bound: int) -> BoundedCounts:
    return sparsedp.count(events(keys), key="k", user="u", max_keys_per_user=bound)


@pytest.mark.parametrize("bound", [bound for bound in BOUNDS if bound <= 100])
@pytest.mark.parametrize("delta", DELTAS)
def test_stability_names_nearly_what_the_reference_does(bound: int, delta: float) -> None:
    """Catches a threshold or a variance that is 2 % too large."""
    found = named(zipf(2000, bound), delta)
    assert found.stability >= GOAL * found.reference
    assert found.retrieval >= 0.85 * found.reference
    assert found.stability <= 1.05 * found.reference  # more than the best there is would be a flaw


def test_expected_names_are_those_of_releases() -> None:
    """Catches a threshold that is off by one, which moves the mean by 1 %, and noise of another law:
    the mean of 800 releases varies by less than 0.7 % (5 standard errors).
    """
    counts = zipf(2000, 20)
    plan = sparsedp.plan(
        epsilon=1, delta=1e-6, mechanism="stability", noise="gaussian", max_keys_per_user=20, nonzero=2000
    )
    assert isinstance(plan, StabilityPlan)
    mean = expected(plan.stage.noise, plan.stage.threshold, counts.units)
    seen = []
    for seed in range(800):
        with reproducible_for_tests(seed):
            release = sparsedp.release(counts, epsilon=1, delta=1e-6, mechanism="stability", noise="gaussian")
        seen.append(len(release.stored().keys))
    assert abs(np.mean(seen) - mean) < 5 * np.std(seen) / np.sqrt(len(seen))
    assert 5 * np.std(seen) / np.sqrt(len(seen)) < 0.007 * mean
