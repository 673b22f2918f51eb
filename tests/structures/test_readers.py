"""Readers of native/readers.hpp against plain NumPy: tables, groups, threads, parts."""

from __future__ import annotations

from functools import reduce
from operator import xor

import numpy as np
import pytest

from sparsedp import _native
from sparsedp.privacy.randomness import ReproducibleRandomness, Words
from sparsedp.structures.linear_system import LinearSystem

MOST = (1 << 64) - 1


def uniform_ids(count: int, seed: int = 1) -> Words:
    return np.unique(np.random.default_rng(seed).integers(0, MOST, count, np.uint64, endpoint=True))


TABLES = {
    "empty": np.empty(0, np.uint64),
    "one": np.array([5], np.uint64),
    "ends": np.array([0, MOST], np.uint64),
    "dense": np.arange(1000, dtype=np.uint64),
    "dense and far": np.append(np.arange(1000, dtype=np.uint64), np.uint64(MOST)),
    "clusters": np.unique(np.concatenate([np.arange(300) + (1 << shift) for shift in range(10, 63)]).astype(np.uint64)),
    "uniform": uniform_ids(20_000),
    "high": np.unique(uniform_ids(500) | np.uint64(1 << 63)),
}


@pytest.fixture(params=TABLES, ids=str)
def ids(request: pytest.FixtureRequest) -> Words:
    return TABLES[request.param]


@pytest.fixture(params=["1", "2", "3"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARSEDP_THREADS", request.param)


def asked(ids: Words, count: int) -> Words:
    """Ids of the table, their neighbours, the ends and random ones."""
    random = np.random.default_rng(2)
    near = random.choice(ids, count) + random.integers(-1, 2, count).astype(np.uint64) if len(ids) else ids
    return np.concatenate([near, np.array([0, MOST], np.uint64), uniform_ids(count)])


def plain_find(ids: Words, values: np.ndarray, wanted: Words) -> tuple[np.ndarray, np.ndarray]:
    at = np.searchsorted(ids, wanted)
    stored = np.isin(wanted, ids)
    found = np.zeros(len(wanted), np.int64)
    found[stored] = values[at[stored]]
    return stored, found


def test_a_table_finds_what_it_has_and_nothing_else(ids: Words) -> None:
    values = np.arange(len(ids)) * 3 - 500
    wanted = asked(ids, 5000)
    stored, found = _native.Table(ids, values).find(wanted)
    expected = plain_find(ids, values, wanted)
    assert np.array_equal(stored, expected[0])
    assert np.array_equal(found, expected[1])


@pytest.mark.parametrize("bad", [[1, 1], [2, 1], [1, 2, 3, 3], [5, MOST, 0]])
def test_a_table_that_does_not_ascend_is_refused(bad: list[int]) -> None:
    with pytest.raises(ValueError, match="must ascend"):
        _native.Table(np.array(bad, np.uint64), np.zeros(len(bad), np.int64))


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 64, 65, 100, 70_000])
@pytest.mark.usefixtures("threads")
def test_every_group_and_every_thread_answers_its_own_ids(count: int) -> None:
    ids = TABLES["uniform"]
    values = np.arange(len(ids)) - 1000
    wanted = asked(ids, 40_000)[:count]
    reader = _native.TableReader([_native.Table(ids, values)], True, np.array([-7.0]), 2.0, [0.5])
    stored, found = plain_find(ids, values, wanted)
    expected = np.where(stored, 2.0 * found + 0.5, -7.0)
    assert np.array_equal(reader.read(wanted), expected)
    assert [reader.read_one(int(key)) for key in wanted[:100]] == expected[:100].tolist()


@pytest.mark.parametrize("parts", [2, 3, 64])
def test_a_key_is_looked_for_in_its_part_only(parts: int) -> None:
    ids = TABLES["uniform"]
    part = np.array([int(key) * parts >> 64 for key in ids])
    values = np.arange(len(ids))
    tables = [_native.Table(ids[part == p], values[part == p]) for p in range(parts)]
    reader = _native.TableReader(tables, True, np.array([-1.0]), 1.0, [0.0])
    assert np.array_equal(reader.read(ids), values)
    shifted = _native.TableReader(tables[1:] + tables[:1], True, np.array([-1.0]), 1.0, [0.0])
    assert (shifted.read(ids) == -1).all()


