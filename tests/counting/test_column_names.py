"""Names of columns: databases ignore their case, and a query has names of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import sparsedp
from sparsedp import InputError, ParameterError

pytestmark = pytest.mark.usefixtures("one_database")

ROWS = {"a": ["x", "y", "z", "w"], "A": ["1", "1", "1", "2"]}


def sources(folder: Path) -> dict[str, Any]:
    table = pa.table(ROWS)
    for name in ("t.parquet", "t.csv", "t.jsonl"):
        _write(table.to_pandas(), folder / name)
    connection = duckdb.connect()
    values = "(VALUES ('x', '1'), ('y', '1'), ('z', '1'), ('w', '2')) AS t(a, b)"
    return {
        **{name: folder / name for name in ("t.parquet", "t.csv", "t.jsonl")},
        "arrow": table,
        "pandas": table.to_pandas(),
        "polars": pl.DataFrame(ROWS),
        "lazy": pl.LazyFrame(ROWS),
        "dataset": ds.dataset(table),
        "relation": connection.sql(f"SELECT * FROM {values}").project('a, b AS "A"'),
    }


KINDS = ["t.parquet", "t.csv", "t.jsonl", "arrow", "pandas", "polars", "lazy", "dataset", "relation"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_user_column_is_not_taken_for_one_that_differs_in_case(kind: str, tmp_path: Path) -> None:
    """Catches a bound on users that bounds nothing: DuckDB reads "A" as "a" if there are both."""
    source = sources(tmp_path)[kind]
    for columns in ({"key": "a", "user": "A", "max_keys_per_user": 1}, {"key": ["a", "A"]}):
        with pytest.raises(ParameterError, match=r"columns must differ by more than case.*rename"):
            sparsedp.count(source, **columns)
    try:
        counts = sparsedp.count(source, key="A")
    except InputError as error:
        assert "rename one" in str(error) or "no column 'A'" in str(error)  # noqa: PT017
    else:  # only the column that is asked for was read
        assert sorted(counts.keys.to_pylist()) == ["1", "2"]


@pytest.mark.parametrize("names", [("id", "ID", "ID_1"), ("id", "id", "id_1"), ("id", "Id_1", "id_1")])
@pytest.mark.parametrize("kind", ["parquet", "dataset", "arrow"])
def test_a_renamed_column_is_not_taken_for_another(names: tuple[str, str, str], kind: str, tmp_path: Path) -> None:
    """Catches rows told apart by the second of two columns that the database cannot tell apart: it
    renames it to what the user column is called.
    """
    nested = [{"a": 1, "within": [{"page": 2}]}] * 9
    columns = [nested, [7] * 9, list(range(9)), ["alice"] * 9, [f"page {at}" for at in range(9)]]
    table = pa.table(columns, ["nested", *names, "page"])
    pq.write_table(table, tmp_path / "t.parquet")
    source = {"parquet": tmp_path / "t.parquet", "dataset": ds.dataset(table), "arrow": table}[kind]
    try:
        counts = sparsedp.count(source, key="page", user=names[2], max_keys_per_user=1)
    except InputError as error:
        assert re.search("cannot tell apart|no column 'id_1'|several columns 'id'", str(error))  # noqa: PT017
    else:
        assert counts.units.sum() == 1
    if not (kind == "dataset" and len(set(names)) < 3):  # Arrow itself scans no column then
        assert len(sparsedp.count(source, key="page")) == 9  # columns that nobody asks for do not matter


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_a_folder_is_not_taken_for_a_column(suffix: str, tmp_path: Path) -> None:
    """Catches the values of a folder Day=… in place of those of the column day."""
    folder = tmp_path / "Day=monday"
    folder.mkdir()
    frame = pd.DataFrame({"day": ["x", "y"]})
    path = folder / f"t{suffix}"
    _write(frame, path)
    with pytest.raises(InputError, match="rename one"):
        sparsedp.count(path, key="day", hive=True)


@pytest.mark.parametrize("name", ["line", "Line", "place", "bad0", "counts", "bad", "k0", "u", "v", "n"])
def test_no_value_is_shown_whatever_a_column_is_called(name: str) -> None:
    """Catches a column that takes the place of one of the query's own: its values would be told, or
    counted.
    """
    secret = pa.table({name: ["SECRET", "x", "y"], "user": [None, "a", "b"]})
    with pytest.raises(InputError, match=r"column 'user' is null in 1 row, first in row 1; fix them") as told:
        sparsedp.count(secret, key=name, user="user", max_keys_per_user=1)
    assert "SECRET" not in str(told.value)
    fine = pa.table({name: ["x", "y", "x"], "user": ["a", "a", "b"]})
    counts = sparsedp.count(fine, key=name, user="user", max_keys_per_user=2)
    assert dict(zip(counts.keys.to_pylist(), counts.units.tolist(), strict=True)) == {"x": 2, "y": 1}
    counts = sparsedp.count(fine, key="user", user=name, max_keys_per_user=2)
    assert dict(zip(counts.keys.to_pylist(), counts.units.tolist(), strict=True)) == {"a": 2, "b": 1}


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ""])
def test_the_user_may_be_part_of_the_key(suffix: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"user": ["1", "1", "2"], "page": ["x", "y", "x"]}, dtype="string")
    source: Any = tmp_path / f"t{suffix}" if suffix else frame
    if suffix:
        _write(frame, source)
    counts = sparsedp.count(source, key=["user", "page"], user="user", max_keys_per_user=1)
    assert len(counts) == 2


def _write(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
