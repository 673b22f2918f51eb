"""Labels, columns and entries of any name are data, never mistaken for attributes of an object."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sparsedp
from sparsedp.keys.hashing import HASHED_DOMAIN, KeySpace
from sparsedp.keys.rows import rereadable_keys
from sparsedp.releasing.inputs import key_ids, read_pairs

HASHED = KeySpace(HASHED_DOMAIN, (1, 2))
NAMES = [
    *("columns", "tocoo", "keys", "values", "items", "index", "iloc", "dtype", "kind", "isna", "to_numpy", "array"),
    *("to_arrow", "to_table", "to_reader", "collect", "collect_schema", "schema", "scanner", "validate", "type"),
    *(
        "__arrow_c_stream__",
        "__arrow_c_array__",
        "__arrow_array__",
        "__array__",
        "__array_interface__",
        "__dataframe__",
    ),
    *("__len__", "__iter__", "__class__", "__fspath__", "shape", "ndim", "coords", "data", "row", "num_rows"),
]
COUNTS = {name: at + 1 for at, name in enumerate(NAMES)}
EXPECTED = {HASHED.id(name): count for name, count in COUNTS.items()}
DTYPES: list[Any] = ["int64", "Int64", "float64", "object", "category", pd.ArrowDtype(pa.int64())]
TEXTS: list[Any] = ["object", "string", "category", pd.ArrowDtype(pa.string()), None]


def read(counts: object, kept: bool = False) -> dict[int, int]:
    pairs = read_pairs(counts, signed=False, step=None)
    ids, _ = key_ids(replace(pairs, keys=rereadable_keys(pairs.keys)) if kept else pairs, HASHED)
    return dict(zip(ids.tolist(), pairs.values.tolist(), strict=True))


class Attributes(dict[str, Any]):
    """A dictionary whose entries are attributes too, as in some libraries."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_series_may_have_any_labels(dtype: Any, kept: bool) -> None:
    if dtype == "category":
        counts = pd.Series(list(COUNTS.values()), index=NAMES).astype("category").astype("Int64")
    else:
        counts = pd.Series(list(COUNTS.values()), index=NAMES, dtype=dtype)
    assert read(counts, kept) == EXPECTED
    assert read(counts.astype("int64").convert_dtypes(), kept) == EXPECTED


@pytest.mark.parametrize("name", NAMES)
def test_a_series_may_have_any_one_label(name: str) -> None:
    assert read(pd.Series([7], index=[name])) == {HASHED.id(name): 7}


@pytest.mark.parametrize("name", NAMES)
def test_a_table_may_have_columns_of_any_name(name: str) -> None:
    table = pd.DataFrame({name: ["a", "b"], "x": [3, 4]})
    for counts in (table, table.convert_dtypes(), pa.Table.from_pandas(table), pl.from_pandas(table)):
        assert read(counts) == {HASHED.id("a"): 3, HASHED.id("b"): 4}
    counted = sparsedp.count(table, key=name, value="x", max_per_key=9)
    assert dict(zip(counted.keys.to_pylist(), counted.units.tolist(), strict=True)) == {"a": 3, "b": 4}


def test_a_dictionary_may_have_any_entries() -> None:
    assert read(Attributes(COUNTS)) == EXPECTED
    assert HASHED.ids(Attributes(COUNTS)).tolist() == list(EXPECTED)


@pytest.mark.parametrize("dtype", TEXTS, ids=str)
def test_keys_to_look_up_may_have_any_labels(dtype: Any) -> None:
    release = sparsedp.release(COUNTS, epsilon=1.0, nonzero=len(COUNTS))
    keys = pd.Series(NAMES[::-1], index=NAMES, dtype=dtype)
    assert release.lookup(keys).tolist() == release.lookup(NAMES[::-1]).tolist()
    assert sparsedp.release((keys, range(len(NAMES))), epsilon=1.0, delta=1e-6, keep_keys=True).mechanism == "retrieval"


@pytest.mark.parametrize("dtype", ["int64", "Int64", pd.ArrowDtype(pa.uint8()), "category"], ids=str)
def test_integers_to_look_up_may_have_any_labels(dtype: Any) -> None:
    numbers = list(range(len(NAMES)))
    assert HASHED.ids(pd.Series(numbers, index=NAMES, dtype=dtype)).tolist() == HASHED.ids(numbers).tolist()


def test_values_may_have_any_labels() -> None:
    values = pd.Series(list(COUNTS.values()), index=NAMES[::-1])
    assert read((NAMES, values)) == EXPECTED
    assert read((NAMES, values.astype("Int64"))) == EXPECTED


TABLES: dict[str, Any] = {
    "pandas": pd.DataFrame({"key": ["a"]}),
    "polars": pl.DataFrame({"key": ["a"]}),
    "lazy": pl.LazyFrame({"key": ["a"]}),
    "arrow": pa.table({"key": ["a"]}),
    "batch": pa.record_batch({"key": ["a"]}),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_no_column_of_keys(table: str) -> None:
    release = sparsedp.release({"a": 5}, epsilon=1.0, nonzero=3)
    for ask in (release.lookup, release.interval, release.sum):
        with pytest.raises(sparsedp.KeyTypeError, match=r"one column, got a table \(\w+\); pass one of its columns"):
            ask(TABLES[table])
    with pytest.raises(sparsedp.InputError, match="values must be one column, got a table"):
        sparsedp.release((["a"], TABLES[table]), epsilon=1)


def test_no_library_is_imported_to_ask_what_an_object_is() -> None:
    program = (
        "import sys, numpy, sparsedp\n"
        "release = sparsedp.release((numpy.arange(5), numpy.ones(5, int)), epsilon=1)\n"
        "release.lookup({1, 2}), release.lookup(iter([1]))\n"
        "print(*sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert set(output.split()) & {"pandas", "polars", "pyarrow", "scipy", "duckdb", "pyspark"} == set()


def test_a_subclass_is_what_its_base_is() -> None:
    class Column(pd.Series):  # type: ignore[misc]  # pandas has no types
        pass

    assert HASHED.ids(Column(["a"])).tolist() == [HASHED.id("a")]
    assert read(Column([1], index=["tocoo"])) == {HASHED.id("tocoo"): 1}
    assert np.asarray(Column(["a"])).tolist() == ["a"]
