"""Columns of Arrow are counted by their values, whatever their encoding, and never misread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import sparsedp
from sparsedp import InputError

TEXTS = [pa.string(), pa.large_string(), pa.string_view()]


def text(cells: list[bytes], kind: Any = None) -> Any:
    """Bytes that claim to be text."""
    kind = kind or pa.string()
    stored = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}[kind]
    return pa.Array.from_buffers(kind, len(cells), pa.array(cells, stored).buffers())


def dictionary(column: Any) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(range(len(column)), pa.int32()), column)


def runs(column: Any) -> Any:
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(column) + 1), pa.int32()), column)


def read_back(table: Any, folder: Path) -> Any:
    pq.write_table(table, folder / "t.parquet")
    return pq.read_table(folder / "t.parquet")


SOURCES: dict[str, Callable[[Any, Path], Any]] = {
    "table": lambda table, _: table,
    "chunks": lambda table, _: pa.concat_tables([table.slice(at, 1) for at in range(len(table))]),
    "reader": lambda table, _: table.to_reader(),
    "dataset": lambda table, _: ds.dataset(table),
    "scanner": lambda table, _: ds.dataset(table).scanner(),
    "pandas": lambda table, _: table.to_pandas(types_mapper=pd.ArrowDtype),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", TEXTS, ids=str)
@pytest.mark.parametrize("column", ["u", "k"])
@pytest.mark.parametrize("encoded", [lambda column: column, dictionary], ids=["plain", "dictionary"])
def test_text_that_is_not_utf_8_is_refused(
    source: str, kind: Any, column: str, encoded: Callable[[Any], Any], tmp_path: Path
) -> None:
    """Catches keys that are cut at bytes that text cannot have, and users that are taken for one."""
    if source == "pandas" and kind == pa.string_view():
        pytest.skip("pandas has no such columns")
    cells = {"u": [b"a", b"b", b"v"], "k": [b"p", b"q", b"key"]}
    wrong = {**cells, column: [b"a", b"\xff\xfe\xff", b"\xff"]}
    for given, is_wrong in ((cells, False), (wrong, True)):
        table = pa.table({name: encoded(text(own, kind)) for name, own in given.items()})
        read = SOURCES[source](table, tmp_path)
        if is_wrong:
            with pytest.raises(
                InputError, match=rf"column '{column}' has text that is not valid UTF-8, first in row 2;"
            ):
                sparsedp.count(read, key="k", user="u", max_keys_per_user=1)
        else:
            counts = sparsedp.count(read, key="k", user="u", max_keys_per_user=1)
            assert sorted(counts.keys.to_pylist()) == ["key", "p", "q"]


def test_the_row_of_text_that_is_wrong_is_counted_through_all_batches() -> None:
    table = pa.table({"k": pa.chunked_array([text([b"a"] * 1000), text([b"a"] * 777 + [b"\xc3"] + [b"b"] * 9)])})
    for source in (table, ds.dataset(table)):
        with pytest.raises(InputError, match="first in row 1778;"):
            sparsedp.count(source, key="k")


def test_what_is_wrong_in_a_dictionary_matters_only_where_a_row_has_it() -> None:
    values = text([b"a", b"\xff", b"c"])
    for codes in ([0, 2, None], [0, 1, 2]):
        column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), values)
        if 1 in codes:
            with pytest.raises(InputError, match="first in row 2;"):
                sparsedp.count(pa.table({"k": column}), key="k")
        else:
            counts = sparsedp.count(pa.table({"k": column}), key="k", nulls="drop")
            assert sorted(counts.keys.to_pylist()) == ["a", "c"]
    far = pa.DictionaryArray.from_arrays(pa.array([0, 9], pa.int32()), pa.array(["a"]), safe=False)
    with pytest.raises(InputError, match="codes that its dictionary does not have"):
        sparsedp.count(pa.table({"k": far}), key="k")


@pytest.mark.parametrize(
    "encoded", [lambda column: runs(dictionary(column)), lambda column: dictionary(dictionary(column))]
)
@pytest.mark.parametrize("kind", TEXTS, ids=str)
@pytest.mark.parametrize("streamed", [False, True])
def test_encodings_inside_of_each_other_are_read_by_their_values(
    encoded: Callable[[Any], Any], streamed: bool, kind: Any
) -> None:
    """Catches the codes of a dictionary taken for values: another user's rows would change them."""

    def counted(users: list[str], keys: list[str]) -> dict[str, int]:
        table = pa.table({"u": encoded(pa.array(users, kind)), "k": encoded(pa.array(keys, kind))}).slice(1)
        counts = sparsedp.count(ds.dataset(table) if streamed else table, key="k", user="u", max_keys_per_user=1)
        return dict(zip(counts.keys.to_pylist(), counts.units.tolist(), strict=True))

    users, keys = ["u0", "u1", "u2", "u3"], ["a", "b", "a", "a"]
    assert counted(["cut off", *users], ["no", *keys]) == {"a": 3, "b": 1}
    assert counted(["cut off", "x", *users], ["no", "zz", *keys]) == {"a": 3, "b": 1, "zz": 1}


class Period(pa.ExtensionType):  # type: ignore[misc]
    """An extension type that DuckDB does not know."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests-period")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


def test_an_extension_type_is_refused_in_every_encoding() -> None:
    periods = pa.ExtensionArray.from_storage(Period(), pa.array([5, 6]))
    for column in (periods, runs(periods)):
        with pytest.raises(InputError, match="has the extension type tests-period, which cannot be counted"):
            sparsedp.count(pa.table({"k": column}), key="k")


@pytest.mark.parametrize("kind", [pa.float16(), pa.decimal256(40)], ids=str)
def test_types_that_duckdb_does_not_have_are_named(kind: Any) -> None:
    with pytest.raises(InputError, match=r"column 'k' has (halffloat|decimal256.*) values, which DuckDB does not have"):
        sparsedp.count(pa.table({"k": pa.array([1], kind)}), key="k")


def test_a_type_of_polars_that_arrow_does_not_have_is_refused() -> None:
    frame = pl.DataFrame({"k": pl.Series([1], dtype=pl.Int128)})
    for source in (frame, frame.lazy()):
        with pytest.raises(InputError):
            sparsedp.count(source, key="k")


@pytest.mark.parametrize("encoded", [dictionary, runs])
def test_times_out_of_range_are_named_by_their_row(encoded: Callable[[Any], Any]) -> None:
    far = pa.array([0, 2**62], pa.int64()).view(pa.timestamp("s", "UTC"))
    with pytest.raises(InputError, match="column 'k' is infinite or out of range, first in row 2;"):
        sparsedp.count(pa.table({"k": encoded(far)}), key="k")
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), far)
    assert sparsedp.count(pa.table({"k": unused}), key="k").units.tolist() == [2]
