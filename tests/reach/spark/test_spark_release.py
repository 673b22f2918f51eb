"""Releases built on Spark: bit-identical to local ones, bounded like them, refused like them,
committed once.
"""

from __future__ import annotations

import datetime
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyspark.sql.types
import pytest

import sparsedp
import sparsedp.spark
from spark_kinds import COUNTING, ON_SPARK, RELEASING
from spark_tables import PARTS, same, table
from sparsedp import InputError, ParameterError, SpentError
from sparsedp.counting.request import Counting
from sparsedp.counting.spark_rows import Query, rows_by_part
from sparsedp.keys.hashing import KeySpace, Partition
from sparsedp.mechanisms.tight_alp import TightAlpPlan
from sparsedp.privacy.randomness import PartStreams, Randomness, reproducible_for_tests
from sparsedp.reach.spark import building
from sparsedp.releasing.parts import PartWork


@pytest.mark.parametrize(("counting", "releasing"), ON_SPARK)
def test_a_release_is_the_local_one_bit_for_bit(
    counting: str, releasing: str, df: Any, frame: pd.DataFrame, tmp_path: Path
) -> None:
    options = {"epsilon": 2.0, "parts": PARTS, **RELEASING[releasing]}
    with reproducible_for_tests(9):
        built = sparsedp.spark.release(df, **COUNTING[counting], path=tmp_path / "spark", **options)
    counts = sparsedp.count(frame, **COUNTING[counting])
    with reproducible_for_tests(9):
        local = sparsedp.release(counts, **options)
    with reproducible_for_tests(9):
        written = sparsedp.release(counts, path=tmp_path / "local", **options)
    assert same(built, local)
    assert same(written, local)
    sparsedp.verify(tmp_path / "spark")
    assert built.plan.problem.contribution == local.plan.problem.contribution
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_integers_of_a_domain_are_their_own_ids(df: Any, frame: pd.DataFrame, tmp_path: Path) -> None:
    common: dict[str, Any] = {"domain": 2000, "epsilon": 1.0, "parts": PARTS, "nonzero": 2000}
    with reproducible_for_tests(2):
        built = sparsedp.spark.release(df, key="page", path=tmp_path / "r", **common)
    with reproducible_for_tests(2):
        assert same(built, sparsedp.release(sparsedp.count(frame, key="page"), **common))
    auto = sparsedp.spark.plan(df, key="page", epsilon=1, domain=2000, nonzero=2000, parts=2)
    assert auto.mechanism == "tight-alp"  # a counter for every key has one part only


def test_contributions_are_bounded_for_each_user(spark: Any) -> None:
    rows = [{"user": u, "key": k, "v": 5} for u in range(20) for k in range(u) for _ in range(4)]
    df = spark.createDataFrame(pa.Table.from_pylist(rows))
    query = Query.create(df, Counting("key", "user", "v", 6, 12))
    pairs = query.pairs().collect()
    assert len(pairs) == sum(min(u, 6) for u in range(20))
    assert {row["n"] for row in pairs} == {12}  # 20, cut
    counted = Query.create(df, Counting("key", "user", None, 6, 3)).pairs().collect()
    assert {row["n"] for row in counted} == {3}


def test_which_keys_of_a_user_stay_depends_on_that_user_only(spark: Any) -> None:
    # Catches an order by row numbers or by other users' counts: adding a user must leave all
    # others' keys as they are.
    mine = [{"user": "a", "key": k} for k in range(50)]
    others = [{"user": f"u{u}", "key": k} for u in range(40) for k in range(u, u + 20)]

    def kept(rows: list[dict[str, Any]]) -> dict[int, int]:
        query = Query.create(spark.createDataFrame(pa.Table.from_pylist(rows)), Counting("key", "user", None, 5, 1))
        totals: dict[int, int] = {}
        for row in query.pairs().collect():
            totals[row["k0"]] = totals.get(row["k0"], 0) + row["n"]
        return totals

    alone, without, together = kept(mine), kept(others), kept(others[::-1] + mine)
    assert sum(alone.values()) == 5
    assert {key: alone.get(key, 0) + without.get(key, 0) for key in {*alone, *without}} == together


