"""Keys of several columns: an injective encoding, pinned by vectors; the same ids from every form; and
errors that say the fix.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparsedp
from sparsedp import InputError, KeyTypeError, ParameterError
from sparsedp.keys.composite import EncodedKeys, KeyTable
from sparsedp.keys.encoding import canonical, canonical_row, original_row
from sparsedp.keys.hashing import HASHED_DOMAIN, KeySpace
from sparsedp.keys.kinds import ColumnKind, KeyColumn

SEED = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
DAY, OTHER = date(2024, 2, 29), date(1969, 12, 31)
TIME = datetime(2024, 2, 29, 12, 30, 1, 500_000)
UTC_TIME = TIME.replace(tzinfo=timezone.utc)


def space(*kinds: ColumnKind) -> KeySpace:
    return KeySpace(HASHED_DOMAIN, SEED, None, tuple(KeyColumn(f"c{at}", kind) for at, kind in enumerate(kinds)))


# Canonical bytes, as docs/format.md describes them, and fingerprints under the key 00 01 … 0f.
VECTORS: list[tuple[tuple[ColumnKind, ...], tuple[Any, ...], str, int]] = [
    (("text", "text"), ("a", "bc"), "73 01000000 61 73 02000000 6263 74", 0xB9E05B57AF9243C3),
    (("text", "text"), ("ab", "c"), "73 02000000 6162 73 01000000 63 74", 0xD5667EB9B4EC28F6),
    (("text", "text"), ("", ""), "73 00000000 73 00000000 74", 0x0B05E21597A2904F),
    (("date", "text"), (DAY, "/é"), "64 04000000 464d0000 73 03000000 2fc3a9 74", 0xB56BD1E62B8A03F0),
    (("date", "bytes"), (OTHER, b"\0s"), "64 04000000 ffffffff 62 02000000 0073 74", 0x635C299273520D84),
    (("integer", "boolean"), (-1, True), "69 08000000 ffffffffffffffff 6c 01000000 01 74", 0x0402F5798E396941),
    (
        ("integer", "boolean"),
        ((1 << 64) - 1, False),
        "75 08000000 ffffffffffffffff 6c 01000000 00 74",
        0xDC5856AE9DC5A488,
    ),
    (
        ("timestamp[us]", "text"),
        (datetime(1970, 1, 1, 0, 0, 1), "x"),
        "6d 08000000 40420f0000000000 73 01000000 78 74",
        0x2245B8D397513542,
    ),
    (("timestamp[s, UTC]",), (UTC_TIME.replace(microsecond=0),), "6d 08000000 c978e06500000000 74", 0x1440D857C42703BF),
    (("date",), (DAY,), "64 04000000 464d0000 74", 0xD75DB2B170675E98),
]


@pytest.mark.parametrize(("kinds", "values", "encoded", "fingerprint"), VECTORS)
def test_the_encoding_is_the_one_that_is_written_down(
    kinds: tuple[ColumnKind, ...], values: tuple[Any, ...], encoded: str, fingerprint: int
) -> None:
    own = space(*kinds)
    key = values if len(values) > 1 else values[0]
    table = KeyTable.read([key], own.columns)
    content = bytes.fromhex(encoded.replace(" ", ""))
    assert table.names() == [content]
    assert original_row(content, own.columns) == key
    assert own.id(key) == own.ids([key])[0] == EncodedKeys(table.encoded()).ids(SEED)[0] == fingerprint
    assert canonical_row(values, own.columns) in (content, None)


SCALARS: dict[ColumnKind, Any] = {
    "text": st.text(max_size=5),
    "bytes": st.binary(max_size=5),
    "integer": st.integers(-(1 << 63), (1 << 64) - 1),
    "boolean": st.booleans(),
    "date": st.dates(),
    "timestamp[us]": st.datetimes(),
    "timestamp[us, UTC]": st.datetimes(timezones=st.just(timezone.utc)),
}


@st.composite
def rows(draw: st.DrawFn) -> tuple[tuple[ColumnKind, ...], list[tuple[Any, ...]]]:
    kinds = tuple(draw(st.lists(st.sampled_from(list(SCALARS)), min_size=2, max_size=4)))
    return kinds, draw(st.lists(st.tuples(*(SCALARS[kind] for kind in kinds)), min_size=1, max_size=6))


@given(rows())
def test_different_keys_have_different_bytes_that_give_them_back(
    drawn: tuple[tuple[ColumnKind, ...], list[tuple[Any, ...]]],
) -> None:
    kinds, keys = drawn
    own = space(*kinds)
    names = KeyTable.read(keys, own.columns).names()
    assert [original_row(name, own.columns) for name in names] == keys
    assert len(set(names)) == len(set(keys))
    assert own.ids(keys).tolist() == [own.id(key) for key in keys]
    simple = [canonical(key) for key in ("a", b"a", 1, "t", b"t")]
    assert not set(names) & set(simple)


def test_what_could_be_split_elsewhere_is_not() -> None:
    own = space("text", "text")
    pairs = [("a", "b"), ("ab", ""), ("", "ab"), ("as\1\0\0\0b", ""), ("a", "b\0")]
    assert len(set(own.ids(pairs).tolist())) == len(pairs)


COLUMNS = {
    "day": [date(2024, 1, 1), date(2024, 1, 1), date(1903, 5, 6)],
    "page": ["/", "/é", ""],
    "n": [1, -2, 1 << 40],
    "new": [True, False, True],
    "at": [TIME, TIME + timedelta(1), datetime(1, 1, 1)],
}
TABLE = pa.table(COLUMNS)
ROWS = list(zip(*COLUMNS.values(), strict=True))
COUNTS = dict(zip(ROWS, [1000, 2000, 3000], strict=True))


def numpy_columns() -> tuple[Any, ...]:
    return (
        np.array(COLUMNS["day"], "datetime64[D]"),
        np.array(COLUMNS["page"]),
        np.array(COLUMNS["n"]),
        np.array(COLUMNS["new"]),
        np.array(COLUMNS["at"], "datetime64[us]"),
    )


def encoded_pages() -> Any:
    pages = TABLE.column("page").dictionary_encode()
    return TABLE.set_column(1, "page", pages)


def encoded_views(table: pa.Table) -> pa.Table:
    """With a dictionary of views in each of two chunks, as polars writes its categories."""
    chunks = []
    for part in (table.slice(0, 1), table.slice(1)):
        pages = part.column("page").combine_chunks().dictionary_encode()
        chunks.append(pa.DictionaryArray.from_arrays(pages.indices, pages.dictionary.cast(pa.string_view())))
    return table.set_column(1, "page", pa.chunked_array(chunks))


def frame() -> Any:
    return pd.DataFrame(COLUMNS).astype({"n": "Int64", "page": "category", "new": "boolean"})


FORMS: dict[str, Any] = {
    "tuples": ROWS,
    "an iterator of tuples": lambda: iter(ROWS),
    "keys of a dict": COUNTS.keys(),
    "a dict of keys": COUNTS,
    "an array of tuples": lambda: as_objects(ROWS),
    "Arrow": TABLE,
    "Arrow in chunks": pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    "a slice of Arrow": pa.concat_tables([TABLE, TABLE]).slice(3),
    "Arrow with other columns": TABLE.append_column("other", pa.array([1.5, 2.5, None])),
    "other order": TABLE.select(["page", "at", "day", "new", "n"]),
    "a dictionary": encoded_pages(),
    "a dictionary of views": lambda: encoded_views(TABLE),
    "a record batch": TABLE.combine_chunks().to_batches()[0],
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas with types": frame,
    "a MultiIndex": lambda: pd.MultiIndex.from_arrays(list(COLUMNS.values()), names=list(COLUMNS)),
    "a MultiIndex without names": lambda: pd.MultiIndex.from_arrays(list(COLUMNS.values())),
    "polars": lambda: pl.DataFrame(TABLE),
    "polars with categories": lambda: pl.DataFrame(TABLE).with_columns(pl.col("page").cast(pl.Categorical)),
    "a LazyFrame": lambda: pl.DataFrame(TABLE).lazy(),
    "a dict of columns": COLUMNS,
    "columns": tuple(COLUMNS.values()),
    "columns of NumPy": numpy_columns,
    "a dict of NumPy": lambda: dict(zip(COLUMNS, numpy_columns(), strict=True)),
}


def as_objects(values: list[Any]) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def formed(name: str) -> Any:
    return FORMS[name]() if callable(FORMS[name]) else FORMS[name]


@pytest.fixture(scope="module")
def release() -> sparsedp.Release:
    return sparsedp.release((TABLE, list(COUNTS.values())), epsilon=1.0, nonzero=10)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_the_same_keys_has_the_same_answers(name: str, release: sparsedp.Release) -> None:
    expected = [release[row] for row in ROWS]
    np.testing.assert_allclose(expected, [1000, 2000, 3000], atol=60)
    assert release.lookup(formed(name)).tolist() == expected
    assert release.interval(formed(name))[0].tolist() == release.interval(ROWS)[0].tolist()
    assert release.sum(formed(name)) == release.sum(ROWS)
    assert set(release.top(3, formed(name)).keys) == set(ROWS)
    shown = release.to_pandas(formed(name))
    assert list(shown.columns) == ["day", "page", "n", "new", "at", "estimate", "low", "high"]
    assert shown["page"].tolist() == COLUMNS["page"]


@pytest.mark.parametrize("name", [name for name in FORMS if name not in ("a dict of keys", "Arrow with other columns")])
def test_every_form_is_released_with_its_columns(name: str) -> None:
    built = sparsedp.release((formed(name), [1000, 2000, 3000]), epsilon=1.0, nonzero=10)
    kinds = {column.name: column.kind for column in built.key_columns}
    wanted = ["date", "text", "integer", "boolean", "timestamp[us]"]
    if name in ("pandas", "pandas with types", "a MultiIndex", "a MultiIndex without names"):
        kinds = {own: "timestamp[us]" if kind == "timestamp[ns]" else kind for own, kind in kinds.items()}
    if set(kinds) == set(COLUMNS):
        assert kinds == dict(zip(COLUMNS, wanted, strict=True))
        built_rows = [tuple(row[list(COLUMNS).index(str(own))] for own in kinds) for row in ROWS]
    else:  # columns without names
        assert kinds == dict(zip(("key1", "key2", "key3", "key4", "key5"), wanted, strict=True))
        built_rows = ROWS
    np.testing.assert_allclose(built.lookup(built_rows), [1000, 2000, 3000], atol=60)


COUNTED: dict[str, Any] = {
    "a dict": COUNTS,
    "a Counter": lambda: Counter(COUNTS),
    "Arrow": TABLE.append_column("count", pa.array([1000, 2000, 3000])),
    "pandas": lambda: pd.DataFrame({**COLUMNS, "count": [1000, 2000, 3000]}),
    "polars": lambda: pl.DataFrame({**COLUMNS, "count": [1000, 2000, 3000]}),
    "a LazyFrame": lambda: pl.LazyFrame({**COLUMNS, "count": [1000, 2000, 3000]}),
    "a Series": lambda: pd.DataFrame({**COLUMNS, "count": [1000, 2000, 3000]}).set_index(list(COLUMNS))["count"],
}


@pytest.mark.parametrize("name", COUNTED)
def test_counts_of_every_container_are_released(name: str) -> None:
    counts = COUNTED[name]() if callable(COUNTED[name]) else COUNTED[name]
    built = sparsedp.release(counts, epsilon=1.0, nonzero=10)
    np.testing.assert_allclose(built.lookup(ROWS), [1000, 2000, 3000], atol=60)
    assert [column.name for column in built.key_columns] in (list(COLUMNS), [f"key{at}" for at in range(1, 6)])


def test_equal_keys_are_summed() -> None:
    built = sparsedp.release(([("a", 1), ("a", 1), ("a", 2)], [500, 700, 9000]), epsilon=1.0, nonzero=10)
    np.testing.assert_allclose(built.lookup([("a", 1), ("a", 2)]), [1200, 9000], atol=60)


@pytest.mark.parametrize("parts", [1, 3])
def test_columns_survive_the_file(parts: int, tmp_path: Path) -> None:
    built = sparsedp.release((TABLE, [1000, 2000, 3000]), epsilon=1.0, nonzero=10, parts=parts)
    built.save(tmp_path / "a.sparsedp")
    sparsedp.verify(tmp_path / "a.sparsedp")
    loaded = sparsedp.load(tmp_path / "a.sparsedp")
    assert loaded.format == built.format == 3
    assert loaded.key_columns == built.key_columns
    assert loaded.lookup(TABLE).tolist() == built.lookup(ROWS).tolist()
    written = sparsedp.release((TABLE, [1000, 2000, 3000]), epsilon=1.0, nonzero=10, parts=parts, path=tmp_path / "b")
    sparsedp.verify(tmp_path / "b")
    assert written.format == 3


def test_simple_keys_stay_in_the_older_format() -> None:
    built = sparsedp.release({"a": 5}, epsilon=1.0, nonzero=10)
    assert built.format == 2
    assert built.key_columns == (KeyColumn(None, "text"),)


@pytest.mark.parametrize("mechanism", ["stability", "tight-alp"])
def test_kept_keys_come_back_as_tuples(mechanism: str, tmp_path: Path) -> None:
    strange = {
        "day": np.array(["2024-01-01", "9999-12-31", "-5000-01-01", "12000-01-01"], "datetime64[D]"),
        "ns": np.array([1, -1, 2, 1 << 62], "datetime64[ns]"),
        "n": [-1, (1 << 64) - 1, 0, 1 << 63],
    }
    built = sparsedp.release(
        (strange, [5000] * 4), epsilon=1.0, delta=1e-6, mechanism=mechanism, nonzero=10, keep_keys=True
    )
    built.save(tmp_path / "a.sparsedp")
    sparsedp.verify(tmp_path / "a.sparsedp")
    kept = sparsedp.load(tmp_path / "a.sparsedp").kept_keys()
    expected = [
        (date(2024, 1, 1), np.datetime64(1, "ns"), -1),
        (date(9999, 12, 31), np.datetime64(-1, "ns"), (1 << 64) - 1),
        (np.datetime64("-5000-01-01"), np.datetime64(2, "ns"), 0),
        (np.datetime64("12000-01-01"), np.datetime64(1 << 62, "ns"), 1 << 63),
    ]
    assert sorted(kept, key=str) == sorted(expected, key=str)
    assert built.lookup(kept).min() > 4900
    assert list(built.top(2).to_pandas().columns)[:3] == ["day", "ns", "n"] or mechanism == "stability"


def test_a_single_column_of_dates_is_a_key_without_tuples() -> None:
    for days in (
        [DAY, OTHER],
        pa.array([DAY, OTHER]),
        np.array([DAY, OTHER], "datetime64[D]"),
        pl.Series([DAY, OTHER]),
    ):
        built = sparsedp.release((days, [1000, 2000]), epsilon=1.0, nonzero=10)
        assert built.key_columns == (KeyColumn("key", "date"),)
        assert abs(built[DAY] - 1000) < 60
        assert built.lookup(pd.Series([DAY, OTHER])).tolist() == built.lookup([DAY, OTHER]).tolist()
        assert built[np.datetime64(DAY)] == built[DAY]
    built = sparsedp.release({TIME: 1000}, epsilon=1.0, nonzero=10)
    assert built.key_columns == (KeyColumn("key", "timestamp[us]"),)
    assert abs(built[pd.Timestamp(TIME)] - 1000) < 60


def test_times_in_other_units_are_the_same_if_that_is_exact() -> None:
    seconds = TIME.replace(microsecond=0)
    built = sparsedp.release({("a", seconds): 1000}, epsilon=1.0, nonzero=9, key_type=["text", "timestamp[s]"])
    assert built.key_columns[1].kind == "timestamp[s]"
    for same in (seconds, np.datetime64(seconds, "ns"), pd.Timestamp(seconds), np.datetime64(seconds, "s")):
        assert built["a", same] > 900
    assert built.lookup({"key1": ["a"], "key2": np.array([seconds], "datetime64[ns]")})[0] > 900
    for finer in (TIME, np.datetime64(TIME, "ns"), np.datetime64("NaT", "s")):
        with pytest.raises(InputError, match=r"must be a whole number of s|is null"):
            built["a", finer]
    with pytest.raises(InputError, match=r"at position 0 must be a whole number of s; cut it to that unit"):
        built.lookup((["a"], np.array([TIME], "datetime64[us]")))
    wide = sparsedp.release({("a", np.datetime64(0, "ns")): 5}, epsilon=1.0, nonzero=9)
    with pytest.raises(InputError, match=r"within the range of 64-bit ns"):
        wide.lookup((["a"], np.array([1 << 60], "datetime64[s]")))


def test_multiples_of_a_unit_are_refused() -> None:
    built = sparsedp.release({np.datetime64(25, "s"): 1000}, epsilon=1.0, nonzero=9)
    multiples = np.array([1], "datetime64[25s]")
    for keys in (multiples, list(multiples)):
        with pytest.raises(KeyTypeError, match=r"got datetime64\[25s\]; use \.astype\('datetime64\[s\]'\)"):
            built.lookup(keys)
        with pytest.raises(KeyTypeError, match=r"datetime64"):
            sparsedp.release((keys, [5]), epsilon=1.0, nonzero=9)
    assert built.lookup(multiples.astype("datetime64[s]"))[0] > 900


def test_the_unit_of_times_does_not_depend_on_their_values() -> None:
    # A pandas Timestamp takes its unit from its digits, and the first key decides what is published.
    kinds = {
        sparsedp.release({("a", pd.Timestamp(text)): 5}, epsilon=1.0, nonzero=9).key_columns[1].kind
        for text in ("2024-01-01", "2024-01-01 00:00:00.5", "2024-01-01 00:00:00.000005")
    }
    assert kinds == {"timestamp[us]"}
    with pytest.raises(InputError, match="whole number of us"):
        sparsedp.release({("a", pd.Timestamp("2024-01-01 00:00:00.000000001")): 5}, epsilon=1.0, nonzero=9)
    mixed = ([("a", np.datetime64(0, "s")), ("a", np.datetime64(0, "us"))], [5, 5])
    with pytest.raises(KeyTypeError, match=r"must have one unit .* got another at position 1"):
        sparsedp.release(mixed, epsilon=1.0, nonzero=9)
    stated = sparsedp.release(mixed, epsilon=1.0, nonzero=9, key_type=["text", "timestamp[ms]"])
    assert stated.key_columns[1].kind == "timestamp[ms]"


def test_local_times_are_no_instants() -> None:
    local = sparsedp.release({("a", TIME): 1000}, epsilon=1.0, nonzero=9)
    instants = sparsedp.release({("a", UTC_TIME): 1000}, epsilon=1.0, nonzero=9)
    assert instants.key_columns[1].kind == "timestamp[us, UTC]"
    other_zone = UTC_TIME.astimezone(timezone(timedelta(hours=5)))
    assert instants["a", other_zone] == instants["a", UTC_TIME] > 900
    assert instants.lookup((["a"], pd.Series([UTC_TIME]).dt.tz_convert("Asia/Tokyo")))[0] > 900
    for built, wrong in ((local, UTC_TIME), (instants, TIME)):
        with pytest.raises(KeyTypeError, match=r"a time zone"):
            built["a", wrong]
        with pytest.raises(KeyTypeError, match=r"a time zone"):
            built.lookup((["a"], pa.array([wrong])))
        with pytest.raises(KeyTypeError, match=r"a time zone"):
            built.lookup((["a"], pd.Series([wrong])))


class Unknown(tzinfo):
    """A time zone that does not know its offset: its times are local ones."""

    def utcoffset(self, _: datetime | None) -> None:
        return None

    dst = tzname = utcoffset


def test_a_time_zone_without_an_offset_is_none() -> None:
    local = sparsedp.release({("a", TIME): 1000}, epsilon=1.0, nonzero=9)
    instants = sparsedp.release({("a", UTC_TIME): 1000}, epsilon=1.0, nonzero=9)
    unknown = TIME.replace(tzinfo=Unknown())
    assert local["a", unknown] == local["a", TIME]
    with pytest.raises(KeyTypeError, match="give it a time zone"):
        instants["a", unknown]
    with pytest.raises(InputError, match="is null"):
        local["a", pd.NaT]
    with pytest.raises(InputError, match="is null"):
        sparsedp.release({("a", pd.NaT): 5}, epsilon=1.0, nonzero=9)
    assert sparsedp.release({("a", unknown): 5}, epsilon=1.0, nonzero=9).key_columns[1].kind == "timestamp[us]"


REFUSED: list[tuple[Any, str]] = [
    ("a", r"a key of this release is a tuple \(day \(date\), page \(text\)\), got str"),
    (("2024-02-29", "/"), r"column 'day' .* must be dates \(datetime.date\), got text \(str\); use .*fromisoformat"),
    ((TIME, "/"), r"column 'day' .*got timestamps in us \(datetime\); use value.date\(\)"),
    ((DAY, b"/"), r"column 'page' .*must be text \(str\), got bytes; use value.decode\(\)"),
    ((DAY, 1), r"column 'page' .*got integers; use str\(value\)"),
    ((DAY, True), r"column 'page' .*got truth values"),
    ((DAY, None), r"column 'page' .* at position 0 is null; drop or fill"),
    ((np.datetime64("NaT", "D"), "/"), r"column 'day' .* at position 0 is null; drop or fill"),
    ((DAY, "\ud800"), r"column 'page' .*valid Unicode"),
    ((DAY,), r"key at position 0 must have 2 values, got 1"),
    ((DAY, "/", 1), r"key at position 0 must have 2 values, got 3"),
    ([DAY, "/"], r"a key of this release is a tuple .* got list"),
]


@pytest.mark.parametrize(("key", "message"), REFUSED)
def test_keys_of_other_types_are_refused_with_the_fix(key: Any, message: str) -> None:
    built = sparsedp.release(({"day": [DAY], "page": ["/"]}, [5]), epsilon=1.0, nonzero=9)
    with pytest.raises(InputError, match=message):
        built[key]


FAR = np.array([19723, (1 << 32) + 19723]).astype("datetime64[D]")  # Arrow would read both as one date
WEEKS = np.array([1], "datetime64[7D]")
ASKED: list[tuple[Any, str]] = [
    ("a", "got a single key, str"),
    ((DAY, "/"), "got a single key, tuple; use release"),
    ([(DAY, "/"), 5], "key at position 1 must be a tuple of 2 values, got int"),
    ([DAY], "key at position 0 must be a tuple"),
    (["a"], "key at position 0 must be a tuple"),
    (np.arange(3), "keys must be tuples, a table, or a tuple of columns, got ndarray"),
    (pa.table({"day": [DAY]}), r"columns day \(date\), page \(text\), and the table has no column 'page' .*rename"),
    (pa.table({"day": pa.array([None], pa.date32()), "page": ["/"]}), "column 'day' of the keys at position 0 is null"),
    (pd.DataFrame({"day": [DAY], "page": [1]}), "column 'page' of the keys must be text"),
    (([DAY], ["/"], [1]), r"keys must have 2 columns \(day \(date\), page \(text\)\), got 3"),
    (([DAY, DAY], ["/"]), "must have one length, got 2, 1"),
    ({"day": np.array(["2024-02"], "datetime64[M]"), "page": ["/"]}, "in days, s, ms, us or ns, got datetime64"),
    ({"day": [DAY], "page": np.array([1.5])}, "got an array of float64"),
    ({"day": np.array([[DAY]]), "page": ["/"]}, "one-dimensional"),
    ({"day": [np.datetime64("NaT", "D")], "page": ["/"]}, "at position 0"),
    ({"day": FAR, "page": ["/", "/"]}, r"column 'day' .* at position 1 must be within 2\^31 days of 1970"),
    ({"day": list(FAR), "page": ["/", "/"]}, r"at position 1 must be within 2\^31 days of 1970"),
    ({"day": WEEKS, "page": ["/"]}, r"got datetime64\[7D\]; use \.astype\('datetime64\[s\]'\)"),
    ({"day": list(WEEKS), "page": ["/"]}, r"must be a date, got datetime64\[7D\]; use \.astype\('datetime64\[D\]'\)"),
    (5, "got int"),
]


@pytest.mark.parametrize(("keys", "message"), ASKED)
def test_what_are_no_keys_is_refused_with_the_fix(keys: Any, message: str) -> None:
    built = sparsedp.release(({"day": [DAY], "page": ["/"]}, [5]), epsilon=1.0, nonzero=9)
    for ask in (built.lookup, built.interval, built.sum, built.to_pandas, lambda keys: built.top(1, keys)):
        with pytest.raises(InputError, match=message):
            ask(keys)


RELEASED: list[tuple[Any, str]] = [
    ({("a", 1): 5, ("a", 2, 3): 5}, "key at position 1 must have 2 values, got 3"),
    ({("a", 1): 5, "b": 5}, "key at position 1 must be a tuple of 2 values, got str"),
    ({("a", 1): 5, (1, "a"): 5}, "column 'key1' .*one type, got str at position 0 and int at position 1"),
    ({("a", 1.5): 5}, "column 'key2' .*at position 0 must be str, bytes, int, bool, .*, got float"),
    ({("a", None): 5}, "column 'key2' .* at position 0 is null"),
    ({("a", 1): 5, ("a", 1.5): 5}, "at position 1 must be integers, got float"),
    ({("a", -(1 << 63) - 1): 5}, r"must be in \[-2\^63, 2\^64\)"),
    ({("a", np.timedelta64(1, "s")): 5}, "got timedelta64"),
    ({("a",): 5}, "column 'key' .*got tuple"),
    ({True: 5}, "got bool"),
    (({"a": [1], "b": []}, [5]), "one length, got 1, 0"),
    (({f"c{at}": [1] for at in range(65)}, [5]), "1 to 64 columns, got 65"),
    (({"": [1], "b": [1]}, [5]), "must have names, got ''"),
    (({"a\ud800": [1], "b": [1]}, [5]), r"names of valid Unicode, at most 1000 bytes, got 'a\\ud800'…; rename it"),
    (({"é" * 501: [1], "b": [1]}, [5]), "at most 1000 bytes, got 'éé"),
    (([("a", 1)], [5, 6]), "as many keys as values, got 1 keys and 2 values"),
]


@pytest.mark.parametrize(("counts", "message"), RELEASED)
def test_malformed_counts_are_refused(counts: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sparsedp.release(counts, epsilon=1.0, nonzero=9)


def test_other_columns_of_a_table_do_not_matter() -> None:
    built = sparsedp.release(({"day": [DAY], "page": ["/"]}, [1000]), epsilon=1.0, nonzero=9)
    wide: dict[Any, Any] = {"page": ["/"], **{f"c{at}": [at] for at in range(70)}, "day": [DAY]}
    frame = pd.DataFrame(wide)
    named = pd.DataFrame([[0, "x", "/", "y", DAY]], columns=[0, "same", "page", "same", "day"])
    twins = pa.Table.from_arrays([[1], [DAY], [2], ["/"]], ["same", "day", "same", "page"])
    levels = pd.MultiIndex.from_arrays([["/"], [DAY], [7]], names=["page", "day", 0])
    for table in (wide, frame, named, twins, levels, pa.table(wide), pl.DataFrame(wide), {0: [1], **wide}):
        assert built.lookup(table)[0] == built[DAY, "/"]
    for double in (pa.Table.from_arrays([[DAY], [DAY], ["/"]], ["day", "day", "page"]), frame[["day", "day", "page"]]):
        with pytest.raises(KeyTypeError, match="the table has several columns 'day'; rename all but one"):
            built.lookup(double)


def test_integers_of_both_ends_are_no_reason_to_refuse() -> None:
    # Whether a key is refused must not depend on another row.
    both = sparsedp.release({("a", -5): 1000, ("a", (1 << 64) - 1): 2000}, epsilon=1.0, nonzero=9)
    np.testing.assert_allclose(both.lookup([("a", -5), ("a", (1 << 64) - 1)]), [1000, 2000], atol=60)
    assert both.to_pandas([("a", -5), ("a", (1 << 64) - 1)])["key2"].tolist() == [-5, (1 << 64) - 1]
    assert both.lookup((["a"], np.array([(1 << 64) - 1], np.uint64)))[0] == both["a", (1 << 64) - 1]


def test_kinds_can_be_stated_where_there_are_no_keys() -> None:
    empty = sparsedp.release({}, epsilon=1.0, nonzero=9, key_type=["date", "boolean"])
    assert empty.key_columns == (KeyColumn("key1", "date"), KeyColumn("key2", "boolean"))
    assert empty.lookup([]).shape == (0,)
    typed = pa.table({"d": pa.array([], pa.date32()), "t": pa.array([], pa.string()), "n": pa.array([], pa.int64())})
    assert [column.kind for column in sparsedp.release(typed, epsilon=1.0, nonzero=9).key_columns] == ["date", "text"]
    with pytest.raises(KeyTypeError, match="keys must have 2 columns, got 1"):
        sparsedp.release((pa.table({"a": ["x"]}), [1]), epsilon=1.0, key_type=["text", "text"])
    with pytest.raises(ParameterError, match=r"or a list of one for each column of the key, got \['day'\]"):
        sparsedp.release({}, epsilon=1.0, key_type=["day"])


def test_a_domain_is_for_keys_of_one_column() -> None:
    with pytest.raises(KeyTypeError, match="omit domain="):
        sparsedp.release({(1, 2): 5}, epsilon=1.0, domain=10)


def test_names_of_columns_do_not_control_a_terminal() -> None:
    built = sparsedp.release(({"\x1b[2Jday\n": [DAY], "é": ["/"]}, [5]), epsilon=1.0, nonzero=9)
    assert r"keys: \x1b[2Jday\n (date), é (text)>" in repr(built)
    with pytest.raises(KeyTypeError, match=r"\(\\x1b\[2Jday\\n \(date\), é \(text\)\)"):
        built["a"]


def test_columns_are_told() -> None:
    built = sparsedp.release(({"estimate": [DAY], "page": ["/"]}, [5]), epsilon=1.0, nonzero=9)
    assert "keys: estimate (date), page (text)>" in repr(built)
    assert "estimate (date), page (text), hashed" in built._repr_html_()
    assert list(built.to_pandas([(DAY, "/")]).columns) == ["key_estimate", "page", "estimate", "low", "high"]
