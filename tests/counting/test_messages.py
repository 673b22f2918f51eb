"""What is said of a table that cannot be read has no cell of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import sparsedp
from sparsedp import InputError

SECRET = "secret-cell"
# Expressions over a column of text, and cells of which the last one, a secret, makes them fail.
EXPRESSIONS = [
    ("strptime(k, '%Y-%m-%d')", "('2024-01-01'), ('secret-cell')"),
    ("json_extract_string(k, '$.a')", "('{}'), ('secret-cell{')"),
    ("CAST(k AS INTEGER) * CAST(k AS INTEGER)", "('1'), ('2000000011')"),
    ("from_base64(k)", "('QUJD'), ('secret-cell!')"),
    ("date_trunc(k, DATE '2024-01-01')", "('year'), ('secret-cell')"),
    ("CAST(k AS INTEGER)", "('1'), ('secret-cell')"),
    ("CAST(error(k) AS VARCHAR)", "('secret-cell'), ('secret-cell')"),
]


def refused(source: Any) -> str:
    with pytest.raises(InputError) as caught:
        sparsedp.count(source, key="k")
    return str(caught.value)


@pytest.mark.parametrize(("expression", "cells"), EXPRESSIONS)
def test_errors_of_a_relation_show_no_cell(expression: str, cells: str) -> None:
    message = refused(duckdb.sql(f"SELECT {expression} AS k FROM (VALUES {cells}) t(k)"))
    assert "secret" not in message
    assert "2000000011" not in message
    assert "with cells of the data" in message or "cannot be converted" in message


@pytest.mark.parametrize(
    "query",
    [
        lambda frame: frame.with_columns(pl.col("k").map_elements(lambda own: {"5": 5}[own], return_dtype=pl.Int64)),
        lambda frame: frame.map_batches(lambda batch: {}[batch["k"][1]]),
        lambda frame: frame.with_columns(pl.col("k").cast(pl.Int64)),
    ],
)
def test_errors_of_a_lazy_frame_show_no_cell(query: Any) -> None:
    assert SECRET not in refused(query(pl.LazyFrame({"k": ["5", SECRET]})))


def test_errors_of_a_dataset_show_no_cell(tmp_path: Path) -> None:
    for name, content in (("a", "u,k\n1,a\n"), ("b", f"u,k\n2,b,{SECRET}\n")):
        (tmp_path / f"{name}.csv").write_text(content, encoding="ascii")
    message = refused(ds.dataset(tmp_path, format="csv"))
    assert message == "the FileSystemDataset cannot be read; to_table() shows why, with cells of the data"


@pytest.mark.parametrize("order", ["ASC", "DESC"])
@pytest.mark.parametrize("nulls", ["NULLS FIRST", "NULLS LAST"])
def test_a_bad_row_is_found_whatever_the_order_of_a_connection_is(order: str, nulls: str) -> None:
    """Catches an order that is not stated: the bound on keys would hide the pair of the bad row."""
    with duckdb.connect() as con:
        con.execute(f"SET default_order = '{order}'; SET default_null_order = '{nulls.replace(' ', '_')}'")
        con.execute("CREATE TABLE t AS SELECT 1 AS u, 'k' || i AS k, if(i = 7, -1, 1) AS v FROM range(50) r(i)")
        with pytest.raises(InputError, match=r"column 'v' is negative .* in 1 row, first in row 8"):
            sparsedp.count(con.table("t"), key="k", user="u", value="v", max_keys_per_user=1)
        kept = sparsedp.count(con.table("t"), key="k", user="u", max_keys_per_user=1).keys.to_pylist()
    assert (
        kept
        == sparsedp.count(
            pa.table({"u": [1] * 50, "k": [f"k{at}" for at in range(50)]}), key="k", user="u", max_keys_per_user=1
        ).keys.to_pylist()
    )


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("name", ["b=c", "%FF", r"\N"])
def test_folders_that_readers_take_in_different_ways_are_refused(ending: str, name: str, tmp_path: Path) -> None:
    """Catches two folders that become one key, and a key that only some kinds of files have."""
    for value in ("a", name):
        folder = tmp_path / f"k={value}"
        folder.mkdir()
        if ending == "parquet":
            pq.write_table(pa.table({"u": ["1"]}), folder / "t.parquet")
        else:
            (folder / f"t.{ending}").write_text("u\n1\n" if ending == "csv" else '{"u": "1"}\n', encoding="ascii")
    with pytest.raises(InputError, match="names of folders must be one name=value"):
        sparsedp.count(str(tmp_path / "*" / f"*.{ending}"), key="k", hive=True)
