"""Keys of several columns: an injective encoding, pinned by vectors, and what files say."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparsedp
from composite_keys import DAY, OTHER, UTC_TIME
from sparsedp import KeyTypeError, ParameterError
from sparsedp.keys.composite import EncodedKeys, KeyTable
from sparsedp.keys.encoding import canonical, canonical_row, original_row
from sparsedp.keys.hashing import HASHED_DOMAIN, KeySpace
from sparsedp.keys.kinds import ColumnKind, KeyColumn

SEED = (0x0706050403020100, 0x0F0E0D0C0B0A0908)


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
