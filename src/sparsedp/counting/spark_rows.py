"""From rows of a DataFrame to (part, id, contribution): bounded by user, fingerprinted, grouped by
part.

If keys will be named, rows have the key itself in place of its id, and contributions are summed by
key: keys that share a fingerprint stay apart (docs/privacy.md, "Kept keys").
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _native
from ..errors import InputError, MissingDependencyError, ParameterError
from ..keys.arrow import key_ids
from ..keys.hashing import KeyKind, KeySpace, Partition
from ..privacy.randomness import Words
from ..structures.table import LARGEST_COUNT, Counts
from .canonical import SPARK_INTEGERS, SPARK_USERS, spark_order_of
from .request import Counting
from .scans import check_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

INTEGER_TYPES = SPARK_INTEGERS
KIND_OF_TYPE: dict[str, KeyKind] = {"string": "text", "binary": "bytes", **dict.fromkeys(INTEGER_TYPES, "integer")}
_COMBINED_ROWS = 1 << 20
_COMBINED_BYTES = 1 << 26  # of keys that will be named, which may be long


@dataclass(frozen=True)
class Query:
    """The rows of a DataFrame that count, with each user's contribution bounded."""

    df: DataFrame
    asked: Counting

    @classmethod
    def create(cls, df: DataFrame, counting: Counting) -> Query:
        """The query, with its columns checked; no row is read."""
        try:
            import pyspark  # noqa: F401
        except ImportError:
            raise MissingDependencyError("Spark releases need pyspark: pip install 'sparsedp[spark]'") from None
        query = cls(df, counting)
        key, user, value = counting.key, counting.user, counting.value
        types = dict(df.dtypes)
        check_columns(types, counting.columns)
        if query.key_type not in KIND_OF_TYPE:
            raise InputError(
                f"column {key!r} has {query.key_type} values, and keys must be text, bytes or 64-bit integers; "
                f"cast it, for example with df.withColumn({key!r}, df[{key!r}].cast('string'))"
            )
        # The type of a column with a collation has another name: values that it treats as equal
        # differ in bytes.
        if user is not None and types[user] not in SPARK_USERS:
            raise InputError(
                f"column {user!r} has {types[user]} values, and users must be text, bytes, integers, dates or truth "
                f"values; cast it, for example with df.withColumn({user!r}, df[{user!r}].cast('string'))"
            )
        if value is not None:
            kind = types[value]
            if counting.grid is None and kind not in INTEGER_TYPES:
                raise InputError(f"column {value!r} has {kind} values; pass step=, the grid of the sums, or cast it")
            if kind not in (*INTEGER_TYPES, "float", "double") and not kind.startswith("decimal"):
                raise InputError(f"column {value!r} has {kind} values, and values to sum must be numbers; cast it")
        if counting.most_units > LARGEST_COUNT:
            raise ParameterError(f"max_per_key must be below 2^61 units of step/2^20, got {counting.max_per_key}")
        return query

    @property
    def key_type(self) -> str:
        """Spark's name for the type of the keys."""
        return str(dict(self.df.dtypes)[self.asked.key])

    def column(self, name: str) -> Column:
        """A column by its name, whatever characters the name has."""
        from pyspark.sql import functions

        return functions.col("`" + name.replace("`", "``") + "`")

    def wrong_rows(self, domain: int | None = None, named: bool = False) -> dict[str, Column]:
        """What may be wrong with a row, and the expression that detects it."""
        from pyspark.sql import functions

        nullable = {field.name for field in self.df.schema.fields if field.nullable}
        faults = {}
        for name in self.asked.columns:
            if name in nullable and not self.asked.drop:
                faults[f"column {name!r} is null"] = self.column(name).isNull()
        if domain is not None:
            number = self.column(self.asked.key)
            outside = number < 0 if domain >> 63 else (number < 0) | (number >= domain)
            faults[f"column {self.asked.key!r} is not in [0, {domain})"] = outside
        if named and self.key_type == "string":  # a string of Spark may hold any bytes
            faults[f"column {self.asked.key!r} is not valid Unicode"] = _broken_text(self.column(self.asked.key))
        if self.asked.value is not None:
            value = self.column(self.asked.value).cast("double")
            if self.asked.grid is not None:
                infinite = value.isin(float("inf"), float("-inf"))
                faults[f"column {self.asked.value!r} is not finite"] = value.isNotNull() & (
                    functions.isnan(value) | infinite
                )
            if not self.asked.signed:
                faults[f"column {self.asked.value!r} is negative (pass signed=True to allow it)"] = value < 0
        return faults

    def refuse_bad_rows(self, domain: int | None = None, named: bool = False) -> None:
        """`InputError` with the number of bad rows, if there are any. This takes one scan, or none
        if no row can be.
        """
        from pyspark.sql import functions

        faults = self.wrong_rows(domain, named)
        if not faults:
            return
        counts = [functions.count(functions.when(fault, 1)).alias(f"n{at}") for at, fault in enumerate(faults.values())]
        (row,) = self.df.agg(*counts).collect()
        found = [
            f"{text} in {number} row{'s' if number > 1 else ''}"
            for text, number in zip(faults, row, strict=True)
            if number
        ]
        if found:
            fix = "fix them or pass nulls='drop'" if any(" is null" in text for text in found) else "fix the table"
            raise InputError(f"{'; '.join(found)}; {fix}")

    def pairs(self) -> DataFrame:
        """Keys and bounded contributions (k, n): one shuffle by user."""
        from pyspark.sql import functions

        if self.asked.user is not None:
            return self.ranked().where(functions.col("rank") <= self.asked.contribution.keys).select("k", "n")
        own = functions.lit(1).cast("bigint") if self.asked.value is None else self._bounded(functions.col("v"))
        return self._rows().select("k", own.alias("n"))

    def _rows(self) -> DataFrame:
        """The rows that count: k, u and v."""
        columns = [self.column(self.asked.key).alias("k")]
        if self.asked.user is not None:
            columns.append(self.column(self.asked.user).alias("u"))
        if self.asked.value is not None:
            columns.append(self._units.alias("v"))
        rows = self.df.select(*columns)
        return rows.dropna() if self.asked.drop else rows

    def ranked(self) -> DataFrame:
        """The keys of each user (u, k, n), in the order in which they are kept (rank)."""
        from pyspark.sql import Window, functions

        assert self.asked.user is not None
        own = functions.count(functions.lit(1)) if self.asked.value is None else functions.sum("v")
        # One shuffle serves both: rows partitioned by user are also partitioned by user and key.
        each = self._rows().repartition("u").groupBy("u", "k").agg(self._bounded(own).alias("n"))
        # The key decides between equal hashes: anything else could depend on other users' rows.
        kinds = dict(self.df.dtypes)
        hashed = spark_order_of(functions.col("u"), kinds[self.asked.user], functions.col("k"), kinds[self.asked.key])
        order = Window.partitionBy("u").orderBy(hashed, "k")
        return each.withColumn("rank", functions.row_number().over(order))

    @property
    def _units(self) -> Column:
        """A value in whole units. A sum of floats would depend on the order, and so on other rows;
        integers do not.
        """
        from pyspark.sql import functions

        assert self.asked.value is not None
        value = self.column(self.asked.value)
        if self.asked.grid is not None:
            low, high = (functions.lit(sign * float(LARGEST_COUNT)) for sign in (-1, 1))
            scaled = value.cast("double") * float(1 / self.asked.unit)
            value = functions.floor(functions.least(functions.greatest(scaled, low), high))
        return value.cast("decimal(38,0)")  # a sum of bigints could overflow

    def _bounded(self, total: Column) -> Column:
        """A total cut to what a user may contribute to a key, in units."""
        from pyspark.sql import functions

        most = self.asked.most_units
        least = -most if self.asked.signed else 0
        low, high = (functions.lit(limit).cast("decimal(38,0)") for limit in (least, most))
        return functions.least(functions.greatest(total.cast("decimal(38,0)"), low), high).cast("bigint")


