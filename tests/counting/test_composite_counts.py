"""Keys of several columns, and of dates and timestamps, are counted by declared types: each row by
itself.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

import sparsedp
from locality import assert_local
from sparsedp import InputError, ParameterError
from sparsedp.counting.arrow_types import is_cut_to_microseconds
from sparsedp.keys.kinds import UNITS

pytestmark = pytest.mark.usefixtures("one_database")

DAYS = [date(2024, 1, 1), date(2024, 1, 1), date(2024, 1, 2), date(1969, 12, 31)]
TIMES = [datetime(2024, 1, 1, 10, 0, 0, 1), datetime(2024, 1, 1, 10), datetime(2024, 1, 2), datetime(1969, 12, 31, 23)]
NANOSECONDS = pa.timestamp("ns", "Asia/Tokyo")
EVENTS = pa.table(
    {
        "day": DAYS,
        "page": ["/", "/", "/é", ""],
        "user": [1, 2, 1, 1],
        "time": TIMES,
        "seconds": pa.array([time.replace(microsecond=0) for time in TIMES], pa.timestamp("s")),
        "instant": pa.array(TIMES, pa.timestamp("us", "UTC")),
        "ns": pa.array([1, -1, 999, 1000], pa.timestamp("ns")),
        "ns_utc": pa.array([1, -1, 999, 1000], NANOSECONDS),
        "new": [True, False, True, True],
        "raw": [b"a", b"\xff", b"", b"a"],
        "small": pa.array([0, 255, 1, 2], pa.uint8()),
        "real": [0.5, 1.5, 2.5, 3.5],
    }
)
NS_UTC = [] if is_cut_to_microseconds(NANOSECONDS) else ["ns_utc"]


def counted(source: object, **arguments: Any) -> dict[Any, int]:
    counts = sparsedp.count(source, **arguments)
    keys = counts.keys.to_pylist()
    if isinstance(counts.keys, pa.Table):
        keys = [tuple(row.values()) if len(row) > 1 else next(iter(row.values())) for row in keys]
    return dict(zip(keys, counts.units.tolist(), strict=True))


def sources(folder: Path) -> dict[str, object]:
    pq.write_table(EVENTS, folder / "t.parquet")
    return {
        "Arrow": EVENTS,
        "parquet": folder / "t.parquet",
        "relation": duckdb.connect().from_arrow(EVENTS),
        "polars": pl.DataFrame(EVENTS),
        "LazyFrame": pl.DataFrame(EVENTS).lazy(),
    }


@pytest.mark.parametrize("name", ["Arrow", "parquet", "relation", "polars", "LazyFrame"])
def test_rows_are_counted_by_all_columns_of_the_key(name: str, tmp_path: Path) -> None:
    source = sources(tmp_path)[name]
    assert counted(source, key=["day", "page"]) == {(DAYS[0], "/"): 2, (DAYS[2], "/é"): 1, (DAYS[3], ""): 1}
    assert counted(source, key=["new", "raw", "small"]) == {
        (True, b"a", 0): 1, (False, b"\xff", 255): 1, (True, b"", 1): 1, (True, b"a", 2): 1
    }  # fmt: skip
    assert counted(source, key="day") == {DAYS[0]: 2, DAYS[2]: 1, DAYS[3]: 1}
    assert counted(source, key=["page"]) == counted(source, key="page") == {"/": 2, "/é": 1, "": 1}
    assert set(counted(source, key="time")) == set(TIMES)
    times = ["time", "seconds", "instant", "ns", *NS_UTC, "small"]
    built = sparsedp.release(sparsedp.count(source, key=times), epsilon=1.0, nonzero=9)
    seconds = {"Arrow": "s", "relation": "s", "parquet": "us"}.get(name, "ms")  # Parquet and polars have no seconds
    assert [column.name for column in built.key_columns] == times
    assert [column.kind for column in built.key_columns] == [
        *("timestamp[us]", f"timestamp[{seconds}]", "timestamp[us, UTC]"),
        *("timestamp[ns]", *["timestamp[ns, UTC]" for _ in NS_UTC], "integer"),
    ]


@pytest.mark.parametrize("name", ["Arrow", "parquet", "polars", "LazyFrame", "Dataset", "pandas"])
def test_nanoseconds_that_the_database_would_cut_are_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB 1 reads them as microseconds, and those before 1970 as the next one."""
    more = {"Dataset": dataset.dataset(EVENTS), "pandas": EVENTS.to_pandas()}
    source = (sources(tmp_path) | more)[name]
    monkeypatch.setattr(duckdb, "__version__", "1.5.6")
    for arguments in ({"key": "ns_utc"}, {"key": ["ns_utc", "page"], "key_type": ["date", "text"]}):
        with pytest.raises(InputError, match=r"column 'ns_utc' has nanoseconds with a time zone.*as_unit.*duckdb>=2"):
            sparsedp.count(source, **arguments)
    assert counted(source, key="page") == {"/": 2, "/é": 1, "": 1}


EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
CUT: list[tuple[str, str, list[Any]]] = [
    ("time", "date", DAYS),
    ("instant", "date", DAYS),
    ("seconds", "date", DAYS),
    ("time", "timestamp[s]", [time.replace(microsecond=0) for time in TIMES]),
    ("instant", "timestamp[s, UTC]", [time.replace(microsecond=0, tzinfo=timezone.utc) for time in TIMES]),
    ("ns", "timestamp[us]", [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999)]),
    ("ns", "date", [date(1970, 1, 1), date(1969, 12, 31)]),
    *((column, "timestamp[s, UTC]", [EPOCH, EPOCH - timedelta(seconds=1)]) for column in NS_UTC),
    ("day", "text", [str(day) for day in DAYS]),
    ("new", "text", ["true", "false"]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "key_type", "expected"), CUT)
def test_times_are_cut_to_a_coarser_unit(column: str, key_type: str, expected: list[Any]) -> None:
    found = counted(EVENTS, key=column, key_type=key_type)
    assert found.keys() - {datetime(1970, 1, 1, 0, 0, 0, 1)} == set(expected)
    assert sum(found.values()) == len(EVENTS)
    both = counted(EVENTS, key=[column, "page"], key_type=[key_type, "as stored"])
    assert {key[0] for key in both} == found.keys()


CSV = "day,page,at,new,n\n2024-01-31,/,2024-01-31T12:00:00.5,true,7\n2024-01-31,/,2024-01-31 12:00:00.500,false,-7\n"


