"""Lookups: one key or many, in any order and container, clamped or not, with intervals (promises
14, 21).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparsedp
from sparsedp import InputError, KeyTypeError, Release
from sparsedp.mechanisms import MECHANISMS
from sparsedp.privacy.randomness import reproducible_for_tests

DOMAIN = 60
UPPER = 40.0


def build(mechanism: str, signed: bool = False, epsilon: float = 1.0, **more: Any) -> Release:
    """A reproducible release of the counts 0..29, every second one negative if signed."""
    signs = [-1 if signed and key % 2 else 1 for key in range(DOMAIN)]
    counts = {key: signs[key] * min(key, 59 - key) for key in range(DOMAIN)}
    delta = 1e-6 if mechanism in ("stability", "retrieval") else 0.0
    public = {"epsilon": epsilon, "delta": delta, "domain": DOMAIN, "nonzero": DOMAIN, "upper": UPPER, **more}
    with reproducible_for_tests(2):
        return sparsedp.release(counts, mechanism=mechanism, signed=signed, **public)


@pytest.fixture(
    scope="module",
    params=[
        (mechanism, signed, step, upper)
        for mechanism in MECHANISMS
        for signed in (False, True)
        for step in (None, 0.5)
        for upper in (UPPER, None)
    ],
    ids=str,
)
def release(request: pytest.FixtureRequest) -> Release:
    """A release of every kind."""
    mechanism, signed, step, upper = request.param
    return build(mechanism, signed, step=step, upper=upper)


def test_many_keys_are_answered_as_in_several_calls() -> None:
    whole, at = build("tight-alp", domain=None), 200_000
    keys = np.arange(at + 100)
    answer = np.array(whole.answer(keys))
    assert np.array_equal(answer[0], whole.lookup(keys))
    assert np.array_equal(answer[:, at:], whole.answer(keys[at:]))


def test_one_key_is_answered_as_in_a_batch(release: Release) -> None:
    batch = release.lookup(range(DOMAIN))
    assert batch.dtype == np.float64
    assert [release[key] for key in range(DOMAIN)] == batch.tolist()
    assert all(type(release[key]) is float for key in range(3))


@settings(deadline=None, max_examples=10)
@given(keys=st.lists(st.integers(0, DOMAIN - 1), max_size=100))
def test_answers_come_in_the_order_of_the_keys(release: Release, keys: list[int]) -> None:
    every = release.lookup(range(DOMAIN))
    low, high = release.interval(range(DOMAIN))
    assert release.lookup(keys).tolist() == [every[key] for key in keys]
    assert release.interval(keys)[0].tolist() == [low[key] for key in keys]
    assert release.interval(keys)[1].tolist() == [high[key] for key in keys]


def test_clamped_answers_are_the_others_cut_to_what_a_value_can_be(release: Release) -> None:
    problem = release.plan.problem
    upper = np.inf if problem.upper is None else float(problem.upper)
    free = release.lookup(range(DOMAIN), clamp=False)
    cut = release.lookup(range(DOMAIN), clamp=True)
    assert cut.tolist() == np.clip(free, -upper if problem.signed else 0, upper).tolist()


def test_unclamped_answers_may_be_negative() -> None:
    release = build("laplace", epsilon=0.1)
    assert release.lookup(range(DOMAIN), clamp=False).min() < 0
    assert release.lookup(range(DOMAIN)).min() == 0


def test_an_interval_is_in_order_within_bounds_and_grows_with_confidence(release: Release) -> None:
    problem = release.plan.problem
    upper = np.inf if problem.upper is None else float(problem.upper)
    previous_low, previous_high = np.full(DOMAIN, np.inf), np.full(DOMAIN, -np.inf)
    for confidence in (0.01, 0.5, 0.95, 0.9999):
        low, high = release.interval(range(DOMAIN), confidence)
        assert (low <= high).all()
        assert (low >= (-upper if problem.signed else 0)).all()
        assert (high <= upper).all()
        assert (low <= previous_low).all()
        assert (high >= previous_high).all()
        previous_low, previous_high = low, high


def has_interval_around_every_estimate(release: Release) -> bool:
    estimates = release.lookup(range(DOMAIN))
    bounds = [release.interval(range(DOMAIN), confidence) for confidence in (0.01, 0.5, 0.95, 0.9999)]
    return all(((low <= estimates) & (estimates <= high)).all() for low, high in bounds)


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "threshold-alp"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("upper", [UPPER, None])
def test_an_interval_contains_its_estimate(mechanism: str, signed: bool, epsilon: float, upper: float | None) -> None:
    assert has_interval_around_every_estimate(build(mechanism, signed, epsilon, upper=upper))
    assert has_interval_around_every_estimate(build(mechanism, signed, epsilon, upper=upper, step=0.5))


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_an_interval_of_threshold_alp_contains_its_estimate(epsilon: float) -> None:
    assert has_interval_around_every_estimate(build("threshold-alp", epsilon=epsilon, upper=None))


@pytest.mark.parametrize(
    ("mechanism", "signed"),
    [("threshold", False), ("threshold-alp", False), ("stability", False), ("stability", True)],
)
def test_a_stored_key_is_answered_with_its_stored_value(mechanism: str, signed: bool) -> None:
    release = build(mechanism, signed, epsilon=5.0, upper=None)
    keys, values = release.stored()
    assert len(keys) > 5
    assert keys.tolist() == sorted(keys.tolist())
    assert release.lookup(keys).tolist() == values.tolist()
    assert signed == bool((values < 0).any())


@pytest.mark.parametrize("mechanism", ["laplace", "alp", "compact"])
def test_mechanisms_without_a_table_store_no_keys(mechanism: str) -> None:
    keys, values = build(mechanism).stored()
    assert (len(keys), len(values)) == (0, 0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("step", [None, 0.5])
def test_answers_are_near_the_truth_when_there_is_much_to_spend(mechanism: str, step: float | None) -> None:
    truth = np.array([min(key, 59 - key) for key in range(DOMAIN)])
    unsigned = build(mechanism, epsilon=20.0, step=step).lookup(range(DOMAIN))
    signed = build(mechanism, signed=True, epsilon=20.0, step=step).lookup(range(DOMAIN))
    signs = np.where(np.arange(DOMAIN) % 2, -1, 1)
    assert np.abs(unsigned - truth).mean() < 1
    assert np.abs(signed - signs * truth).mean() < 1
    assert signed.min() < -20


def test_answers_are_in_the_units_of_the_values() -> None:
    counts = {key: key * 0.25 for key in range(DOMAIN)}
    with reproducible_for_tests(5):
        release = sparsedp.release(counts, epsilon=40, domain=DOMAIN, mechanism="laplace", step=0.25, sensitivity=0.25)
    answers = release.lookup(range(DOMAIN))
    assert np.abs(answers - np.arange(DOMAIN) * 0.25).max() <= 1
    assert (answers % 0.25 == 0).all()


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "laplace"])
def test_every_container_of_keys_gets_the_same_answers(mechanism: str) -> None:
    keys = [f"key {i}" for i in range(30)]
    counts = dict.fromkeys(keys, 100)
    release = sparsedp.release(counts, epsilon=1, delta=1e-6, nonzero=30, upper=200, mechanism=mechanism)
    expected = release.lookup(keys).tolist()
    assert [release[key] for key in keys] == expected
    for column in (tuple(keys), np.array(keys), pa.array(keys), pd.Series(keys), pl.Series(keys), counts, iter(keys)):
        assert release.lookup(column).tolist() == expected


def test_no_keys_get_no_answers(release: Release) -> None:
    assert release.lookup([]).shape == (0,)
    assert [bound.shape for bound in release.interval([])] == [(0,), (0,)]


def test_lookups_leave_the_release_as_it_is(release: Release) -> None:
    before = [array.tobytes() for side in release.sides for part in side for array in part.values()]
    first = release.lookup(range(DOMAIN)).tolist()
    release.interval(range(DOMAIN))
    release.stored()
    assert release.lookup(range(DOMAIN)).tolist() == first
    assert [array.tobytes() for side in release.sides for part in side for array in part.values()] == before
    assert release.nbytes >= sum(map(len, before))


def test_threads_get_the_same_answers(release: Release) -> None:
    expected = release.lookup(range(DOMAIN)).tolist()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: release.lookup(range(DOMAIN)).tolist(), range(16)))
    assert answers == [expected] * 16


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_key_that_cannot_be_is_refused_in_lookups_too(mechanism: str) -> None:
    release = build(mechanism)
    with pytest.raises(InputError, match=r"^key at position 1 must be an integer in \[0, 60\)"):
        release.lookup([0, DOMAIN])
    with pytest.raises(InputError, match=r"^key at position 0"):
        release.interval([-1])
    with pytest.raises(KeyTypeError, match=r"^key at position 0"):
        release["a"]
    with pytest.raises(KeyTypeError, match=r"use release\[key\]"):
        release.lookup("a")


HASHED_KEYS: dict[str, list[Any]] = {
    "integers": [-5, 0, 7, 2**63 - 1],
    "large integers": [1, 2**63, 2**64 - 1],
    "text": ["", "a", "naïve", "a longer text that takes several words"],
    "bytes": [b"", b"\x00", b"abcdefgh", b"a longer text that takes several words"],
}


@pytest.mark.parametrize("mechanism", ["tight-alp", "retrieval", "stability", "threshold-alp"])
@pytest.mark.parametrize("kind", HASHED_KEYS)
def test_one_hashed_key_is_answered_as_in_a_batch(mechanism: str, kind: str) -> None:
    keys, delta = HASHED_KEYS[kind], 0.0 if mechanism in ("tight-alp", "threshold-alp") else 1e-6
    for signed, step in ((False, None), (True, 0.25)):
        with reproducible_for_tests(3):
            release = sparsedp.release(
                {key: 3.0 * at for at, key in enumerate(keys)},
                epsilon=2.0,
                delta=delta,
                mechanism=mechanism,
                nonzero=10,
                upper=6.0,
                signed=signed,
                step=step,
            )
        assert [release[key] for key in keys] == release.lookup(keys).tolist()
        for other in (3.5, None, True, object(), "text" if kind != "text" else b"bytes"):
            with pytest.raises(KeyTypeError):
                release[other]  # type: ignore[index]
