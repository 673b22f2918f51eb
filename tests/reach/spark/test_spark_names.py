"""Kept keys on Spark: the local release bit for bit, keys apart from their fingerprints, and no key
travels unless it was asked for.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparsedp
import sparsedp.spark
from spark_kinds import NAMED, NAMED_ON_SPARK
from spark_tables import PARTS, counting_of, same
from sparsedp import InputError
from sparsedp.counting import spark_rows
from sparsedp.counting.request import Counting
from sparsedp.counting.spark_rows import Query, rows_by_part, sum_by_key
from sparsedp.keys.hashing import KeySpace, Partition
from sparsedp.privacy.randomness import reproducible_for_tests
from sparsedp.reach.spark import building
from sparsedp.releasing.cells import NamedCells, distinct_rows
from sparsedp.structures.table import LARGEST_COUNT

SPACE = KeySpace(1 << 64, (1, 2))


def both(df: Any, frame: Any, folder: Path, **options: Any) -> tuple[sparsedp.Release, sparsedp.Release]:
    """A release of Spark and the local one, with the same randomness."""
    counting = counting_of(options)
    given = {"epsilon": 2.0, "delta": 1e-6, "parts": PARTS, "keep_keys": True, **options}
    with reproducible_for_tests(5):
        built = sparsedp.spark.release(df, **counting, path=folder / "spark", **given)
    with reproducible_for_tests(5):
        return built, sparsedp.release(sparsedp.count(frame, **counting), **given)


@pytest.mark.parametrize("kind", NAMED_ON_SPARK)
def test_a_release_with_names_is_the_local_one_bit_for_bit(
    kind: str, df: Any, frame: pd.DataFrame, tmp_path: Path
) -> None:
    # Seven partitions, so that most keys reach their part from several: catches a key that is in a
    # part twice, and noise for each row.
    built, local = both(df.repartition(7), frame, tmp_path, key="url", **NAMED[kind])
    assert same(built, local)
    assert built.plan.problem.gaussian == kind.startswith("gaussian")
    sparsedp.verify(tmp_path / "spark")
    loaded = sparsedp.load(tmp_path / "spark", allow_reproducible=True)
    names = loaded.kept_keys()
    assert names == local.kept_keys()
    assert len(set(names)) == len(names) > 5
    assert set(names) <= set(frame["url"])
    largest = loaded.top(5)
    assert [name for name, *_ in largest] == [name for name, *_ in local.top(5)]


KEYS: dict[str, Any] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type_are_named_as_they_are(kind: str, spark: Any, tmp_path: Path) -> None:
    # Catches names in another type (text for bytes), and a sign that is lost on the way.
    cells: dict[str, list[Any]] = {
        "string": ["", "é", "日本", "a\0b", "A", "a", "a "],
        "binary": [b"", b"\xff\xfe", b"a\0b", b"a"],
    }
    extreme = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}.get(kind, 1)
    keys = cells.get(kind, [-(1 << extreme), -1, 0, (1 << extreme) - 1])
    rows = [key for key in keys for _ in range(400)]
    local = pa.table({"k": pa.array(rows, KEYS[kind])})
    df = spark.createDataFrame(local, f"k {kind}").repartition(3)
    built, expected = both(df, local, tmp_path, key="k", mechanism="stability")
    assert same(built, expected)
    assert set(built.kept_keys()) == set(keys)
    assert {type(key) for key in built.kept_keys()} == {type(keys[0])}


def test_no_key_travels_to_a_part_unless_it_will_be_named(df: Any) -> None:
    # Catches a key column that is shuffled by part always, and a third shuffle, by key.
    query = Query.create(df, Counting("url", "user", None, 5, 1))
    for named, columns in ((False, ["part", "id", "n"]), (True, ["part", "key", "n"])):
        with rows_by_part(query, SPACE, Partition(PARTS, True), kept=False, named=named) as shares:
            plan = shares._jdf.queryExecution().executedPlan().toString()
        assert shares.columns == columns
        assert plan.count("Exchange") == 2


def test_frequent_keys_are_summed_before_they_travel_with_their_names(spark: Any) -> None:
    df = spark.range(100_000).selectExpr("concat('key ', id % 3) as key")
    query = Query.create(df, Counting("key", None, None, None, 1))
    with rows_by_part(query, SPACE, Partition(2, True), kept=False, named=True) as shares:
        rows = [row for row in shares.collect() if row["key"] is not None]
    assert {row["key"] for row in rows} == {"key 0", "key 1", "key 2"}
    assert len(rows) <= 3 * 4
    assert sum(row["n"] for row in rows) == 100_000


def test_keys_that_share_a_fingerprint_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every pair of keys shares its fingerprint. Catches sums by fingerprint on either side of the
    # shuffle, which would name a rare key because of a frequent one.
    def colliding(space: KeySpace, keys: Any) -> Any:
        return np.array([int(key.as_py().split()[-1]) // 2 for key in keys], np.uint64)

    monkeypatch.setattr(spark_rows, "key_ids", colliding)
    keys = [f"key {at}" for at in (1, 0, 3, 2, 0, 1, 1)]
    rows = pa.record_batch({"k": keys, "n": pa.array([1, 500, 7, 8, 500, 1, 1], pa.int64())})
    sent = list(spark_rows._by_key(iter([rows]), SPACE, Partition(2, True), combines=True))
    pairs = [(row["key"], row["n"]) for batch in sent for row in batch.to_pylist()]
    assert sorted(pairs) == [("key 0", 1000), ("key 1", 3), ("key 2", 8), ("key 3", 7)]
    ((part, names, values),) = building._parts_of(iter([*sent, *sent]))
    sums = building.named_sums(names, values, Fraction(1), SPACE)
    cells = sums.cells(sums.values.astype(np.int64), None)
    assert part == 0
    assert isinstance(cells, NamedCells)
    assert cells.ids.tolist() == [0, 0, 1, 1]
    assert [cells.keys[row].as_py() for row in cells.rows.tolist()] == ["key 0", "key 1", "key 2", "key 3"]
    assert cells.counts.tolist() == [2000, 6, 16, 14]


def test_the_order_of_keys_with_one_fingerprint_is_not_that_of_their_rows() -> None:
    # Two passes over a part see its rows in different orders, and must draw the same coins for a
    # key: catches a sort by id alone.
    names = ["b", "a", "c", "d"]
    ids = np.array([9, 9, 4, 9], np.uint64)
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        given = [names[at] for at in order]
        rows = distinct_rows(ids[order], given)
        assert [given[row] for row in rows.tolist()] == ["c", "a", "b", "d"]


def test_sums_by_key_are_exact_and_cut_once() -> None:
    # Catches sums of 64 bits, which would wrap, and keys of a later chunk that lose their codes.
    keys = pa.chunked_array([["a", "b", "a"], [], ["c", "a", "b"]])
    most = LARGEST_COUNT
    found, sums = sum_by_key(keys, np.array([most, 1, most, -most, most, 2], np.int64))
    assert dict(zip(found.to_pylist(), sums.tolist(), strict=True)) == {"a": most, "b": 3, "c": -most}
    found, sums = sum_by_key(pa.chunked_array([], pa.string()), np.empty(0, np.int64))
    assert (len(found), len(sums)) == (0, 0)


def test_long_keys_do_not_pile_up_before_they_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    # Catches a limit on rows alone: a million long keys would not fit in memory.
    monkeypatch.setattr(spark_rows, "_COMBINED_BYTES", 50_000)
    read: list[int] = []

    def batches() -> Any:
        for at in range(10):
            read.append(at)
            yield pa.record_batch({"k": ["x" * 30_000 + str(at)], "n": pa.array([1], pa.int64())})

    sent = spark_rows._by_key(batches(), SPACE, Partition(2, True), combines=True)
    assert next(sent).num_rows == 2
    assert len(read) == 2
    assert 2 + sum(batch.num_rows for batch in sent) == 10


def test_signed_rows_that_could_be_cut_travel_as_they_are() -> None:
    # Partial sums must not be cut: catches a combination that ignores `combines`.
    rows = pa.record_batch({"k": ["a", "a", "a"], "n": pa.array([LARGEST_COUNT, LARGEST_COUNT, -LARGEST_COUNT])})
    (sent,) = spark_rows._by_key(iter([rows]), SPACE, Partition(2, True), combines=False)
    assert sent.column(2).to_pylist() == rows.column(1).to_pylist()


def test_text_that_is_not_unicode_is_refused_before_the_debit(spark: Any, tmp_path: Path) -> None:
    # A name must be readable: catches a build that fails on an executor, or a file that cannot be
    # opened, after the budget is spent.
    ledger = sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=1, delta=1e-6)
    df = spark.sql("SELECT explode(array('a', cast(unhex('ff41') as string), 'é')) AS key")
    options: dict[str, Any] = {"key": "key", "epsilon": 1, "delta": 1e-6, "parts": 2, "keep_keys": True}
    with pytest.raises(InputError, match="column 'key' is not valid Unicode in 1 row; fix the table"):
        sparsedp.spark.release(df, **options, path=tmp_path / "r", ledger=ledger)
    assert ledger.datasets()[0].left_epsilon == 1


@pytest.mark.parametrize("empty", [True, False])
def test_parts_without_names_are_built_too(empty: bool, spark: Any, tmp_path: Path) -> None:
    df = spark.createDataFrame([("only one",)] * 500, "key string").where("key = 'nothing'" if empty else "true")
    options: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "parts": 5, "keep_keys": True}
    release = sparsedp.spark.release(df, key="key", path=tmp_path / "r", **options)
    assert release.kept_keys() == ([] if empty else ["only one"])
    sparsedp.verify(tmp_path / "r")