@pytest.mark.parametrize(
    ("key", "key_type", "expected"),
    [
        (["day", "page"], "as stored", {("2024-01-31", "/"): 2}),
        (["day", "page"], ["date", "text"], {(date(2024, 1, 31), "/"): 2}),
        ("day", "date", {date(2024, 1, 31): 2}),
        ("at", "timestamp[ms]", {datetime(2024, 1, 31, 12, 0, 0, 500_000): 2}),
        (["new", "n"], ["boolean", "integer"], {(True, 7): 1, (False, -7): 1}),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_text_is_read_as_it_is_told(key: Any, key_type: Any, expected: Any, ending: str, tmp_path: Path) -> None:
    import gzip

    content = CSV.encode()
    (tmp_path / f"a{ending}").write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    assert counted(tmp_path / f"a{ending}", key=key, key_type=key_type) == expected


UNREADABLE = [
    ("date", ["2024-1-31", "2024-02-30", "0000-01-01", "20240131", "2024-01-31 ", "infinity", "epoch", "٢٠٢٤-01-01"]),
    ("timestamp[s]", ["2024-01-31", "2024-01-31T24:00:00", "2024-01-31T12:00:60", "2024-01-31T12:00:00.5", "now"]),
    ("timestamp[s]", ["2024-01-31T12:00:00Z", "2024-01-31T12:00:00+01:00", "2024-01-31T12:00"]),
    ("timestamp[ms, UTC]", ["2024-01-31T12:00:00", "2024-01-31T12:00:00.1234Z", "2024-01-31T12:00:00z"]),
    ("timestamp[ns]", ["2300-01-01T00:00:00", "1600-01-01T00:00:00"]),
    ("boolean", ["True", "t", "1", "yes", " true"]),
    ("integer", ["1.0", "0x10", "1e3", str(1 << 63), "١"]),
]


@pytest.mark.parametrize(("kind", "texts"), UNREADABLE)
def test_text_that_cannot_be_read_is_refused_with_its_row(kind: str, texts: list[str]) -> None:
    good = {"date": "2024-01-31", "boolean": "true", "integer": "1", "timestamp[ms, UTC]": "2024-01-31T12:00:00.123Z"}
    fine = good.get(kind, "2024-01-31T12:00:00")
    for text in texts:
        table = pa.table({"k": [fine, text], "p": ["a", "b"], "u": [1, 2]})
        for more in ({}, {"user": "u", "max_keys_per_user": 1}, {"nulls": "drop"}):
            with pytest.raises(InputError, match=r"column 'k' is not .* in 1 row, first in row 2; fix the table"):
                sparsedp.count(table, key=["k", "p"], key_type=[kind, "text"], **more)


@pytest.mark.parametrize("column", ["day", "page"])
def test_a_null_in_any_column_is_refused_or_drops_the_row(column: str) -> None:
    table = pa.table({"day": [DAYS[0], None, DAYS[0]], "page": ["a", "b", None], "user": [1, 1, 1]})
    with pytest.raises(InputError, match=rf"column '{column}' is null in 1 row, first in row .*pass nulls='drop'"):
        sparsedp.count(table, key=["day", "page"])
    assert counted(table, key=["day", "page"], nulls="drop") == {(DAYS[0], "a"): 1}
    assert counted(table, key=["day", "page"], nulls="drop", user="user", max_keys_per_user=9) == {(DAYS[0], "a"): 1}


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"])
def test_infinity_is_no_day(kind: str) -> None:
    connection = duckdb.connect()
    rows = connection.sql(
        f"SELECT CAST(k AS {kind}) AS k, 'x' AS p FROM (VALUES ('2024-01-01 00:00:00'), ('infinity')) t(k)"
    )
    with pytest.raises(InputError, match="column 'k' is infinite or out of range in 1 row, first in row 2"):
        sparsedp.count(rows, key=["k", "p"])


FAR: list[tuple[pa.DataType, int, str]] = [
    (pa.timestamp("s"), 10**15, "as stored"),
    (pa.timestamp("s"), 10**15, "date"),
    (pa.timestamp("ms"), 10**17, "as stored"),
    (pa.timestamp("ms"), 10**17, "date"),
    (pa.timestamp("ms"), 10**17, "timestamp[s]"),
    (pa.timestamp("s", "UTC"), 10**15, "as stored"),
    (pa.timestamp("ms", "UTC"), -(10**17), "date"),
    (pa.date64(), 86_400_000 << 33, "as stored"),  # which DuckDB would read as 1970-01-01
    *((pa.timestamp(unit), -(1 << 63), "as stored") for unit in UNITS),
    *((pa.timestamp(unit, "UTC"), -(1 << 63), "as stored") for unit in ["s", "ms", "us", *["ns" for _ in NS_UTC]]),
]


@pytest.mark.parametrize(("kind", "number", "key_type"), FAR)
def test_far_times_are_refused_with_their_row(kind: pa.DataType, number: int, key_type: str) -> None:
    table = pa.table({"k": pa.array([0, number], kind), "p": ["a", "b"], "u": [1, 2]})
    frames = [table, dataset.dataset(table)]
    if pa.types.is_timestamp(kind) and kind.unit != "s":
        frames += [pl.DataFrame(table), pl.DataFrame(table).lazy()]
    for source in frames:
        bounded: dict[str, Any] = {"user": "u", "max_keys_per_user": 1}
        for more in ({}, bounded):
            with pytest.raises(InputError, match=r"column 'k' is infinite or out of range.*, first in row 2; fix the"):
                sparsedp.count(source, key=["k", "p"], key_type=[key_type, "text"], **more)
        assert len(sparsedp.count(table.slice(0, 1), key="k", key_type=key_type).units) == 1


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("number", [10**17, -(10**17), (1 << 63) - 1, -(1 << 63)])
def test_far_times_of_parquet_files_are_refused_with_their_row(
    tmp_path: Path, zone: str | None, statistics: bool, number: int
) -> None:
    """DuckDB reads milliseconds as microseconds, and says no row. Rows are counted over all files."""
    kind = pa.timestamp("ms", zone)
    near = pa.table({"k": pa.array([0, None, 10**13], kind), "p": ["a", "b", "c"]})
    far = pa.table({"k": pa.array([5, None, 7, number], kind), "p": ["a", "b", "c", "d"]})
    for name, table in {"a": near, "b": far}.items():
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=2, write_statistics=statistics)
    for key_type in ("as stored", "date", "timestamp[s]" if zone is None else "timestamp[s, UTC]"):
        with pytest.raises(InputError, match=r"column 'k' is infinite or out of range, first in row 7; fix the table"):
            sparsedp.count(str(tmp_path / "*.parquet"), key=["k", "p"], key_type=[key_type, "text"], nulls="drop")
    assert len(sparsedp.count(str(tmp_path / "*.parquet"), key="p").units) == 4
    assert len(sparsedp.count(tmp_path / "a.parquet", key=["k", "p"], nulls="drop").units) == 2


def test_extension_types_are_not_counted_by_what_they_store() -> None:
    periods = pd.DataFrame({"k": pd.period_range("2024-01", periods=2, freq="M"), "p": [1, 2]})
    table = pa.table({"k": pa.array(periods["k"].array), "p": [1, 2]})
    categories = periods.astype({"k": "category"})
    for source in (periods, categories, table, dataset.dataset(table), table.to_reader()):
        with pytest.raises(InputError, match=r"'k' has the extension type pandas.period.*astype\('string'\)"):
            sparsedp.count(source, key="k")
    assert counted(periods.astype({"k": "string"}), key="k") == {"2024-01": 1, "2024-02": 1}
    known = pa.table({"k": pa.array([0, 1], pa.int8()).cast(pa.bool8()), "p": [1, 2]})
    for source in (known, dataset.dataset(known)):
        assert counted(source, key=["k", "p"]) == {(False, 1): 1, (True, 2): 1}
    uuid = pa.table({"k": pa.array([bytes(16)], pa.uuid())})
    assert counted(uuid, key="k", key_type="text") == {"00000000-0000-0000-0000-000000000000": 1}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"key": []}, "key must be the name of a column, or a list of such names"),
    ({"key": ["day", 5]}, "key must be the name of a column"),
    ({"key": ["day", "a\ud800"]}, "columns of the key must have names of valid Unicode, at most 1000 bytes"),
    ({"key": "é" * 501}, "at most 1000 bytes; rename them"),
    ({"key": ["day", "day"]}, "key must name every column once, got day, day"),
    ({"key": [f"c{at}" for at in range(65)]}, "at most 64 columns, got 65"),
    ({"key": ["day", "page"], "key_type": ["date"]}, "or a list of 2 of them, one for each column"),
    ({"key": ["day", "page"], "domain": 9}, "domain is for keys of one column of integers, got 2 columns"),
    ({"key": "day", "key_type": "day"}, "key_type must be one of 'as stored', 'text'"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_parameters_are_refused_before_the_table_is_read(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        sparsedp.count("no such file", **arguments)


UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"key": ["day", "other"]}, "no column 'other'"),
    ({"key": "new"}, "column 'new' has BOOLEAN values.*pass key_type='text'"),
    ({"key": ["day", "real"]}, "column 'real' has DOUBLE values.*cast it"),
    ({"key": ["day", "page"], "key_type": ["timestamp[s]", "text"]}, "DATE values, which cannot be counted as timest"),
    ({"key": "seconds", "key_type": "timestamp[us]"}, "which cannot be counted as timestamp.us.; cast it, or omit"),
    ({"key": "time", "key_type": "timestamp[s, UTC]"}, "which cannot be counted as"),
    ({"key": "page", "key_type": "bytes"}, "which cannot be counted as bytes"),
    ({"key": "day", "domain": 9}, "keys must be integers below domain=, and column 'day' has DATE values"),
]