USERS: dict[str, list[Any]] = {
    "string": ["é", "b", "", "日本", "1:2"],
    "binary": [b"\xff", b"", b"a\x00b", b"1:"],
    "int": [-5, 0, 7, 1 << 30],
    "date": [datetime.date(2024, 1, 2), datetime.date(1, 2, 3)],
    "boolean": [True, False],
}


# Every type of users and of keys, whose bytes are made by themselves.
@pytest.mark.parametrize(
    ("user", "key"),
    [("string", "binary"), ("binary", "string"), ("int", "int"), ("date", "string"), ("boolean", "int")],
)
def test_the_keys_that_stay_are_those_of_a_local_count(user: str, key: str, spark: Any) -> None:
    # All kinds of users and keys: catches bytes that differ between Spark and DuckDB.
    pairs = [(u, k) for u in USERS[user] for k in USERS[key]]
    arrow = {
        "string": pa.string(),
        "binary": pa.binary(),
        "int": pa.int32(),
        "date": pa.date32(),
        "boolean": pa.bool_(),
    }
    local = pa.table(
        {"u": pa.array([u for u, _ in pairs], arrow[user]), "k": pa.array([k for _, k in pairs], arrow[key])}
    )
    counts = sparsedp.count(local, key="k", user="u", max_keys_per_user=2)
    df = spark.createDataFrame(local, f"u {user}, k {key}")
    kept = Query.create(df, Counting("k", "u", None, 2, 1)).pairs().collect()
    found: dict[Any, int] = {}
    for row in kept:
        one = bytes(row["k0"]) if key == "binary" else row["k0"]
        found[one] = found.get(one, 0) + row["n"]
    assert found == dict(zip(counts.keys.to_pylist(), counts.units.tolist(), strict=True))


@pytest.mark.parametrize("kind", ["double", "timestamp", "decimal(10,2)", "array<string>", "string collate UTF8_LCASE"])
def test_columns_that_tell_no_users_apart_are_refused_with_the_cast(kind: str, spark: Any) -> None:
    df = spark.sql("SELECT 'a' AS k, 'b' AS u")
    if "collate" in kind and not hasattr(pyspark.sql.types.StringType(), "collation"):
        pytest.skip("this Spark has no collations")
    column = "array(u)" if kind.startswith("array") else f"u COLLATE {kind.split()[-1]}"
    typed = df.selectExpr("k", f"{column if kind.startswith(('array', 'string')) else f'try_cast(u AS {kind})'} AS u")
    for key, user in (("k", "u"), ("u", "k"))[: 1 if kind == "timestamp" else 2]:  # timestamps may be keys
        with pytest.raises(InputError, match=r"column 'u' has .* values.*\.cast\('string'\)"):
            Query.create(typed, Counting(key, user, None, 2, 1))


def test_there_are_two_shuffles(df: Any) -> None:
    query = Query.create(df, Counting("url", "user", None, 5, 1))
    with rows_by_part(query, KeySpace(1 << 64, (1, 2)), Partition(PARTS, True), kept=False) as shares:
        ordered = shares.sortWithinPartitions("part").mapInArrow(
            lambda batches: batches, "part int, id bigint, n bigint"
        )
        plan = ordered._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange") == 2


