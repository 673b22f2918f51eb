"""Row locality of tables in memory and of relations: types, collations, and which keys of a user
stay.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sparsedp
from locality import Rows, assert_local, counted
from sparsedp import InputError

pytestmark = pytest.mark.usefixtures("one_database")

MANY: Rows = [(f"u{at % 4}", f"k{at % 13}") for at in range(52)]  # each user has all 13 keys
# Users and keys that come first, alphabetically and by row, so that all codes move.
FIRST: Rows = [("a first", "a first"), ("a first", "k12"), ("a first", "k3")]


def as_frame(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame({"u": [u for u, _ in rows], "k": [k for _, k in rows]})


def as_enum(rows: Rows) -> Any:
    return duckdb.from_df(as_frame(rows).astype("category"))


def as_nocase(rows: Rows) -> Any:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (u VARCHAR COLLATE NOCASE, k VARCHAR COLLATE NOCASE)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    return connection.table("t")


def as_default_collation(rows: Rows) -> Any:
    connection = duckdb.connect()
    connection.execute("SET default_collation = 'nocase'")
    connection.register("t", pa.Table.from_pandas(as_frame(rows)))
    return connection.table("t")


MEMORY: dict[str, Callable[[Rows], Any]] = {
    "pandas": as_frame,
    "categories of pandas": lambda rows: as_frame(rows).astype("category"),
    "objects of pandas": lambda rows: as_frame(rows).astype(object),
    "strings of pandas": lambda rows: as_frame(rows).astype("string"),
    "polars": lambda rows: pl.from_pandas(as_frame(rows)),
    "categories of polars": lambda rows: pl.from_pandas(as_frame(rows)).cast(pl.Categorical),
    "categories of a LazyFrame": lambda rows: pl.from_pandas(as_frame(rows)).lazy().cast(pl.Categorical),
    "dictionaries": lambda rows: pa.Table.from_pandas(as_frame(rows).astype("category")),
    "ENUM": as_enum,
    "NOCASE": as_nocase,
    "default collation": as_default_collation,
    "relation": lambda rows: duckdb.from_df(as_frame(rows)),
}


@pytest.mark.parametrize("kind", MEMORY)
def test_which_keys_stay_depends_on_the_user_alone(kind: str) -> None:
    make = MEMORY[kind]
    without = counted(make(MANY), 3)
    for together in (FIRST + MANY, MANY + FIRST):
        assert_local(counted(make(together), 3), without, 3)


@pytest.mark.parametrize("kind", MEMORY)
def test_whatever_holds_the_rows_the_same_keys_stay(kind: str) -> None:
    without = counted(MEMORY[kind](MANY), 3)
    kept = {user: sorted((k for _, k in MANY[:13]), key=lambda k: digest(user, k))[:3] for user, _ in MANY}
    assert without == {key: n for key in {k for _, k in MANY} if (n := sum(key in keys for keys in kept.values()))}


def digest(user: Any, key: Any) -> int:
    mine, its = (one if isinstance(one, bytes) else text(one).encode() for one in (user, key))
    apart = b"%d:%s" % (len(mine), mine) if isinstance(user, (str, bytes)) else mine + b":"
    return int.from_bytes(hashlib.md5(apart + its).digest()[:4], "little")


def text(one: Any) -> str:
    return str(one).lower() if isinstance(one, bool) else str(one)


TYPED: dict[str, tuple[list[Any], Any]] = {
    "text": (["é", "b", "", "日本", "1:2"], pa.string()),
    "bytes": ([b"\xff", b"", b"a\x00b", b"1:"], pa.binary()),
    "small": ([-5, 0, 7, 127], pa.int8()),
    "large": ([0, 5, (1 << 64) - 1], pa.uint64()),
    "dates": ([datetime.date(2024, 1, 2), datetime.date(1, 2, 3)], pa.date32()),
    "truth": ([True, False], pa.bool_()),
}


@pytest.mark.parametrize("kind", TYPED)
@pytest.mark.parametrize("key_kind", ["text", "bytes", "small", "large"])
@pytest.mark.parametrize("relation", [False, True])
def test_the_order_of_keys_is_the_stated_hash(kind: str, key_kind: str, relation: bool) -> None:
    users, user_type = TYPED[kind]
    keys, key_type = TYPED[key_kind]
    pairs = [(u, k) for u in users for k in keys]
    table: Any = pa.table(
        {"u": pa.array([u for u, _ in pairs], user_type), "k": pa.array([k for _, k in pairs], key_type)}
    )
    expected: dict[Any, int] = {}
    for user in users:
        for key in sorted(keys, key=lambda key: digest(user, key))[:2]:
            expected[key] = expected.get(key, 0) + 1
    assert counted(duckdb.from_arrow(table) if relation else table, 2) == expected


@pytest.mark.parametrize("kind", ["NOCASE", "default collation", "pandas"])
def test_text_is_grouped_by_its_bytes(kind: str) -> None:
    # A collation treats "A" and "a" as equal, and names them by the first one it meets.
    rows: Rows = [("1", "key"), ("2", "KEY"), ("3", "key"), ("A", "x"), ("a", "y")]
    more: Rows = [("0", "Key")]
    without = counted(MEMORY[kind](rows))
    assert without == {"key": 2, "KEY": 1, "x": 1, "y": 1}
    assert_local(counted(MEMORY[kind](more + rows)), without)


def test_objects_of_pandas_are_text_or_refused() -> None:
    for column in (
        pd.Series([1, 2, 3], dtype=object),  # with 1.5 among them, Arrow would turn 1 into 1.0
        pd.Series([1, 2, 1.5], dtype=object),
        pd.Series(["a", 2, "b"], dtype=object),
        pd.Series(["a", b"b"], dtype=object),
        pd.Series([True, False], dtype=object),
        pd.Series([datetime.date(2024, 1, 2)], dtype=object),
        pd.Series([decimal.Decimal(1), decimal.Decimal("1.50")], dtype=object),
        pd.Series([["a"]], dtype=object),
        pd.Series(pd.Categorical([1, "a"])),
        pd.Series(pd.Categorical([1, 1.5], categories=pd.Index([1, 1.5], dtype=object))),
    ):
        frame = pd.DataFrame({"x": column, "y": "a"})
        for key, user in ("xy", "yx"):
            with pytest.raises(
                InputError, match=r"column 'x' has Python objects, and the one at (position|category) \d is"
            ):
                counted(frame, key=key, user=user)
        assert counted(frame, key="y", user="y") == {"a": 1}
    with pytest.raises(InputError, match=r"column 'x' is null in 3 rows, first in row 2"):
        counted(pd.DataFrame({"x": pd.Series(["a", None, pd.NA, np.nan], dtype=object)}), key="x", user="x")
    with pytest.raises(InputError, match="not valid Unicode"):
        counted(pd.DataFrame({"x": pd.Series(["\ud800"], dtype=object)}), key="x", user="x")
    numbers = pd.DataFrame({"k": ["a", "b"], "v": pd.Series([1, 2], dtype=object)})
    with pytest.raises(InputError, match=r"column 'v' has Python objects.*pandas\.to_numeric"):
        sparsedp.count(numbers, key="k", value="v")


OTHER_TYPES: dict[str, Any] = {
    "floats": pd.DataFrame({"x": [1.0, None], "y": "a"}),
    "categories of floats": pd.DataFrame({"x": pd.Categorical([1.5, 2.5]), "y": "a"}),
    "times of day": pa.table({"x": pa.array([1], pa.time64("us")), "y": ["a"]}),
    "decimals": pa.table({"x": [decimal.Decimal("1.5")], "y": ["a"]}),
    "lists": pa.table({"x": [[1]], "y": ["a"]}),
    "structs": pa.table({"x": [{"a": 1}], "y": ["a"]}),
    "objects of polars": pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object), "y": ["a"]}),
    "objects of a LazyFrame": pl.LazyFrame({"x": pl.Series([object()], dtype=pl.Object), "y": ["a"]}),
    "nulls": pa.table({"x": pa.nulls(1), "y": ["a"]}),
}


@pytest.mark.parametrize("case", OTHER_TYPES)
def test_users_and_keys_of_other_types_are_refused_with_a_cast(case: str) -> None:
    for key, user, fix in (("x", "y", "cast it|pass key_type='text'"), ("y", "x", "cast it")):
        with pytest.raises(InputError, match=rf"column 'x' (is null|has .*({fix}))"):
            counted(OTHER_TYPES[case], key=key, user=user)


def test_users_are_no_timestamps() -> None:
    with pytest.raises(InputError, match=r"column 'x' has TIMESTAMP.* values, and users must be"):
        counted(pd.DataFrame({"x": pd.to_datetime(["2024-01-02"]), "y": "a"}), key="y", user="x")


def test_messages_show_no_values_of_an_enum_or_a_query() -> None:
    relation = as_enum([("1", "secret"), ("2", "other")])
    with pytest.raises(InputError, match="column 'k' has ENUM values") as refused:
        sparsedp.count(relation, key="u", value="k")
    assert "secret" not in str(refused.value)
    failing = duckdb.sql("SELECT CAST(k AS INTEGER) AS k FROM (SELECT 'secret' AS k)")
    frame = pl.LazyFrame({"k": ["secret"]}).select(pl.col("k").str.to_integer())
    for source in (failing, frame):
        with pytest.raises(InputError, match="cannot be read") as refused:
            sparsedp.count(source, key="k")
        assert "secret" not in str(refused.value)


def test_the_cast_of_a_pandas_column_can_be_run() -> None:
    frame = pd.DataFrame({"u": [1, None], "k": ["a", "b"]})
    with pytest.raises(InputError, match=r"column 'u' has DOUBLE values.*frame\['u'\]\.astype\('Int64'\)"):
        counted(frame)
    assert counted(frame.assign(u=frame["u"].astype("Int64")), nulls="drop") == {"a": 1}
