"""Releases of `sparsedp.spark` without Spark: what it sends to executors runs in this process, after
the same way through cloudpickle. Counting is DuckDB's; a real Spark counts in `tests/reach/spark/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from sparsedp import BoundedCounts
from sparsedp.counting import spark_rows
from sparsedp.keys.hashing import KeySpace, Partition
from sparsedp.reach.spark import building

TYPES = {"large_string": "string", "string": "string", "int64": "bigint", "double": "double", "int32": "int"}
TYPES |= {"date32[day]": "date", "binary": "binary", "bool": "boolean", "timestamp[us]": "timestamp_ntz"}
TYPES |= {"timestamp[us, tz=UTC]": "timestamp"}
BATCH = 700  # rows, so that there are several


def sent(work: Any) -> Any:
    """What arrives at an executor."""
    return cloudpickle.loads(cloudpickle.dumps(work))


@dataclass
class Frame:
    """As much of a DataFrame as a release asks before it reads rows."""

    table: pa.Table
    counts: BoundedCounts
    sparkSession: object = None  # noqa: N815  # Spark's name

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        return [(field.name, TYPES[str(field.type)]) for field in self.table.schema]


class Row(dict[str, Any]):
    """A row of a result."""

    asDict = dict.copy  # noqa: N815  # Spark's name


@dataclass
class Shares:
    """The rows of each part, in the order of parts."""

    parts: list[pa.Table]
    work: Any = None

    def sortWithinPartitions(self, name: str) -> Shares:  # noqa: N802  # Spark's name
        return self

    def mapInArrow(self, work: Any, schema: str) -> Shares:  # noqa: N802
        return Shares(self.parts, work)

    def collect(self) -> list[Row]:
        return [
            Row(row)
            for part in self.parts
            for batch in sent(self.work)(iter(part.to_batches(max_chunksize=BATCH)))
            for row in batch.to_pylist()
        ]


@contextmanager
def rows_by_part(
    query: Any, space: KeySpace, partition: Partition, kept: bool, named: bool = False, tasks: int | None = None
) -> Iterator[Shares]:
    """What `spark_rows.rows_by_part` gives, of the counts of DuckDB."""
    counts = query.df.counts
    columns = counts.keys.columns if isinstance(counts.keys, pa.Table) else [counts.keys]
    pairs = pa.table([*columns, pa.array(counts.units)], [*query.own_names, "n"])
    own = spark_rows._by_key if named else spark_rows._fingerprints
    placed = sent(lambda batches: own(batches, space, partition, True))
    rows = pa.Table.from_batches([*placed(iter(pairs.to_batches(max_chunksize=BATCH)))])
    marks = pa.table({"part": pa.array(range(partition.parts), pa.int32())})
    every = pa.concat_tables([marks, rows], promote_options="default")
    yield Shares([every.filter(pa.compute.equal(every["part"], part)) for part in range(partition.parts)])


def install(patch: pytest.MonkeyPatch) -> None:
    """Replace Spark."""
    patch.setattr(building, "rows_by_part", rows_by_part)
    patch.setattr(building, "check_executors", lambda session: None)
    patch.setattr(spark_rows.Query, "refuse_bad_rows", lambda self, domain, named: None)