def _broken_text(text: Column) -> Column:
    """Whether a string is not UTF-8."""
    from pyspark.sql import functions

    if hasattr(functions, "is_valid_utf8"):
        return ~functions.is_valid_utf8(text)
    # Before Spark 4, encoding goes through Java's strings, which replace what is not UTF-8.
    return functions.encode(text, "UTF-8") != text.cast("binary")


@contextmanager
def rows_by_part(
    query: Query, space: KeySpace, partition: Partition, kept: bool, named: bool = False
) -> Iterator[DataFrame]:
    """Rows (part, id, n), or (part, key, n) if keys will be named, grouped by part; cached in the
    cluster if they are needed twice.
    """
    from pyspark.sql import functions

    # Partial sums must not be cut, or the cut would depend on which rows came together.
    combines = not query.asked.signed or query.asked.most_units <= LARGEST_COUNT // _COMBINED_ROWS

    def placed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (_by_key if named else _fingerprints)(batches, space, partition, combines)

    what, kind = ("key", query.key_type) if named else ("id", "bigint")
    rows = query.pairs().mapInArrow(placed, f"part int, {what} {kind}, n bigint")
    # Every part has at least one row, so that it is built even if it has no keys.
    session = query.df.sparkSession
    none = functions.lit(None)
    every = session.range(partition.parts).select(
        functions.col("id").cast("int").alias("part"), none.cast(kind).alias(what), none.cast("bigint").alias("n")
    )
    shares = rows.unionByName(every).repartition(partition.parts, "part")
    if not kept:
        yield shares
        return
    shares = shares.persist()
    try:
        yield shares
    finally:
        shares.unpersist()