@pytest.mark.parametrize("newer", [True, False])
def test_small_parts_share_tasks_and_stay_whole(df: Any, newer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Catches a part in two tasks, parts that are lost, and parts that crowd into one task.
    parts, tasks = 16, 3

    def listed(batches: Any) -> Any:
        import pyarrow as pa

        found = sorted({part for batch in batches for part in batch.column(0).to_pylist()})
        yield pa.RecordBatch.from_pydict({"parts": pa.array([found], pa.list_(pa.int32()))})

    if not newer:  # as before Spark 4.1
        monkeypatch.delattr(type(df), "repartitionById", raising=False)
        monkeypatch.delattr(pyspark.sql.DataFrame, "repartitionById", raising=False)
    query = Query.create(df, Counting("url", "user", None, 5, 1))
    with rows_by_part(query, KeySpace(1 << 64, (1, 2)), Partition(parts, True), False, tasks=tasks) as shares:
        assert shares.rdd.getNumPartitions() == tasks
        groups = [row["parts"] for row in shares.mapInArrow(listed, "parts array<int>").collect()]
    assert sorted(part for group in groups for part in group) == list(range(parts))
    if newer:
        assert sorted(map(len, groups)) == [5, 5, 6]


def test_parts_have_tasks_of_their_own_if_they_are_large() -> None:
    small, large = (sparsedp.plan(1.0, nonzero=size, parts=16) for size in (1000, 10**8))
    assert [building._tasks(rows, small) for rows in (0, 1000, 10**6, 10**8)] == [1, 1, 4, 16]
    assert building._tasks(0, large) == 16


def test_the_hash_of_a_pair_is_computed_once(df: Any) -> None:
    # Catches an order that contains what computes the digest, once for each of its bytes.
    pairs = Query.create(df, Counting("url", "user", None, 5, 1)).pairs()
    assert pairs._jdf.queryExecution().optimizedPlan().toString().count("md5(") == 1


def test_frequent_keys_are_summed_before_they_travel(spark: Any) -> None:
    df = spark.range(100_000).selectExpr("id % 3 as key")
    query = Query.create(df, Counting("key", None, None, None, 1))
    with rows_by_part(query, KeySpace(1 << 64, (1, 2)), Partition(2, True), kept=False) as shares:
        rows = [row for row in shares.collect() if row["id"] is not None]
    assert len(rows) <= 3 * 4
    assert sum(row["n"] for row in rows) == 100_000


@pytest.mark.parametrize("empty", [True, False])
def test_parts_without_keys_are_built_too(spark: Any, empty: bool, tmp_path: Path) -> None:
    # Which parts there are must not depend on the data.
    rows = [{"key": "only one"}]
    df = spark.createDataFrame(rows).where("key = 'nothing'" if empty else "true")
    release = sparsedp.spark.release(df, key="key", epsilon=1, parts=5, path=tmp_path / "r", nonzero=1000)
    assert len(release.sides[0]) == 5
    assert release["something"] < 60


def test_lookups_on_executors_are_the_local_ones(df: Any, frame: pd.DataFrame, tmp_path: Path) -> None:
    counts = sparsedp.count(frame, key="url")
    for name, parts in {"one": 1, "parts": 2}.items():
        sparsedp.release(counts, epsilon=1, nonzero=2000, path=tmp_path / name, parts=parts)
        release = sparsedp.load(tmp_path / name)
        asked = df.select("url", "page").distinct()
        found = sparsedp.spark.lookup(asked, release, key="url", confidence=0.9).toPandas()
        assert found["estimate"].tolist() == release.lookup(found["url"].tolist()).tolist()
        low, high = release.interval(found["url"].tolist(), 0.9)
        assert (found["low"].tolist(), found["high"].tolist()) == (low.tolist(), high.tolist())
        assert list(found.columns) == ["url", "page", "estimate", "low", "high"]
    memory = sparsedp.release(counts, epsilon=1, nonzero=2000)
    assert sparsedp.spark.lookup(asked, memory, key="url").count() == len(found)
    assert sparsedp.spark.lookup(asked, tmp_path / "one", key="url").count() == len(found)
    with pytest.raises(ParameterError, match="must be saved"):
        sparsedp.spark.lookup(asked, sparsedp.release(counts, epsilon=1, parts=2), key="url")
    with pytest.raises(InputError, match="did you mean 'url'"):
        sparsedp.spark.lookup(asked, release, key="ulr")
    with pytest.raises(InputError, match="already has a column 'estimate'"):
        sparsedp.spark.lookup(asked.withColumnRenamed("page", "estimate"), release, key="url")
    with pytest.raises(ParameterError, match="confidence"):
        sparsedp.spark.lookup(asked, release, key="url", confidence=2)


@pytest.fixture(scope="module")
def raising(spark: Any, frame: pd.DataFrame) -> Any:
    """Events that cannot be read."""
    return table(spark, frame.head(5)).selectExpr("assert_true(false) as broken", "*")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"key": "ulr"}, InputError, "did you mean 'url'"),
        ({"key": "amount"}, InputError, "cast it, for example with df.withColumn"),
        ({"user": "user"}, ParameterError, "max_keys_per_user must be given"),
        ({"value": "amount"}, InputError, "pass step="),
        ({"value": "url", "step": 1}, InputError, "must be numbers"),
        ({"epsilon": -1}, ParameterError, "epsilon must be positive, got -1"),
        ({"parts": 1}, ParameterError, "parts must be at least 2"),
        ({"mechanism": "alp"}, ParameterError, "one part only"),
        ({"domain": 10}, ParameterError, "keys must be integers, and column 'url' has string values"),
        ({"nulls": "ignore"}, ParameterError, "'refuse' or 'drop'"),
        ({"value": "change", "max_per_key": 1 << 70, "user": "user", "max_keys_per_user": 1}, ParameterError, "2\\^61"),
        ({"max_keys_per_user": "auto"}, ParameterError, "user must be given"),
        ({"keep_keys": True}, ParameterError, "keep_keys needs delta > 0"),
        ({"keep_keys": True, "delta": 1e-6, "key": "page", "domain": 9}, ParameterError, "keep_keys is for hashed"),
        ({"noise": "gaussian"}, ParameterError, "gaussian noise needs delta > 0"),
        ({"path": "/nowhere/at/all"}, FileNotFoundError, "no directory"),
    ],
)
def test_parameters_are_refused_before_a_row_is_read(
    options: dict[str, Any], error: type[Exception], message: str, raising: Any, tmp_path: Path
) -> None:
    given = {"key": "url", "epsilon": 1.0, "nonzero": 100, "path": tmp_path / "r", **options}
    with pytest.raises(error, match=message):
        sparsedp.spark.release(raising, **given)
    assert list(tmp_path.iterdir()) == []


