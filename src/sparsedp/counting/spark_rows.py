"""From rows of a DataFrame to (part, id, contribution): bounded by user, fingerprinted, grouped by
part.

If keys will be named, rows have the key itself in place of its id, and contributions are summed by
key: keys that share a fingerprint stay apart (docs/privacy.md, "Kept keys").
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _native
from ..errors import InputError, MissingDependencyError
from ..keys.arrow import key_ids
from ..keys.composite import EncodedKeys, KeyTable
from ..keys.hashing import KeySpace, Partition
from ..keys.kinds import ColumnKind, KeyColumn, is_simple
from ..privacy.randomness import Words
from ..structures.table import LARGEST_COUNT, Counts
from .canonical import SPARK_INTEGERS, SPARK_TIMES, SPARK_USERS, spark_digest_of, spark_order_of
from .request import Counting
from .scans import check_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

INTEGER_TYPES = SPARK_INTEGERS
KIND_OF_TYPE: dict[str, ColumnKind] = {
    "string": "text",
    "binary": "bytes",
    "boolean": "boolean",
    "date": "date",
    **SPARK_TIMES,
    **dict.fromkeys(INTEGER_TYPES, "integer"),
}
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
        user, value = counting.user, counting.value
        types = dict(df.dtypes)
        check_columns(types, counting.columns)
        for key in counting.keys:
            kind = KIND_OF_TYPE.get(types[key])
            if kind is None or (kind == "boolean" and len(counting.keys) == 1):
                raise InputError(
                    f"column {key!r} has {types[key]} values, and keys must be text, bytes, 64-bit integers, dates or "
                    "timestamps, or truth values beside other columns; cast it, for example with "
                    f"df.withColumn({key!r}, df[{key!r}].cast('string'))"
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
        return query

    @property
    def key_types(self) -> list[str]:
        """Spark's names for the types of the columns of the key."""
        types = dict(self.df.dtypes)
        return [str(types[name]) for name in self.asked.keys]

    @property
    def key_columns(self) -> tuple[KeyColumn, ...]:
        """The columns of the key."""
        kinds = [KIND_OF_TYPE[own] for own in self.key_types]
        return tuple(KeyColumn(name, kind) for name, kind in zip(self.asked.keys, kinds, strict=True))

    def described(self, space: KeySpace) -> KeySpace:
        """A key space with the kind or the columns of these keys."""
        columns = self.key_columns
        kind = columns[0].kind
        return replace(space, kind=kind) if len(columns) == 1 and is_simple(kind) else replace(space, columns=columns)

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
            (key,) = self.asked.keys
            number = self.column(key)
            outside = number < 0 if domain >> 63 else (number < 0) | (number >= domain)
            faults[f"column {key!r} is not in [0, {domain})"] = outside
        for key, kind in zip(self.asked.keys, self.key_types, strict=True):
            if named and kind == "string":  # a string of Spark may hold any bytes
                faults[f"column {key!r} is not valid Unicode"] = _broken_text(self.column(key))
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

    def refuse_bad_rows(self, domain: int | None = None, named: bool = False) -> int | None:
        """`InputError` with the number of bad rows, if there are any; else the number of rows. This
        takes one scan, or none if no row can be bad, and then nothing is known (None).
        """
        from pyspark.sql import functions

        faults = self.wrong_rows(domain, named)
        if not faults:
            return None
        counts = [functions.count(functions.when(fault, 1)).alias(f"n{at}") for at, fault in enumerate(faults.values())]
        (row,) = self.df.agg(functions.count(functions.lit(1)).alias("rows"), *counts).collect()
        rows, *numbers = row
        found = [
            f"{text} in {number} row{'s' if number > 1 else ''}"
            for text, number in zip(faults, numbers, strict=True)
            if number
        ]
        if found:
            fix = "fix them or pass nulls='drop'" if any(" is null" in text for text in found) else "fix the table"
            raise InputError(f"{'; '.join(found)}; {fix}")
        return int(rows)

    def pairs(self) -> DataFrame:
        """The columns of keys and bounded contributions (k0, k1, …, n): one shuffle by user."""
        from pyspark.sql import functions

        if self.asked.user is not None:
            few = self.ranked().where(functions.col("rank") <= self.asked.contribution.keys)
            return few.select(*self.own_names, "n")
        own = functions.lit(1).cast("bigint") if self.asked.value is None else self._bounded(functions.col("v"))
        return self._rows().select(*self.own_names, own.alias("n"))

    @property
    def own_names(self) -> list[str]:
        """Names for the columns of the key that no column of the table can have an influence on."""
        return [f"k{at}" for at in range(len(self.asked.keys))]

    def _rows(self) -> DataFrame:
        """The rows that count: the columns of the key, u and v."""
        columns = [self.column(name).alias(own) for name, own in zip(self.asked.keys, self.own_names, strict=True)]
        if self.asked.user is not None:
            columns.append(self.column(self.asked.user).alias("u"))
        if self.asked.value is not None:
            columns.append(self._units.alias("v"))
        rows = self.df.select(*columns)
        return rows.dropna() if self.asked.drop else rows

    def ranked(self) -> DataFrame:
        """The keys of each user (u, k0, k1, …, n), in the order in which they are kept (rank)."""
        from pyspark.sql import Window, functions

        assert self.asked.user is not None
        k = self.own_names
        own = functions.count(functions.lit(1)) if self.asked.value is None else functions.sum("v")
        # One shuffle serves both: rows partitioned by user are also partitioned by user and key.
        each = self._rows().repartition("u").groupBy("u", *k).agg(self._bounded(own).alias("n"))
        # The key decides between equal hashes: anything else could depend on other users' rows.
        user_kind = str(dict(self.df.dtypes)[self.asked.user])
        digest = spark_digest_of(list(zip(("u", *k), (user_kind, *self.key_types), strict=True)))
        order = Window.partitionBy("u").orderBy(spark_order_of(functions.col("digest")), *k)
        return each.withColumn("digest", digest).withColumn("rank", functions.row_number().over(order))

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
    query: Query, space: KeySpace, partition: Partition, kept: bool, named: bool = False, tasks: int | None = None
) -> Iterator[DataFrame]:
    """Rows (part, id, n), or (part, key, n) if keys will be named, whole parts together; cached in
    the cluster if they are needed twice. There are this many tasks for all parts, or one for each.
    """
    from pyspark.sql import functions

    # Partial sums must not be cut, or the cut would depend on which rows came together.
    combines = not query.asked.signed or query.asked.most_units <= LARGEST_COUNT // _COMBINED_ROWS

    def placed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (_by_key if named else _fingerprints)(batches, space, partition, combines)

    # A composite key that will be named travels as its canonical bytes.
    own = "binary" if space.columns else query.key_types[0]
    what, kind = ("key", own) if named else ("id", "bigint")
    rows = query.pairs().mapInArrow(placed, f"part int, {what} {kind}, n bigint")
    # Every part has at least one row, so that it is built even if it has no keys.
    session = query.df.sparkSession
    none = functions.lit(None)
    every = session.range(partition.parts).select(
        functions.col("id").cast("int").alias("part"), none.cast(kind).alias(what), none.cast("bigint").alias("n")
    )
    together, tasks = rows.unionByName(every), tasks or partition.parts
    if hasattr(together, "repartitionById"):
        shares = together.repartitionById(tasks, "part")
    else:  # before Spark 4.1, by hash: some tasks have several parts, and others none
        shares = together.repartition(tasks, "part")
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
        chunks.append((ids_of(space, keys_of(space, [batch])), _numbers([batch])))
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
        keys, numbers = keys_of(space, chunk), _numbers(chunk)
        if isinstance(keys, KeyTable):
            keys = keys.encoded().cast(pa.binary())  # as Spark has them; a chunk is small
        if combines:
            keys, numbers = sum_by_key(keys, numbers)
        part = partition.part_of(ids_of(space, EncodedKeys(keys) if space.columns else keys)).astype(np.int32)
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


def keys_of(space: KeySpace, batches: list[pa.RecordBatch]) -> Any:
    """The keys of batches (k0, k1, …, n): a column, or a `KeyTable` if they are composite."""
    import pyarrow as pa

    each = [pa.chunked_array([one.column(at) for one in batches]) for at in range(len(space.columns) or 1)]
    return KeyTable.read(tuple(each), space.columns) if space.columns else each[0]


def ids_of(space: KeySpace, keys: Any) -> Words:
    """The ids of keys as `keys_of` gives them, or of encoded ones."""
    if space.seed is not None and isinstance(keys, (KeyTable, EncodedKeys)):
        return keys.ids(space.seed)
    return key_ids(space, keys)


def _numbers(batches: list[pa.RecordBatch]) -> Counts:
    numbers: Counts = np.concatenate(
        [one.column(one.num_columns - 1).to_numpy(zero_copy_only=False) for one in batches]
    )
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
