"""Sorting and summing pairs, against NumPy and Python's integers."""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsedp import _native
from sparsedp.privacy.randomness import Words

RANDOM = np.random.default_rng(1)
LAST = (1 << 64) - 1


def words(count: int, bits: int = 64) -> Words:
    return RANDOM.integers(0, 1 << 64, count, np.uint64) >> np.uint64(64 - bits)


IDS = {
    "none": words(0),
    "one": words(1),
    "two": np.array([7, 3], np.uint64),
    "ends": np.array([LAST, 0, LAST, 0, 1 << 63], np.uint64),
    "all equal": np.full(100_000, 5, np.uint64),
    "few": words(1000),
    "uniform": words(300_000),
    "ascending": np.sort(words(200_000)),
    "descending": np.sort(words(200_000))[::-1].copy(),
    "two values": words(150_000, 1) << np.uint64(63),
    "duplicates": words(200_000, 12),
    "a narrow domain": words(200_000, 20),
    "integers and one far away": np.append(words(200_000, 18), np.uint64(LAST)),
    "clusters": np.repeat(words(7), 30_000) + words(210_000, 10),
    "powers": np.uint64(1) << words(100_000, 6),
    "low bits only": words(100_000) & np.uint64(0x8000_0000_0000_0101),
}


@pytest.fixture(params=[1, 2, 3, 4])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARSEDP_THREADS", str(request.param))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", IDS)
def test_pairs_are_sorted_by_id(name: str) -> None:
    ids = IDS[name]
    values = np.arange(len(ids)) - 1000
    before = ids.copy()
    found_ids, found_values = _native.sort_pairs(ids, values)
    order = np.argsort(ids, kind="stable")
    assert np.array_equal(found_ids, ids[order])
    assert np.array_equal(ids, before)
    # Each value is still with its id; values of equal ids come in any order.
    again = np.lexsort((found_values, found_ids))
    assert np.array_equal(found_values[again], values[order])
    assert not np.shares_memory(found_ids, ids)
    assert not np.shares_memory(found_values, values)


@pytest.mark.usefixtures("threads")
def test_pairs_are_sorted_by_the_placement_of_their_id() -> None:
    for ids in (words(0), words(1), words(90_000, 20)):
        values = np.arange(len(ids))
        found, carried = _native.place_pairs(ids, values, 3, 4)
        expected = _native.placements(ids, 3, 4)
        assert np.array_equal(found, np.sort(expected))
        assert np.array_equal(expected[carried], found)
        assert np.array_equal(np.sort(carried), values)


VALUES = st.one_of(st.integers(-9, 9), st.integers(-(1 << 63) + 1, (1 << 63) - 1))


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 6), VALUES)), limit=st.one_of(st.just(1 << 61), st.integers(0, 20)))
def test_runs_are_summed_exactly_and_zeros_are_dropped(pairs: list[tuple[int, int]], limit: int) -> None:
    def as_arrays() -> tuple[Words, npt.NDArray[np.int64]]:
        ids, values = zip(*sorted(pairs), strict=True) if pairs else ((), ())
        return np.array(ids, np.uint64), np.array(values, np.int64)

    sums: Counter[int] = Counter()
    for key, value in sorted(pairs):
        sums[key] += value
    ids, values = as_arrays()
    left = _native.sum_runs(ids, values, limit)
    cut = {key: max(-limit, min(limit, total)) for key, total in sums.items()}
    assert list(zip(ids[:left].tolist(), values[:left].tolist(), strict=True)) == list(cut.items())
    left = _native.cut_pairs(ids[:left], values[:left], limit)
    assert dict(zip(ids[:left].tolist(), values[:left].tolist(), strict=True)) == {k: v for k, v in cut.items() if v}


def test_lengths_and_limits_are_checked() -> None:
    ids, values = np.zeros(2, np.uint64), np.zeros(3, np.int64)
    for call in (_native.sum_runs, _native.cut_pairs):
        with pytest.raises(ValueError, match="one value for each id"):
            call(ids, values, 1)
        with pytest.raises(ValueError, match="a limit is not negative"):
            call(ids, values[:2], -1)
    with pytest.raises(ValueError, match="one value for each id"):
        _native.sort_pairs(ids, values)


@pytest.mark.parametrize("other", [0, 1 << 39])
def test_ids_that_change_meanwhile_are_noticed_and_harm_nothing(other: int) -> None:
    """Catches writes beyond the output, which end this process sooner or later, and ids in disorder:
    the array of a caller may be written to by another thread, or be mapped from a file.
    """
    given = words(300_000, 9) >> np.uint64(24)
    ids, values = given.copy(), np.ones(len(given), np.int64)
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            ids[:] = other
            ids[:] = given

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(30):
            with suppress(ValueError):
                assert (np.diff(_native.sort_pairs(ids, values)[0].view(np.int64)) >= 0).all()
    finally:
        done.set()
        changing.join()


@pytest.mark.usefixtures("threads")
def test_kernels_give_the_same_in_any_number_of_threads() -> None:
    ids = IDS["uniform"]
    thresholds = np.array([1 << 63, 1 << 62], np.uint64)
    assert _native.geometric(ids, thresholds).tolist() == [
        int(a < 1 << 63) + 2 * int(b < 1 << 62) for a, b in ids.reshape(-1, 2).tolist()
    ]


def test_the_number_of_threads_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARSEDP_THREADS", "3")
    assert _native.thread_count() == 3
    for unusable in ("0", "-2", "many", ""):
        monkeypatch.setenv("SPARSEDP_THREADS", unusable)
        assert 1 <= _native.thread_count() <= (os.cpu_count() or 1)
