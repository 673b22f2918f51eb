"""Releases: any data is fine, sizes are public, no budget is overspent, randomness is fresh
(promises 8–11).
"""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sparsedp
from sparsedp import Release
from sparsedp.mechanisms import MECHANISMS
from sparsedp.planning.drafts import draft
from sparsedp.planning.request import Request
from sparsedp.privacy.randomness import Randomness, ReproducibleRandomness, reproducible_for_tests
from sparsedp.releasing.building import publish
from sparsedp.structures.table import LARGEST_COUNT

DOMAIN = 50
UPPER = 20


def parameters(mechanism: str, **more: Any) -> dict[str, Any]:
    """Small public parameters that work with every mechanism."""
    delta = 1e-6 if mechanism in ("stability", "retrieval") else 0.0
    return {"epsilon": 1.0, "delta": delta, "domain": DOMAIN, "mechanism": mechanism, "nonzero": 5, **more}


def shapes(release: Release) -> list[list[tuple[str, str, tuple[int, ...]]]]:
    """Names, types and shapes of the arrays in their order, except for the table, whose length is
    noisy.
    """
    return [
        [(name, str(array.dtype), array.shape if not name.startswith("table.") else ()) for name, array in part.items()]
        for side in release.sides
        for part in side
    ]


KEYS = st.integers(0, DOMAIN - 1)
ANY_INTEGER = st.one_of(st.integers(-30, 30), st.integers(1 - (1 << 63), (1 << 63) - 1))
ANY_REAL = st.one_of(st.floats(-30, 30), st.floats(-1e15, 1e15), st.sampled_from([5e-324, -5e-324, 0.5]))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("step", [None, 0.5])
@settings(deadline=None, max_examples=12)
@given(data=st.data(), upper=st.sampled_from([UPPER, 0.25, None]))
def test_no_data_is_too_much_for_a_mechanism(
    mechanism: str, signed: bool, step: float | None, data: st.DataObject, upper: float | None
) -> None:
    # nonzero is 5, and up to 50 keys have values far beyond upper.
    values = ANY_INTEGER if step is None else ANY_REAL
    counts = data.draw(st.dictionaries(KEYS, values if signed else values.map(abs), max_size=DOMAIN))
    release = sparsedp.release(counts, **parameters(mechanism, signed=signed, step=step, upper=upper))
    estimates = release.lookup(range(DOMAIN))
    largest = 1e19 if upper is None else upper
    assert estimates.shape == (DOMAIN,)
    assert (estimates <= largest).all()
    assert (estimates >= (-largest if signed else 0)).all()
    assert release.epsilon <= 1
    assert len(release.sides) == (2 if signed and mechanism not in ("laplace", "retrieval") else 1)


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "laplace"])
@pytest.mark.parametrize("step", [None, 0.5])
@settings(deadline=None, max_examples=12)
@given(keys=st.lists(st.text(max_size=4), unique=True, max_size=40), value=st.integers(0, 1 << 53))
@example(keys=[], value=0)
@example(keys=[str(i) for i in range(40)], value=1 << 53)
def test_no_number_of_hashed_keys_is_too_much(mechanism: str, step: float | None, keys: list[str], value: int) -> None:
    release = sparsedp.release(dict.fromkeys(keys, value), **parameters(mechanism, domain=None, step=step))
    assert np.isfinite(release.lookup([*keys, "never seen"])).all()


