"""Keys of several columns have the same ids from every form, and columns that other forms find."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sparsedp
from composite_keys import DAY, TIME
from sparsedp import KeyTypeError

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
