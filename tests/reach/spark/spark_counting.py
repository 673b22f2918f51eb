"""Hostile tables as Spark DataFrames, and the counts that a release of them would use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from neighbouring_inputs import Kind, arrow_table
from neighbouring_tables import Events
from neighbours import Seen, check
from sparsedp import BoundedCounts, InputError
from sparsedp.counting.request import Counting
from sparsedp.counting.spark_rows import Query

# The types of keys; reading files with Spark is up to the caller, so a table has its types.
CELLS = {"string": "text", "binary": "bytes", "bigint": "wide", "int": "integer", "date": "date"}
# The same beside a second column of the key.
WITH_NOTES = ("string", "date", "bigint", "boolean")
_KEYS = {
    "string": pa.string(),
    "binary": pa.binary(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "date": pa.date32(),
    "boolean": pa.bool_(),
}


def check_one(spark: Any, name: str, seed: int, folder: Path) -> Seen:
    """The table of a seed with this kind of keys, and all pairs of its neighbours."""

    def frame(name: str) -> Any:
        def make(events: Events, _: Path) -> object:
            types = {"user": "string", "note": "string", "value": "double" if events.real else "bigint"}
            types["key"] = name.partition(" ")[0]
            schema = ", ".join(f"{column} {types[column]}" for column in events.columns)
            # Arrow reaches Spark without a Python worker, which rows would need.
            return spark.createDataFrame(arrow_table(events, _KEYS[types["key"]]), schema)

        return make

    kinds = {name: Kind(frame(name), cells, placed=False) for name, cells in CELLS.items()}
    for first in WITH_NOTES:
        own, cells = f"{first} and notes", CELLS.get(first, first)
        kinds[own] = Kind(frame(own), cells, placed=False, several_columns=True, key_type="as stored")
    return check(name, seed, folder, count, kinds=kinds)


def count(
    df: Any,
    *,
    key: str | list[str],
    user: str | None = None,
    value: str | None = None,
    max_keys_per_user: int | None = None,
    max_per_key: float = 1,
    step: float | None = None,
    signed: bool = False,
    nulls: str = "refuse",
    key_type: str | list[str] = "as stored",
    domain: int | None = None,
) -> BoundedCounts:
    """The sums of the pairs that Spark makes for a release; casting other types to text is up to
    the caller.
    """
    if key_type == "integer":
        raise InputError("keys are as they are stored")
    if key_type == "text":
        assert isinstance(key, str)
        df = df.withColumn(key, df[key].cast("string"))
    asked = Counting(key, user, value, max_keys_per_user, max_per_key, step, signed, nulls=nulls)
    query = Query.create(df, asked)
    query.refuse_bad_rows(None if key_type == "text" else domain)
    sums: dict[Any, int] = {}
    for *cells, number in query.pairs().collect():
        own = tuple(bytes(cell) if isinstance(cell, bytearray) else cell for cell in cells)
        sums[own] = sums.get(own, 0) + number
    columns = list(zip(*sums, strict=True)) or [()] * len(query.key_types)
    arrays = [pa.array(cells, _KEYS[kind]) for cells, kind in zip(columns, query.key_types, strict=True)]
    keys = arrays[0] if isinstance(key, str) else pa.table(dict(zip(key, arrays, strict=True)))
    units = np.array(list(sums.values()), np.int64)
    return BoundedCounts(keys, units, asked.unit, asked.grid, asked.contribution, signed)