@pytest.mark.parametrize("mechanism", ["auto", "alp", "threshold-alp"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    ("counts", "step"),
    [
        ({}, None),
        ({}, 0.5),
        ({"a": 1}, 0.5),
        ({"a": (1 << 63) - 1}, None),
        (dict.fromkeys("abcdefgh", 10**12), None),
        ({"a": 1e15}, 0.5),
    ],
)
def test_the_size_is_estimated_when_it_is_not_public_whatever_the_values(
    mechanism: str, signed: bool, counts: dict[str, float], step: float | None
) -> None:
    release = sparsedp.release(counts, epsilon=1, mechanism=mechanism, step=step, signed=signed)
    assert release.nbytes < 10_000_000
    assert release.plan.problem.sizing_loss > 0
    assert release.epsilon <= 1


@pytest.mark.parametrize("mechanism", ["laplace", "threshold", "stability", "threshold-alp"])
def test_more_keys_than_nonzero_are_all_released(mechanism: str) -> None:
    counts = dict.fromkeys(range(DOMAIN), 1000)
    with reproducible_for_tests(1):
        release = sparsedp.release(counts, **parameters(mechanism, epsilon=5, nonzero=1))
    assert np.abs(release.lookup(range(DOMAIN)) - 1000).max() < 50


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_values_above_upper_are_cut(mechanism: str) -> None:
    counts = {1: 1 << 62, 2: UPPER, 3: UPPER + 1}
    with reproducible_for_tests(1):
        release = sparsedp.release(counts, **parameters(mechanism, epsilon=10, upper=UPPER))
    unclamped = release.lookup([1, 2, 3], clamp=False)
    assert np.abs(unclamped - UPPER).max() < 12
    assert release.lookup([1, 2, 3]).max() <= UPPER


@pytest.mark.parametrize("mechanism", ["laplace", "threshold", "stability"])
def test_values_saturate_far_above_any_count(mechanism: str) -> None:
    release = sparsedp.release({1: (1 << 63) - 1}, **parameters(mechanism))
    assert release[1] == pytest.approx(LARGEST_COUNT)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("step", [None, 0.5])
@pytest.mark.parametrize("domain", [DOMAIN, None])
def test_sizes_and_names_do_not_depend_on_the_data(
    mechanism: str, signed: bool, step: float | None, domain: int | None
) -> None:
    if mechanism == "laplace":
        domain = DOMAIN
    public = parameters(mechanism, signed=signed, step=step, upper=UPPER, domain=domain)
    data: list[dict[int, int]] = [{}, {1: 1}, dict.fromkeys(range(DOMAIN), 10**9), {7: 1 << 52, 8: 3}]
    releases = [sparsedp.release(counts, **public) for counts in data]
    for release in releases[1:]:
        assert shapes(release) == shapes(releases[0])
        assert release.plan == releases[0].plan
        assert release.key_space.domain == releases[0].key_space.domain
        assert (release.epsilon, release.delta) == (releases[0].epsilon, releases[0].delta)


@pytest.mark.parametrize("mechanism", ["threshold", "stability", "threshold-alp"])
def test_stored_keys_are_in_order_whatever_the_order_of_the_data(mechanism: str) -> None:
    keys = np.random.default_rng(0).permutation(DOMAIN)
    with reproducible_for_tests(1):
        release = sparsedp.release((keys, np.full(DOMAIN, 10**6)), **parameters(mechanism))
    assert release.stored().keys.tolist() == list(range(DOMAIN))
    assert np.abs(release.stored().values - 10**6).max() < 1000


def test_hash_seeds_and_row_functions_never_repeat() -> None:
    seeds: set[int] = set()
    functions: set[bytes] = set()
    for _ in range(1000):
        release = sparsedp.release({"a": 3}, epsilon=1, mechanism="alp", nonzero=1, upper=4)
        assert release.key_space.seed is not None
        seeds.update(release.key_space.seed)
        functions.update(row.tobytes() for row in release.sides[0][0]["embedding.functions"])
    levels = len(release.sides[0][0]["embedding.functions"])
    assert len(seeds) == 2 * 1000
    assert len(functions) == levels * 1000


def test_the_two_halves_of_a_signed_release_have_row_functions_of_their_own() -> None:
    positive, negative = sparsedp.release({"a": 3}, epsilon=1, mechanism="alp", nonzero=1, signed=True).sides
    functions = np.concatenate([positive[0]["embedding.functions"], negative[0]["embedding.functions"]])
    assert len({row.tobytes() for row in functions}) == len(functions)


EPSILONS = [0.01, 0.03, 0.1, 0.5, 1.0, 1.7, 3.0, 10.0, 25.0, 30.0]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("step", [None, 0.5])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_release_spends_no_more_than_was_asked_for(mechanism: str, step: float | None, epsilon: float) -> None:
    for more in ({"nonzero": 5}, {"nonzero": None, "total": 30}, {"nonzero": 5, "sensitivity": 2.5, "signed": True}):
        release = sparsedp.release({3: 4}, **parameters(mechanism, epsilon=epsilon, upper=UPPER, step=step, **more))
        assert 0 < release.epsilon <= epsilon
        assert release.delta <= (1e-6 if mechanism in ("stability", "retrieval") else 0)
        assert (release.epsilon, release.delta) == (release.plan.epsilon, release.plan.delta)


@pytest.mark.parametrize("mechanism", ["alp", "threshold-alp"])
@pytest.mark.parametrize("share", [0.001, 0.02, 0.5, 0.99])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0])
def test_estimating_the_size_is_part_of_what_is_spent(mechanism: str, share: float, epsilon: float) -> None:
    release = sparsedp.release({"a": 4}, epsilon=epsilon, mechanism=mechanism, sizing_share=share, scaling="exact")
    assert release.epsilon <= epsilon
    known = sparsedp.plan(epsilon, nonzero=10, mechanism=mechanism, scaling="exact")
    assert float(release.plan.step_loss) < float(known.step_loss)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
