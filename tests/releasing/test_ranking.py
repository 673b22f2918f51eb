"""The largest estimates of a release, by name if it has names, and answers as DataFrames."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sparsedp
from releases import DIRECTORIES, VARIANTS, make
from sparsedp import InputError, KeyTypeError, MissingDependencyError, ParameterError
from sparsedp.releasing.ranking import Fingerprint, largest

COUNTS = {"a": 500, "b": 100, "c": 900, "d": 1}
STORING_NONE = ["alp", "compact", "compact-total", "threshold-alp-low"]
STORING = [name for name in (*VARIANTS, *DIRECTORIES) if name not in STORING_NONE]


def kept(counts: Any = COUNTS, **more: Any) -> sparsedp.Release:
    return sparsedp.release(counts, epsilon=20.0, delta=1e-6, keep_keys=True, **more)


def test_kept_keys_are_ranked_by_name() -> None:
    ranking = kept().top()
    assert ranking.keys[:3] == ["c", "a", "b"]
    assert ranking.estimates[:3].tolist() == pytest.approx([900, 500, 100], abs=5)
    assert kept({b"\xff": 900, b"b": 90}).top(1).keys == [b"\xff"]
    assert kept({7: 900, (1 << 64) - 1: 9000}).top(2).keys == [(1 << 64) - 1, 7]


@pytest.mark.parametrize("name", STORING)
def test_a_ranking_has_the_answers_of_lookups_in_descending_order(name: str) -> None:
    release = make(name)
    ranking = release.top(7, confidence=0.9)
    estimates = ranking.estimates.tolist()
    assert len(ranking.keys) == len(estimates) <= 7
    assert estimates == sorted(estimates, reverse=True)
    assert (ranking.low <= ranking.high).all()
    if any(isinstance(key, Fingerprint) for key in ranking.keys):
        assert release.plan.problem.hashed
        assert not release.plan.problem.keep_keys
        named = {release.key_space.id(key): key for key in range(100)}
        keys = [named.get(key.id) for key in ranking.keys if isinstance(key, Fingerprint)]
    else:
        keys = list(ranking.keys)  # type: ignore[arg-type]  # no fingerprint is there
    known = [at for at, key in enumerate(keys) if key is not None]
    asked = [keys[at] for at in known]
    assert release.lookup(asked, prior=release.table_prior).tolist() == [estimates[at] for at in known]
    low, high = release.interval(asked, 0.9, prior=release.table_prior)
    assert low.tolist() == ranking.low[known].tolist()
    assert high.tolist() == ranking.high[known].tolist()


@pytest.mark.parametrize("name", ["tight-alp", "stability", "threshold", "retrieval", "tight-alp-parts"])
def test_the_largest_stored_values_are_ranked(name: str) -> None:
    release = make(name)
    values = np.sort(release.stored().values)[::-1]
    assert release.top(5).estimates.tolist() == values[:5].tolist()
    assert release.top(10**6).estimates.tolist() == values.tolist()


@pytest.mark.parametrize("name", ["laplace", "laplace-real"])
def test_every_key_of_a_dense_release_is_stored(name: str) -> None:
    release = make(name)
    ranking = release.top(4)
    every = release.lookup(range(100))
    assert ranking.estimates.tolist() == np.sort(every)[::-1][:4].tolist()
    assert release.lookup(ranking.keys).tolist() == ranking.estimates.tolist()
    assert all(type(key) is int for key in ranking.keys)


@pytest.mark.parametrize("name", STORING_NONE)
def test_where_no_key_is_stored_candidates_are_asked_for(name: str) -> None:
    release = make(name)
    with pytest.raises(ParameterError, match=r"stores no keys to rank; pass candidates"):
        release.top()
    assert len(release.top(3, candidates=range(50)).keys) == 3


def test_a_fingerprint_is_never_mistaken_for_a_key() -> None:
    release = sparsedp.release(COUNTS, epsilon=20.0, nonzero=10)
    best = release.top(1).keys[0]
    assert isinstance(best, Fingerprint)
    assert best == Fingerprint(release.key_space.id("c"))
    assert str(best) == repr(best) == f"{release.key_space.id('c'):016x}"
    with pytest.raises(KeyTypeError, match="must be str, bytes or int, got Fingerprint"):
        release.lookup(release.top().keys)


CANDIDATES: dict[str, Callable[[list[str]], Any]] = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "set": set,
    "dict": dict.fromkeys,
    "array": np.array,
    "objects": lambda keys: np.array(keys, object),
    "arrow": pa.array,
    "arrow dictionary": lambda keys: pa.array(keys).dictionary_encode(),
    "pandas": lambda keys: pd.Series(keys, index=["tocoo", *keys[1:]]),
    "pandas objects": lambda keys: pd.Series(keys, dtype=object),
    "pandas categories": lambda keys: pd.Series(keys, dtype="category"),
    "pandas index": pd.Index,
    "polars": pl.Series,
}


@pytest.mark.parametrize("container", CANDIDATES)
def test_candidates_of_every_container_are_ranked_once_each(container: str) -> None:
    release = sparsedp.release(COUNTS, epsilon=20.0, nonzero=10)
    keys = ["d", "b", "a", "x", "a", "d", "c", "b", "c"]
    ranking = release.top(3, candidates=CANDIDATES[container](keys))
    assert ranking.keys == ["c", "a", "b"]
    assert ranking.estimates.tolist() == release.lookup(["c", "a", "b"]).tolist()
    assert [type(key) for key in ranking.keys] == [str] * 3
    assert len(release.top(candidates=CANDIDATES[container](keys)).keys) == 5
    columns = list(CANDIDATES[container](keys))
    frame = release.to_pandas(CANDIDATES[container](keys))
    assert [str(key) for key in frame["key"]] == [str(key) for key in columns]
    assert frame["estimate"].tolist() == release.lookup([str(key) for key in columns]).tolist()


def test_no_candidates_are_ranked_as_none() -> None:
    release = sparsedp.release(COUNTS, epsilon=1.0, nonzero=10)
    assert release.top(candidates=[]).keys == []
    assert release.top(candidates=[]).to_pandas().shape == (0, 4)
    assert release.to_pandas([]).shape == (0, 4)
    assert list(release.to_pandas([]).columns) == ["key", "estimate", "low", "high"]


def test_of_equal_estimates_the_first_comes_first() -> None:
    ids = np.array([5, 6, 5, 7, 8], np.uint64)
    assert largest(ids, np.array([1.0, 2.0, 1.0, 2.0, 1.0]), 4).tolist() == [1, 3, 0, 4]
    assert largest(ids[:0], np.empty(0), 4).tolist() == []


def test_the_largest_of_signed_values_are_not_the_farthest_from_zero() -> None:
    counts = {"a": -900, "b": 300, "c": -10}
    release = sparsedp.release(counts, epsilon=20.0, nonzero=10, signed=True)
    assert release.top(3, candidates=list(counts)).keys == ["b", "c", "a"]
    assert release.top(1).estimates[0] == pytest.approx(300, abs=5)


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", None, True, float("nan")])
def test_how_many_must_be_a_positive_whole_number(n: Any) -> None:
    release = kept()
    with pytest.raises(ParameterError, match="n must be"):
        release.top(n)


@pytest.mark.parametrize("confidence", [0, 1, -1, 2, float("nan")])
def test_confidence_is_a_probability(confidence: float) -> None:
    for ask in (lambda: kept().top(confidence=confidence), lambda: kept().to_pandas(["a"], confidence)):
        with pytest.raises(ParameterError, match=r"confidence must be in \(0, 1\)"):
            ask()


@pytest.mark.parametrize("candidates", ["a", 5, [1.5], ["a", None], [1], pl.DataFrame({"k": ["a"]})])
def test_what_are_no_keys_is_refused(candidates: Any) -> None:
    for ask in (lambda: kept().top(candidates=candidates), lambda: kept().to_pandas(candidates)):
        with pytest.raises(InputError):
            ask()


def test_a_frame_has_one_row_for_each_key_in_their_order() -> None:
    release = sparsedp.release(COUNTS, epsilon=1.0, nonzero=10)
    keys = pd.Series(["c", "x", "c"], index=["estimate", "low", "low"])
    frame = release.to_pandas(keys, confidence=0.8)
    low, high = release.interval(keys, 0.8, prior="fitted")
    estimates = release.lookup(keys, prior="fitted").tolist()
    expected = {"key": ["c", "x", "c"], "estimate": estimates, "low": low, "high": high}
    pd.testing.assert_frame_equal(frame, pd.DataFrame(expected))


@pytest.mark.parametrize(
    "keys", [[-1, (1 << 64) - 1], np.array([1, (1 << 64) - 1], np.uint64), pa.array([3, 4]), [b"a"]]
)
def test_the_keys_of_a_frame_are_exact(keys: Any) -> None:
    key_type = "bytes" if isinstance(keys[0], bytes) else "integer"
    release = sparsedp.release({}, epsilon=1.0, nonzero=10, key_type=key_type)
    frame = release.to_pandas(keys)
    exact = keys.tolist() if hasattr(keys, "tolist") else keys
    assert frame["key"].tolist() == exact
    assert release.lookup(frame["key"], prior="fitted").tolist() == frame["estimate"].tolist()


def test_a_ranking_becomes_a_frame() -> None:
    ranking = kept().top(2)
    frame = ranking.to_pandas()
    assert frame["key"].tolist() == ["c", "a"]
    assert frame["low"].tolist() == ranking.low.tolist()
    hashed = sparsedp.release(COUNTS, epsilon=20.0, nonzero=10).top(1).to_pandas()
    assert isinstance(hashed["key"][0], Fingerprint)


def test_a_frame_without_pandas_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    release = kept()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match="pip install pandas"):
        release.to_pandas(["a"])
    with pytest.raises(MissingDependencyError, match="pip install pandas"):
        release.top().to_pandas()
