"""SQL functions of Spark give what the release gives, on executors of this process."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import sparsedp
from asking import release_of
from sparsedp import MissingDependencyError, ParameterError


def test_the_three_functions_answer_like_the_release(spark: Any) -> None:
    release = release_of(["a", "b"])
    sparsedp.spark.register(spark, release, confidence=0.9)
    rows = spark.sql(
        "SELECT k, visits(k) AS estimate, visits_low(k) AS low, visits_high(k) AS high "
        "FROM VALUES ('a'), (NULL), ('zz'), ('b') t(k)"
    ).collect()
    assert [row.estimate for row in rows if row.k is None] == [None]
    there = [row for row in rows if row.k is not None]
    keys = [row.k for row in there]
    assert [row.estimate for row in there] == release.lookup(keys).tolist()
    low, high = release.interval(keys, 0.9)
    assert [(row.low, row.high) for row in there] == list(zip(low.tolist(), high.tolist(), strict=True))


def test_keys_of_several_columns_and_a_release_of_several_parts(spark: Any, tmp_path: Path) -> None:
    key = (date(2024, 2, 29), "a", True, -3, b"x", datetime(2024, 1, 1, 12, tzinfo=timezone.utc))
    release_of([key], parts=2).save(tmp_path / "parts")
    sparsedp.spark.register(spark, tmp_path / "parts", "by_day")
    call = "by_day({}, 'a', true, -3, x'78', timestamp'2024-01-01T12:00:00Z')"
    ((found, missing),) = spark.sql(f"""SELECT {call.format("date'2024-02-29'")}, {call.format("NULL")}""").collect()
    assert (found, missing) == (sparsedp.load(tmp_path / "parts")[key], None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("visits(1)", "KeyTypeError: the keys of this release are text"),
        ("visits('a', 'b')", r"KeyTypeError: the keys of this release have 1 columns \(text\), got 2"),
    ],
)
def test_other_types_are_refused_with_the_fix(spark: Any, call: str, message: str) -> None:
    sparsedp.spark.register(spark, release_of(["a", "b"]))
    with pytest.raises(Exception, match=message):  # Spark has many classes, which differ between classic and Connect
        spark.sql(f"SELECT {call}").collect()


def test_registering_again_replaces_and_functions_of_spark_stay(spark: Any) -> None:
    sparsedp.spark.register(spark, release_of(["a", "b"]))
    second = release_of([7])
    sparsedp.spark.register(spark, second)
    assert spark.sql("SELECT visits(7)").collect() == [(second[7],)]
    with pytest.raises(ParameterError, match="Spark already has a function 'abs'; pass another name="):
        sparsedp.spark.register(spark, second, "abs")
    with pytest.raises(ParameterError, match="'visits_low' is one of the release that is registered as 'visits'"):
        sparsedp.spark.register(spark, second, "visits_low")
    with pytest.raises(ParameterError, match="name must be letters"):
        sparsedp.spark.register(spark, second, "a b")
    with pytest.raises(ParameterError, match="confidence must be in"):
        sparsedp.spark.register(spark, second, confidence=2)


def test_an_older_spark_is_named_with_the_fix(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions

    monkeypatch.delattr(functions, "arrow_udf")
    with pytest.raises(MissingDependencyError, match=r"pip install 'pyspark>=4\.1'"):
        sparsedp.spark.register(spark, release_of(["a", "b"]))
