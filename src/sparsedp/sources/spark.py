"""Releases of tables in Spark, built where the data is; public as `sparsedp.spark`.

Rows are shuffled twice. By user: each user's contribution is bounded, as in `count`. By part: each part of the release
is built and its noise drawn on an executor, which writes it as a file into a staging folder. Counts never come to the
driver; it gets the digests of the files, writes the header and gives the directory its name.

Commit protocol. An attempt of a task writes into a folder of its own. Spark's result names one attempt for every part;
the driver moves those files and no others into the release. A retried or speculative attempt may have drawn noise
again, but what it drew is deleted and never published. Attempts that come late find no folder to write into.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import _native, files
from ..arrow import key_ids
from ..building import Draft, draft_plan
from ..errors import InputError, MissingDependencyError, ParameterError
from ..hashing import KeySpace, Partition
from ..mechanisms import DivisiblePlan, Plan
from ..planning import SIZING_SHARE, check_sizing_share, make_problem
from ..portions import PartWork
from ..published import Release, load
from ..randomness import Words, fresh_randomness
from ..spending import DEFAULT_DATASET, LedgerLike, account_of, spending
from ..table import LARGEST_COUNT
from .local import UNITS_PER_STEP, contribution_of
from .tables import check_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

DEFAULT_PARTS = 16
_COMBINED_ROWS = 1 << 20
_KEY_TYPES = ("string", "binary", "tinyint", "smallint", "int", "bigint")
_INTEGER_TYPES = ("tinyint", "smallint", "int", "bigint")
_HASHED = "part int, id bigint, n bigint"


def release(
    df: DataFrame,
    *,
    key: str,
    path: str | os.PathLike[str],
    epsilon: float,
    delta: float = 0.0,
    user: str | None = None,
    value: str | None = None,
    max_keys_per_user: int | None = None,
    max_per_key: float = 1,
    nonzero: int | None = None,
    total: float | None = None,
    upper: float | None = None,
    domain: int | None = None,
    step: float | None = None,
    signed: bool = False,
    mechanism: str = "auto",
    parts: int = DEFAULT_PARTS,
    sizing_share: float = SIZING_SHARE,
    nulls: str = "refuse",
    ledger: LedgerLike | None = None,
    dataset: str = DEFAULT_DATASET,
    **options: object,
) -> Release:
    """Count a DataFrame of events with bounded contributions and release the counts, without collecting them.

    Parameters are those of `sparsedp.count` and `sparsedp.release`. `path` is the directory to write, on a file system
    that the driver and all executors share; sparsedp must be installed on the executors. `parts` should be enough that
    the keys of one part fit in the memory of a Python worker: 10⁷ keys take about 1 GB.
    """
    query = _Query.create(df, key, user, value, max_keys_per_user, max_per_key, step, signed, nulls)
    draft, plan = _draft(query, epsilon, delta, nonzero, total, upper, domain, mechanism, parts, sizing_share, options)
    target = Path(path).absolute()
    files.check_new(target, parts)
    account = None if ledger is None else account_of(ledger, dataset)
    query.refuse_bad_rows()
    randomness = fresh_randomness()
    space = KeySpace.draw(None if plan.problem.hashed else plan.problem.domain, randomness)
    # All of the data has been checked. From here on noise is drawn, so from here on the budget is spent.
    with spending(account, plan.problem.epsilon, plan.problem.delta, plan.mechanism):
        partition = plan.draw_partition(randomness)
        work = PartWork(plan, partition, query.unit, randomness.parts)
        with _by_part(query, space, partition, kept=draft.sizing is not None) as shares:
            if draft.sizing is not None:
                sizing = draft.sizing

                def size(part: int, ids: Words, values: Any) -> dict[str, Any]:
                    return {"total": work.size(part, ids, values, sizing)}

                exact = sum(row["total"] for row in _each_part(shares, size, "total bigint"))
                plan = cast(DivisiblePlan, draft.finish(draft.noisy_sum(exact, randomness)))
                work = replace(work, plan=plan)
            _publish(shares, work, space, target, randomness.reproducible)
    return load(target, allow_reproducible=randomness.reproducible)


def plan(
    df: DataFrame,
    *,
    key: str,
    epsilon: float,
    delta: float = 0.0,
    user: str | None = None,
    value: str | None = None,
    max_keys_per_user: int | None = None,
    max_per_key: float = 1,
    nonzero: int | None = None,
    total: float | None = None,
    upper: float | None = None,
    domain: int | None = None,
    step: float | None = None,
    signed: bool = False,
    mechanism: str = "auto",
    parts: int = DEFAULT_PARTS,
    sizing_share: float = SIZING_SHARE,
    nulls: str = "refuse",
    **options: object,
) -> Plan:
    """What `release` would spend and write: a dry run that checks all parameters and columns and reads no row.

    If the size has to be estimated, this plan is for the smallest one.
    """
    query = _Query.create(df, key, user, value, max_keys_per_user, max_per_key, step, signed, nulls)
    return _draft(query, epsilon, delta, nonzero, total, upper, domain, mechanism, parts, sizing_share, options)[1]


def lookup(
    df: DataFrame, release: Release | str | os.PathLike[str], *, key: str, confidence: float = 0.95
) -> DataFrame:
    """The DataFrame with three more columns: estimate, low, high.

    A release of one file is shipped to every executor once, as a file; a directory of parts is opened there by its path.
    """
    check_columns(dict(df.dtypes), [key])
    taken = {"estimate", "low", "high"} & set(df.columns)
    if taken:
        raise InputError(f"the table has a column {sorted(taken)[0]!r} already; rename it")
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must be in (0, 1), got {confidence}")
    opened = release if isinstance(release, Release) else load(release)
    find = _shipped(df, opened)
    at = df.columns.index(key)

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        local = find()
        for batch in batches:
            keys = batch.column(at)
            estimates = local.lookup(keys)
            low, high = local.interval(keys, confidence)
            columns = [*batch.columns, *(pa.array(one) for one in (estimates, low, high))]
            yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, "estimate", "low", "high"])

    # A null key has no answer; whoever has some drops them first, and the error says so.
    from pyspark.sql.types import DoubleType, StructType

    schema = StructType(list(df.schema.fields))
    for name in ("estimate", "low", "high"):
        schema = schema.add(name, DoubleType())
    return df.mapInArrow(answer, schema)


def _draft(
    query: _Query,
    epsilon: float,
    delta: float,
    nonzero: int | None,
    total: float | None,
    upper: float | None,
    domain: int | None,
    mechanism: str,
    parts: int,
    sizing_share: float,
    options: dict[str, object],
) -> tuple[Draft, DivisiblePlan]:
    problem = make_problem(
        epsilon=epsilon,
        delta=delta,
        nonzero=nonzero,
        total=total,
        upper=upper,
        domain=domain,
        sensitivity=query.contribution.total,
        step=query.step,
        signed=query.signed,
        contribution=query.contribution,
        parts=parts,
    )
    if problem.parts == 1:
        raise ParameterError("parts must be at least 2: one part is built by one executor; collect counts instead")
    if domain is not None and query.key_type not in _INTEGER_TYPES:
        raise ParameterError(
            f"with domain= keys must be integers, and column {query.key!r} has {query.key_type} values"
        )
    draft = draft_plan(problem, mechanism, check_sizing_share(sizing_share), options)
    return draft, cast(DivisiblePlan, draft.finish(0))  # of several parts, or it would have been refused


@dataclass(frozen=True)
class _Query:
    """The rows of a DataFrame that count, each user's contribution bounded."""

    df: DataFrame
    key: str
    user: str | None
    value: str | None
    contribution: Any
    step: Fraction | None
    signed: bool
    drop: bool

    @classmethod
    def create(
        cls,
        df: DataFrame,
        key: str,
        user: str | None,
        value: str | None,
        max_keys: int | None,
        max_per_key: float,
        step: float | None,
        signed: bool,
        nulls: str,
    ) -> _Query:
        """The query, its parameters and columns checked; no row is read."""
        try:
            import pyspark  # noqa: F401
        except ImportError:
            raise MissingDependencyError("Spark releases need pyspark: pip install 'sparsedp[spark]'") from None
        if nulls not in ("refuse", "drop"):
            raise ParameterError(f"nulls must be 'refuse' or 'drop', got {nulls!r}")
        contribution = contribution_of(user, value, max_keys, max_per_key, step)
        query = cls(df, key, user, value, contribution, _exact(step), bool(signed), nulls == "drop")
        types = dict(df.dtypes)
        check_columns(types, [name for name in (key, user, value) if name is not None])
        if query.key_type not in _KEY_TYPES:
            raise InputError(
                f"column {key!r} has {query.key_type} values, and keys are text, bytes or 64-bit integers; cast it, for "
                f"example with df.withColumn({key!r}, df[{key!r}].cast('string'))"
            )
        if value is not None:
            kind = types[value]
            if step is None and kind not in _INTEGER_TYPES:
                raise InputError(f"column {value!r} has {kind} values; pass step=, the grid of the sums, or cast it")
            if kind not in (*_INTEGER_TYPES, "float", "double") and not kind.startswith("decimal"):
                raise InputError(f"column {value!r} has {kind} values, and values to sum must be numbers; cast it")
        if query.most_units > LARGEST_COUNT:
            raise ParameterError(f"max_per_key must be below 2^61 units of step/2^20, got {max_per_key}")
        return query

    @property
    def key_type(self) -> str:
        """Spark's name of the keys' type."""
        return dict(self.df.dtypes)[self.key]

    @property
    def unit(self) -> Fraction:
        """What one of the summed integers stands for."""
        return Fraction(1) if self.step is None else self.step / UNITS_PER_STEP

    @property
    def most_units(self) -> int:
        """What a user may contribute to a key."""
        return int(self.contribution.per_key / self.unit)

    def column(self, name: str) -> Column:
        """A column by its name, whatever letters it has."""
        from pyspark.sql import functions

        return functions.col("`" + name.replace("`", "``") + "`")

    def faults(self) -> dict[str, Column]:
        """What may be wrong with a row, and the expression that tells."""
        nullable = {field.name for field in self.df.schema.fields if field.nullable}
        faults = {}
        for name in (self.key, self.user, self.value):
            if name in nullable and not self.drop and name is not None:
                faults[f"column {name!r} is null"] = self.column(name).isNull()
        if self.value is not None:
            value = self.column(self.value).cast("double")
            if self.step is not None:
                infinite = value.isin(float("inf"), float("-inf"))
                faults[f"column {self.value!r} is not finite"] = value.isNotNull() & (_is_nan(value) | infinite)
            if not self.signed:
                faults[f"column {self.value!r} is negative (pass signed=True to allow it)"] = value < 0
        return faults

    def refuse_bad_rows(self) -> None:
        """`InputError` with the number of bad rows, if there are any: one scan, if rows can be bad at all."""
        from pyspark.sql import functions

        faults = self.faults()
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
        from pyspark.sql import Window, functions

        columns = [self.column(self.key).alias("k")]
        if self.user is not None:
            columns.append(self.column(self.user).alias("u"))
        if self.value is not None:
            exact = "double" if self.step is not None else "decimal(38,0)"  # a sum of bigints could overflow
            columns.append(self.column(self.value).cast(exact).alias("v"))
        rows = self.df.select(*columns)
        if self.drop:
            rows = rows.dropna()
        if self.user is None:
            own = functions.lit(1).cast("bigint") if self.value is None else self._bounded(functions.col("v"))
            return rows.select("k", own.alias("n"))
        own = functions.count(functions.lit(1)) if self.value is None else functions.sum("v")
        # One shuffle serves both: what is partitioned by user is so by user and key.
        each = rows.repartition("u").groupBy("u", "k").agg(self._bounded(own).alias("n"))
        # The key decides between equal hashes: all else could depend on other users' rows.
        order = Window.partitionBy("u").orderBy(functions.xxhash64("u", "k"), "k")
        ranked = each.withColumn("rank", functions.row_number().over(order))
        return ranked.where(functions.col("rank") <= self.contribution.keys).select("k", "n")

    def _bounded(self, total: Column) -> Column:
        """A total cut to what a user may contribute to a key, in units."""
        from pyspark.sql import functions

        most = self.most_units
        least = -most if self.signed else 0
        if self.step is not None:
            # Cut twice: before, so that the product fits; after, so that no rounding exceeds the bound.
            bound = float(self.contribution.per_key)
            cut = functions.least(functions.greatest(total, functions.lit(-bound)), functions.lit(bound))
            total = functions.floor(cut * float(1 / self.unit))
        low, high = (functions.lit(limit).cast("decimal(38,0)") for limit in (least, most))
        return functions.least(functions.greatest(total.cast("decimal(38,0)"), low), high).cast("bigint")