def _fingerprints(
    batches: Iterator[pa.RecordBatch], space: KeySpace, partition: Partition, combines: bool
) -> Iterator[pa.RecordBatch]:
    """Turn keys into ids and sum their contributions by chunk, so that frequent keys take little of
    the shuffle.
    """
    import pyarrow as pa

    chunks: list[tuple[Words, Any]] = []
    rows = 0

    def combined() -> pa.RecordBatch:
        ids = np.concatenate([chunk[0] for chunk in chunks])
        numbers = np.concatenate([chunk[1] for chunk in chunks])
        if combines:
            ids, numbers = _native.sort_pairs(ids, numbers)
            left = _native.sum_runs(ids, numbers, LARGEST_COUNT)
            ids, numbers = ids[:left], numbers[:left]
        part = partition.part_of(ids).astype(np.int32)
        return pa.RecordBatch.from_arrays(
            [pa.array(part), pa.array(ids.view(np.int64)), pa.array(numbers)], ["part", "id", "n"]
        )

    for batch in batches:
        if not batch.num_rows:
            continue
        numbers = np.ascontiguousarray(batch.column(1).to_numpy(zero_copy_only=False), np.int64)
        chunks.append((key_ids(space, batch.column(0)), numbers))
        rows += batch.num_rows
        if rows >= _COMBINED_ROWS:
            yield combined()
            chunks, rows = [], 0
    if chunks:
        yield combined()


def _by_key(
    batches: Iterator[pa.RecordBatch], space: KeySpace, partition: Partition, combines: bool
) -> Iterator[pa.RecordBatch]:
    """Give keys their part and sum their contributions by chunk, each key on its own."""
    import pyarrow as pa

    for chunk in _chunks(batches):
        keys, numbers = pa.chunked_array([one.column(0) for one in chunk]), _numbers(chunk)
        if combines:
            keys, numbers = sum_by_key(keys, numbers)
        part = partition.part_of(key_ids(space, keys)).astype(np.int32)
        table = pa.table({"part": part, "key": keys, "n": numbers})
        yield from table.to_batches()


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches with rows, as many together as may be summed at once."""
    chunk: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        chunk.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _COMBINED_ROWS or size >= _COMBINED_BYTES:
            yield chunk
            chunk, rows, size = [], 0, 0
    if chunk:
        yield chunk


def _numbers(batches: list[pa.RecordBatch]) -> Counts:
    numbers: Counts = np.concatenate([one.column(1).to_numpy(zero_copy_only=False) for one in batches])
    return np.ascontiguousarray(numbers, np.int64)


def sum_by_key(keys: Any, numbers: Counts) -> tuple[Any, Counts]:
    """The distinct keys of an Arrow column, and the sum of each, exact and then cut to ±2^61.

    Keys are compared themselves, not by their fingerprints.
    """
    if not len(keys):
        return keys, numbers
    coded = keys.dictionary_encode().chunks
    codes = np.concatenate([one.indices.to_numpy() for one in coded]).astype(np.uint64)
    codes, numbers = _native.sort_pairs(codes, numbers)
    left = _native.sum_runs(codes, numbers, LARGEST_COUNT)
    return coded[-1].dictionary, numbers[:left]  # every code occurs, so the sums are in their order
