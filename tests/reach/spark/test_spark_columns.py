"""Keys of several columns on Spark: bit-identical to local ones, named, looked up where they are."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparsedp
import sparsedp.spark
from spark_columns import KEYS_ON_SPARK, OPTIONS, TYPES, arrow_events
from spark_tables import PARTS, same
from sparsedp import InputError, KeyTypeError, ParameterError
from sparsedp.keys.kinds import KeyColumn
from sparsedp.privacy.randomness import reproducible_for_tests


@pytest.fixture(scope="module")
def local() -> pa.Table:
    """Events, in Arrow."""
    return arrow_events()


@pytest.fixture(scope="module")
def typed(spark: Any, local: pa.Table) -> Any:
    """The same events, in Spark."""
    schema = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
    return spark.createDataFrame(local, schema).repartition(5).cache()


@pytest.mark.parametrize(("key", "named"), KEYS_ON_SPARK, ids=str)
def test_a_release_is_the_local_one_bit_for_bit(key: Any, named: bool, typed: Any, local: Any, tmp_path: Path) -> None:
    # A few keys of each user stay: catches bytes of a pair that differ between Spark and DuckDB.
    counting: dict[str, Any] = {"key": key, "user": "user", "max_keys_per_user": 2, "max_per_key": 2}
    options: dict[str, Any] = {"parts": PARTS, **OPTIONS[named]}
    with reproducible_for_tests(5):
        built = sparsedp.spark.release(typed, **counting, path=tmp_path / "spark", **options)
    with reproducible_for_tests(5):
        expected = sparsedp.release(sparsedp.count(local, **counting), **options)
    assert same(built, expected)
    assert built.key_columns == expected.key_columns
    assert built.format == 3
    sparsedp.verify(tmp_path / "spark")
    if named:
        assert built.kept_keys() == expected.kept_keys() != []


def test_keys_are_looked_up_where_they_are(typed: Any, local: Any, spark: Any) -> None:
    key = ["day", "page", "instant", "local"]
    release = sparsedp.release(sparsedp.count(local, key=key), epsilon=5.0, nonzero=3000)
    answers = sparsedp.spark.lookup(typed, release, key=key).toArrow()
    assert answers.column("estimate").to_pylist() == release.lookup(answers).tolist()
    renamed = typed.select(*(typed[name].alias(f"my {name}") for name in key))
    again = sparsedp.spark.lookup(renamed, release, key=[f"my {name}" for name in key]).toArrow()
    assert sorted(again.column("low").to_pylist()) == sorted(answers.column("low").to_pylist())
    days = sparsedp.release({date(1969, 12, 30): 500}, epsilon=5.0, nonzero=9)
    assert sparsedp.spark.lookup(typed.select("day"), days, key="day").agg({"estimate": "max"}).collect()[0][0] > 400


def test_other_columns_are_refused(typed: Any, tmp_path: Path) -> None:
    release = sparsedp.release(({"day": [date(2024, 1, 1)], "page": ["/"]}, [5]), epsilon=1.0, nonzero=9)
    with pytest.raises(KeyTypeError, match=r"have 2 columns \(day \(date\), page \(text\)\), got 1"):
        sparsedp.spark.lookup(typed, release, key="day")
    with pytest.raises(KeyTypeError, match=r"column 'local' must be dates .*, got timestamps in us"):
        sparsedp.spark.lookup(typed, release, key=["local", "page"])
    with pytest.raises(InputError, match="there is no column 'pag'"):
        sparsedp.spark.lookup(typed, release, key=["day", "pag"])
    with pytest.raises(InputError, match=r"column 'new' has boolean values, .*truth values beside other columns"):
        sparsedp.spark.plan(typed, key="new", epsilon=1.0)
    with pytest.raises(ParameterError, match="domain is for keys of one column"):
        sparsedp.spark.plan(typed, key=["number", "day"], epsilon=1.0, domain=9)
    assert sparsedp.spark.plan(typed, key=["new", "day"], epsilon=1.0, nonzero=99).mechanism == "tight-alp"


def test_a_null_in_any_column_is_refused_or_drops_the_row(spark: Any, tmp_path: Path) -> None:
    df = spark.createDataFrame([("a", 1), ("b", None), (None, 2)] * 50, "k string, n int")
    with pytest.raises(InputError, match=r"column 'k' is null in 50 rows; column 'n' is null in 50 rows"):
        sparsedp.spark.release(df, key=["k", "n"], epsilon=1.0, path=tmp_path / "a", parts=2, nonzero=9)
    built = sparsedp.spark.release(
        df, key=["k", "n"], epsilon=9.0, path=tmp_path / "a", parts=2, nonzero=9, nulls="drop"
    )
    assert built.key_columns == (KeyColumn("k", "text"), KeyColumn("n", "integer"))
    assert built["a", 1] > 40