def _exact(step: float | None) -> Fraction | None:
    from ..planning import positive_fraction

    return None if step is None else positive_fraction("step", step)


def _is_nan(value: Column) -> Column:
    from pyspark.sql import functions

    return functions.isnan(value)


@contextmanager
def _by_part(query: _Query, space: KeySpace, partition: Partition, kept: bool) -> Iterator[DataFrame]:
    """Rows (part, id, n), all of a part together; kept in the cluster if they are needed twice."""
    from pyspark.sql import functions

    # Partial sums must not be cut, or what is cut would depend on which rows came together.
    combines = not query.signed or query.most_units <= LARGEST_COUNT // _COMBINED_ROWS

    def fingerprints(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _fingerprints(batches, space, partition, combines)

    hashed = query.pairs().mapInArrow(fingerprints, _HASHED)
    # Every part has a row, so that it is built whether it has keys or not.
    session = query.df.sparkSession
    none = functions.lit(None).cast("bigint")
    every = session.range(partition.parts).select(
        functions.col("id").cast("int").alias("part"), none.alias("id"), none.alias("n")
    )
    shares = hashed.unionByName(every).repartition(partition.parts, "part")
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
    """Keys become ids, and their contributions are summed by chunks: frequent keys take little of the shuffle."""
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


def _each_part(
    shares: DataFrame, work: Callable[[int, Words, Any], dict[str, Any]], schema: str
) -> list[dict[str, Any]]:
    """What `work` gives for each part, on its executor; exactly one result for every part."""

    def one(table: pa.Table) -> pa.Table:
        import pyarrow as pa

        part = table.column("part")[0].as_py()
        real = table.filter(table.column("id").is_valid())
        ids = np.ascontiguousarray(real.column("id").to_numpy(), np.int64).view(np.uint64)
        values = np.ascontiguousarray(real.column("n").to_numpy(), np.int64)
        del table, real
        return pa.table({"part": pa.array([part], pa.int32()), **{n: [v] for n, v in work(part, ids, values).items()}})

    rows = shares.groupBy("part").applyInArrow(one, f"part int, {schema}").collect()
    return sorted((row.asDict() for row in rows), key=lambda row: cast(int, row["part"]))


def _publish(shares: DataFrame, work: PartWork, space: KeySpace, target: Path, reproducible: bool) -> None:
    """Build every part on an executor, and make a release of one attempt of each."""
    parts = work.plan.problem.parts
    staging = target.with_name(f".{target.name}.{secrets.token_hex(8)}.spark")
    attempts = staging / "attempts"
    attempts.mkdir(parents=True)

    def build(part: int, ids: Words, values: Any) -> dict[str, Any]:
        sides = work.build(part, ids, values)
        attempt = f"{part}-{secrets.token_hex(8)}"
        try:
            (attempts / attempt).mkdir()
        except FileNotFoundError:
            raise FileNotFoundError(
                f"an executor does not see {attempts}: path must be on a file system that the driver and all executors "
                "share (or this attempt came too late, and another one has been taken)"
            ) from None
        return {"attempt": attempt, "sha256": files.write_part(attempts / attempt, part, parts, sides)}

    try:
        built = _each_part(shares, build, "attempt string, sha256 string")
        if [row["part"] for row in built] != list(range(parts)):
            raise RuntimeError(f"Spark gave {len(built)} results for {parts} parts; nothing was published")
        with files.staged(target) as directory:
            for row in built:
                name = files.part_name(row["part"])
                os.rename(attempts / row["attempt"] / name, directory / name)
            header = files.Contents(work.plan, space, (), reproducible)
            files.write_header(directory, header, [row["sha256"] for row in built])
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _shipped(df: DataFrame, opened: Release) -> Callable[[], Release]:
    """A function that opens the release on an executor, once for each of its Python workers."""
    if opened.source is not None and opened.plan.problem.parts > 1:
        path, digest = str(opened.source.path), opened.source.digest
        return lambda: _open(path, digest)
    if opened.plan.problem.parts > 1:
        raise ParameterError("a release of several parts must be saved, on a file system that all executors share")
    content = files.to_bytes(files.Contents(opened.plan, opened.key_space, opened.sides, opened.reproducible))
    name, digest = _add_file(df, content)

    def find() -> Release:
        from pyspark import SparkFiles

        return _open(SparkFiles.get(name), digest)

    return find


def _add_file(df: DataFrame, content: bytes) -> tuple[str, str]:
    """Ship a file to all executors; its name there, and the digest of its header."""
    name = f"{hashlib.sha256(content).hexdigest()[:32]}.sparsedp"
    folder = Path(tempfile.mkdtemp(prefix="sparsedp-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors fetch it when they first need it
    path = folder / name
    path.write_bytes(content)
    digest = files.load(path).digest
    assert digest is not None
    session = df.sparkSession
    if hasattr(session, "_jsparkSession"):
        session.sparkContext.addFile(str(path))
    else:  # Spark Connect
        session.addArtifacts(str(path), file=True)
    return name, digest


_OPENED: dict[tuple[str, str], Release] = {}


def _open(path: str, digest: str) -> Release:
    """The release of this digest, kept open by this process."""
    found = _OPENED.get((path, digest))
    if found is None:
        found = load(path, allow_reproducible=True)  # whoever asks had opened it
        if found.source is None or found.source.digest != digest:
            raise ParameterError(f"{path} has been replaced since the lookup was planned")
        _OPENED[path, digest] = found
    return found