@pytest.mark.parametrize(("arguments", "message"), UNFIT)
def test_columns_of_other_types_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sparsedp.count(EVENTS, **arguments)


def test_a_user_has_so_many_different_composite_keys() -> None:
    # Catches a bound on the values of one column only.
    rows = [(user, day, page) for user in (1, 2) for day in range(3) for page in "abcd"]
    table = pa.table({"u": [r[0] for r in rows], "day": [r[1] for r in rows], "page": [r[2] for r in rows]})
    for most in (1, 2, 5, 12, 20):
        found = counted(table, key=["day", "page"], user="u", max_keys_per_user=most)
        assert sum(found.values()) == 2 * min(most, 12)
        alone = counted(table.slice(12), key=["day", "page"], user="u", max_keys_per_user=most)
        assert_local(found, alone, keys=most)


def test_which_keys_stay_depends_on_where_a_column_ends() -> None:
    # ("a", "bc") and ("ab", "c") are different keys, in the order of a user's keys too.
    table = pa.table({"u": [1, 1], "k": ["a", "ab"], "p": ["bc", "c"]})
    assert len(counted(table, key=["k", "p"], user="u", max_keys_per_user=2)) == 2
    kept = {
        next(
            iter(counted(table.set_column(0, "u", pa.array([user] * 2)), key=["k", "p"], user="u", max_keys_per_user=1))
        )
        for user in range(30)
    }
    assert kept == {("a", "bc"), ("ab", "c")}


def test_collations_and_codes_have_no_influence() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (k VARCHAR COLLATE NOCASE, p ENUM('x', 'X'), u INTEGER)")
    connection.execute("INSERT INTO t VALUES ('a', 'x', 1), ('A', 'x', 1), ('a', 'X', 1)")
    expected = {("a", "x"): 1, ("A", "x"): 1, ("a", "X"): 1}
    assert counted(connection.table("t"), key=["k", "p"]) == expected
    assert counted(connection.table("t"), key=["k", "p"], user="u", max_keys_per_user=3) == expected


def test_pandas_counts_and_estimates_go_round() -> None:
    frame = pd.DataFrame({"time": pd.to_datetime(TIMES), "page": ["a", "b", "a", "a"]})
    built = sparsedp.release(sparsedp.count(frame, key=["time", "page"]), epsilon=20.0, nonzero=9)
    assert built.lookup(frame).round().tolist() == [1, 1, 1, 1]
    assert built.to_pandas(frame).equals(built.to_pandas(built.to_pandas(frame)))


def test_a_bound_is_suggested_for_composite_keys() -> None:
    rows = 2000
    table = pa.table({"u": [at % 100 for at in range(rows)], "d": [at % 7 for at in range(rows)], "p": ["a"] * rows})
    assert sparsedp.suggest(table, key=["d", "p"], user="u", epsilon=1.0).max_keys_per_user >= 1