def test_bad_rows_are_refused_and_nothing_is_spent(spark: Any, tmp_path: Path) -> None:
    ledger = sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=1)
    rows = [("a", 1.0, "u"), (None, 2.0, "u"), ("b", float("nan"), None), ("c", -1.0, "u"), ("d", None, "v")]
    df = spark.createDataFrame(rows, "key string, v double, user string")
    options: dict[str, Any] = {"epsilon": 1, "path": tmp_path / "r", "nonzero": 10, "ledger": ledger, "parts": 2}
    with pytest.raises(InputError, match="column 'key' is null in 1 row; fix them or pass nulls='drop'"):
        sparsedp.spark.release(df, key="key", **options)
    summing: dict[str, Any] = {"value": "v", "step": 0.5, "max_per_key": 2}
    with pytest.raises(
        InputError, match=r"'v' is null in 1 row; column 'v' is not finite in 1 row; .* negative .* in 1 row"
    ):
        sparsedp.spark.release(df.dropna(subset=["key"]), key="key", **summing, **options)
    assert ledger.datasets()[0].left_epsilon == 1
    assert not (tmp_path / "r").exists()
    built = sparsedp.spark.release(df, key="key", nulls="drop", **options)
    assert built.plan.problem.contribution is not None
    assert ledger.datasets()[0].left_epsilon == 0
    with pytest.raises(FileExistsError, match="exists"):
        sparsedp.spark.release(df, key="key", nulls="drop", **options)
    with pytest.raises(sparsedp.BudgetError):
        sparsedp.spark.release(df, key="key", nulls="drop", **{**options, "path": tmp_path / "again"})


def test_integers_outside_of_the_domain_are_refused_before_the_debit(spark: Any, tmp_path: Path) -> None:
    ledger = sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=1)
    df = spark.range(-1, 12).withColumnRenamed("id", "key")
    with pytest.raises(InputError, match=r"column 'key' is not in \[0, 10\) in 3 rows"):
        sparsedp.spark.release(df, key="key", domain=10, epsilon=1, nonzero=5, path=tmp_path / "r", ledger=ledger)
    assert ledger.datasets()[0].left_epsilon == 1