@pytest.mark.parametrize("width", [1, 3, 7, 8])
@pytest.mark.parametrize("slots", [3, 5])
def test_slots_are_read_as_their_xor(width: int, slots: int) -> None:
    system = LinearSystem(slots, 400, width, 500)
    packed, seed = system.noise(ReproducibleRandomness(1))
    wanted = uniform_ids(3000, seed=3)
    largest = (1 << 8 * width) - 1
    lasts = sorted({largest, largest // 3, largest // 2, largest // 300})
    values = np.arange(float(len(lasts)))
    table = _native.Table(wanted[:10], np.arange(10) - 100)
    reader = system.reader([table], [packed], [seed], True, np.array(lasts, np.uint64), values)
    rows = _native.slots_of(int(seed[0]), int(seed[1]), slots, 400, wanted).reshape(-1, slots)
    data, numbers = packed.tobytes(), []
    for row in rows.tolist():
        words = [int.from_bytes(data[slot * width : (slot + 1) * width], "little") for slot in row]
        numbers.append(reduce(xor, words))
    expected = values[np.searchsorted(np.array(lasts, np.uint64), np.array(numbers, np.uint64))]
    expected[:10] = np.arange(10) - 100
    assert np.array_equal(reader.read(wanted), expected)
    assert [reader.read_one(int(key)) for key in wanted[:50]] == expected[:50].tolist()


def test_every_edge_of_a_bucket_belongs_to_the_right_one() -> None:
    # A system whose slots are zero except in the first segment shows any chosen number.
    system = LinearSystem(3, 1, 2, 1)
    lasts = [0, 1, 255, 256, 40_000, 65_535]
    table = _native.Table(np.empty(0, np.uint64), np.empty(0, np.int64))
    for number in sorted({max(0, edge + d) for edge in lasts for d in (-1, 0, 1) if edge + d <= 65_535}):
        packed = np.frombuffer(number.to_bytes(2, "little") + bytes(4 + 8), np.uint8)
        reader = system.reader(
            [table], [packed], [np.zeros(2, np.uint64)], True, np.array(lasts, np.uint64), np.arange(6.0)
        )
        assert reader.read(np.zeros(1, np.uint64))[0] == np.searchsorted(lasts, number)


def test_readers_refuse_what_does_not_fit() -> None:
    table = _native.Table(np.empty(0, np.uint64), np.empty(0, np.int64))
    with pytest.raises(ValueError, match="one value for each id"):
        _native.Table(np.zeros(2, np.uint64), np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="there must be a table"):
        _native.TableReader([], True, np.zeros(1), 1.0, [0.0])
    system = LinearSystem(3, 5, 2, 4)
    packed, seed = system.noise(ReproducibleRandomness(1))
    for lasts, values, slots, message in [
        ([1, 1, 5], 3, packed, "buckets must ascend"),
        ([1, 2, 5], 2, packed, "one value for each bucket"),
        ([1], 1, packed[:-1], "hold the slots"),
    ]:
        with pytest.raises(ValueError, match=message):
            system.reader([table], [slots], [seed], True, np.array(lasts, np.uint64), np.zeros(values))


@pytest.mark.parametrize("count", [0, 1, 31, 33, 1000, 70_000])
@pytest.mark.usefixtures("threads")
def test_several_answers_are_those_of_several_readers(count: int) -> None:
    # Catches answers in each other's arrays, and offsets or values of another column.
    ids = TABLES["uniform"]
    table, wanted = _native.Table(ids, np.arange(len(ids)) - 1000), asked(ids, 40_000)[:count]
    values, offsets, scale = np.array([-7.0, 8.0, 9.0]), [0.5, -20.0, 30.0], (-900.0, 1000.0, 0.25)
    whole = _native.TableReader([table], True, values, 1.0, offsets, scale).read_all(wanted)
    for at, own in enumerate(whole):
        alone = _native.TableReader([table], True, values[at : at + 1], 1.0, offsets[at : at + 1], scale)
        assert np.array_equal(own, alone.read(wanted))
    two = _native.TableReader([table], True, values[:2], 1.0, offsets[:2], scale)
    assert np.array_equal(two.read_all(wanted), whole[:2])
    assert np.array_equal(two.read(wanted), whole[0])


@pytest.mark.parametrize(("values", "offsets"), [(1, 2), (2, 1), (0, 0), (4, 4)])
def test_readers_refuse_other_numbers_of_answers(values: int, offsets: int) -> None:
    table = _native.Table(np.empty(0, np.uint64), np.empty(0, np.int64))
    with pytest.raises(ValueError, match=r"one value for|one to three answers"):
        _native.TableReader([table], True, np.zeros(values), 1.0, [0.0] * offsets)


def test_stored_values_are_cut_and_scaled() -> None:
    table = _native.Table(np.array([1, 2, 3], np.uint64), np.array([-5, 4, 90]))
    reader = _native.TableReader([table], True, np.array([-7.0]), 2.0, [1.0], (0.0, 50.0, 0.5))
    assert reader.read(np.array([1, 2, 3, 4], np.uint64)).tolist() == [0.0, 4.5, 25.0, -7.0]


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 65, 1000, 70_000])
@pytest.mark.usefixtures("threads")
def test_keys_are_answered_like_their_ids(count: int) -> None:
    keys = _native.signed_keys(1, 2, np.arange(-200, count - 200))
    ids = keys.ids()
    stored = np.unique(ids[::3])
    reader = _native.TableReader([_native.Table(stored, np.arange(len(stored)))], True, np.array([-1.0]), 1.0, [0.0])
    assert np.array_equal(reader.read(keys), reader.read(ids))
    assert np.array_equal(reader.read(keys) >= 0, np.isin(ids, stored))


def test_ids_that_share_a_mark_are_found() -> None:
    """A bucket of many ids, of which only the leading bits differ in few: guesses by marks fail."""
    ids = np.unique(np.concatenate([np.arange(64) << 40, (np.arange(64) << 40) + 1, [1 << 62]]).astype(np.uint64))
    values = np.arange(len(ids))
    wanted = np.concatenate([ids, ids + np.uint64(2), ids - np.uint64(1)])
    stored, found = _native.Table(ids, values).find(wanted)
    expected = plain_find(ids, values, wanted)
    assert np.array_equal(stored, expected[0])
    assert np.array_equal(found, expected[1])