@pytest.mark.parametrize("mechanism", ["stability", "threshold-alp"])
@pytest.mark.parametrize("rule", ["tight", "paper"])
def test_delta_is_never_overspent(mechanism: str, delta: float, rule: str) -> None:
    release = sparsedp.release({3: 9}, **parameters(mechanism, delta=delta, threshold_rule=rule, sensitivity=3))
    assert 0 < release.delta <= delta
    assert release.epsilon <= 1


def arrays(release: Release) -> list[bytes]:
    return [array.tobytes() for side in release.sides for part in side for array in part.values()]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("step", [None, 0.5])
def test_releases_of_one_seed_repeat_and_say_so(mechanism: str, step: float | None) -> None:
    counts = dict.fromkeys(range(20), 10**6)

    def build(seed: int) -> Release:
        with reproducible_for_tests(seed):
            return sparsedp.release(counts, **parameters(mechanism, step=step))

    first, again, other = build(7), build(7), build(8)
    assert arrays(first) == arrays(again)
    assert first.key_space == again.key_space
    assert arrays(first) != arrays(other)
    for release in (first, again, other):
        assert release.reproducible
        assert "reproducible: for tests only" in repr(release)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_other_releases_never_repeat_and_are_not_marked(mechanism: str) -> None:
    with reproducible_for_tests(7):
        marked = sparsedp.release({1: 10**6}, **parameters(mechanism))
    fresh = [sparsedp.release({1: 10**6, 2: 10**6, 3: 10**6}, **parameters(mechanism, epsilon=0.01)) for _ in range(3)]
    assert marked.reproducible
    assert not any(release.reproducible for release in fresh)
    assert "reproducible" not in repr(fresh[0])
    assert len({tuple(arrays(release)) for release in fresh}) == 3


def in_a_child(stream: Randomness, count: int) -> list[int]:
    """The next words of the stream in a forked process."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other libraries may have started threads
        process = os.fork()
    if process == 0:
        try:
            os.write(writing, stream.words(count).tobytes())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        received = pipe.read()
    os.waitpid(process, 0)
    return [int(word) for word in np.frombuffer(received, np.uint64)]


def test_a_forked_child_does_not_repeat_its_parent_or_its_siblings() -> None:
    stream = Randomness()
    before = stream.words(64).tolist()
    children = [in_a_child(stream, 64), in_a_child(stream, 64)]
    after = stream.words(64).tolist()
    words = [*before, *children[0], *children[1], *after]
    assert len(words) == 256
    assert len(set(words)) == 256


def test_threads_that_share_a_stream_never_get_the_same_words() -> None:
    stream = ReproducibleRandomness(11)
    threads, draws, size = 4, 500, 7
    drawn: list[list[int]] = [[] for _ in range(threads)]
    start = threading.Barrier(threads)

    def draw(mine: list[int]) -> None:
        start.wait()
        for _ in range(draws):
            mine.extend(stream.words(size).tolist())

    workers = [threading.Thread(target=draw, args=(mine,)) for mine in drawn]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    together = sorted(word for mine in drawn for word in mine)
    assert together == sorted(ReproducibleRandomness(11).words(threads * draws * size).tolist())
    assert len(set(together)) == threads * draws * size


def test_a_draft_must_cover_the_bounds_that_counts_were_made_with() -> None:
    # Catches a caller inside of the package that makes a draft for other bounds than it counts
    # with.
    counts = sparsedp.count(pa.table({"k": ["a", "b"], "u": [1, 1]}), key="k", user="u", max_keys_per_user=4)
    with pytest.raises(AssertionError, match="promises more privacy"):
        publish(draft(Request(epsilon=1.0, mechanism="threshold")), counts, (), None, None)