def test_a_job_that_fails_leaves_nothing_but_the_debit(spark: Any, tmp_path: Path) -> None:
    ledger = sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=1)
    df = spark.range(10).selectExpr("if(id = 7, raise_error('broken'), 'key') as key")
    with pytest.raises(SpentError, match="they stay debited"):
        sparsedp.spark.release(df, key="key", nulls="drop", epsilon=1, nonzero=9, path=tmp_path / "r", ledger=ledger)
    assert [path.name for path in tmp_path.iterdir()] == ["budget.db"]


def test_a_task_that_fails_is_tried_again(spark: Any, frame: pd.DataFrame, tmp_path: Path) -> None:
    marker = tmp_path / "failed once"

    def fails_once(batches: Any) -> Any:
        yield from batches
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return
        raise RuntimeError("the first attempt fails at its end")

    df = table(spark, frame).mapInArrow(fails_once, table(spark, frame.head(1)).schema)
    with reproducible_for_tests(4):
        built = sparsedp.spark.release(
            df, key="url", epsilon=1, nonzero=2000, parts=PARTS, path=tmp_path / "r", nulls="drop"
        )
    assert marker.exists()
    with reproducible_for_tests(4):
        assert same(built, sparsedp.release(sparsedp.count(frame, key="url"), epsilon=1, nonzero=2000, parts=PARTS))


class Speculative:
    """Shares of a release in which three attempts build every part and Spark takes the second."""

    def __init__(self, late: list[Any]) -> None:
        self.late = late

    def sortWithinPartitions(self, name: str) -> Speculative:  # noqa: N802  # Spark's name
        return self

    def mapInArrow(self, work: Any, schema: str) -> Speculative:  # noqa: N802
        self.work: Any = lambda rows: next(work(iter(rows.to_batches())))
        return self

    def collect(self) -> list[Any]:
        results = []
        for part in range(PARTS):
            own = np.array([Partition(PARTS, True).range_of(part)[0] + 77], np.uint64).view(np.int64)[0]
            rows = pa.table(
                {"part": pa.array([part, part], pa.int32()), "id": pa.array([None, own], pa.int64()), "n": [None, 5000]}
            )
            attempts = [self.work(rows) for _ in range(3)]
            self.late.append(lambda rows=rows: self.work(rows))
            results.append(attempts[1].to_pylist()[0])

        class Row(dict[str, Any]):
            asDict = dict.copy  # noqa: N815

        return [Row(result) for result in results[::-1]]


def test_one_draw_of_every_part_is_published_whatever_was_tried(tmp_path: Path) -> None:
    plan = sparsedp.plan(1.0, nonzero=100, parts=PARTS)
    assert isinstance(plan, TightAlpPlan)
    late: list[Any] = []
    drawn: list[Any] = []

    class Watching(PartWork):
        def build(self, part: int, sums: Any) -> Any:
            drawn.append((part, super().build(part, sums)))
            return drawn[-1][1]

    partition = plan.draw_partition(plan.problem, Randomness())
    work = Watching(plan.problem, partition, PartStreams(None, bytes(32)), plan)
    cluster = building._Cluster(Speculative(late), Fraction(1), PARTS)
    building._publish(cluster, plan, work, KeySpace(1 << 64, (1, 2)), tmp_path / "r", False)
    release = sparsedp.load(tmp_path / "r")
    sparsedp.verify(tmp_path / "r")
    assert len(drawn) == 3 * PARTS
    for part, arrays in enumerate(release.sides[0]):
        second = [sides for number, sides in drawn if number == part][1]
        assert np.array_equal(arrays["embedding.blocks"], second[0]["embedding.blocks"])
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == [
        *(f"part-{part:05d}.sparsedp" for part in range(PARTS)),
        "release.sparsedp",
    ]
    for attempt in late:  # a zombie has nowhere to write
        with pytest.raises(FileNotFoundError, match="came too late"):
            attempt()
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_releases_of_one_session_do_not_disturb_each_other(df: Any, tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def build(number: int) -> None:
        try:
            sparsedp.spark.release(df, key="url", epsilon=1, nonzero=2000, parts=2, path=tmp_path / str(number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=build, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    arrays = [sparsedp.load(tmp_path / str(number)).sides[0][0]["embedding.blocks"] for number in range(3)]
    assert not np.array_equal(arrays[0], arrays[1])
