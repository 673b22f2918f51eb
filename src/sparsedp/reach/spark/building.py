"""Releases of tables in Spark, built where the data is.

Rows are shuffled twice. By user: each user's contribution is bounded, as in `count`. By part: each
part of the release is built and its noise drawn on an executor, which writes it as a file into a
staging folder. Counts never reach the driver; it gets the digests of the files, writes the header
and gives the directory its name.

Commit protocol. Each attempt of a task writes into its own folder. Spark's result names one attempt
for every part; the driver moves those files and no others into the release. A retried or
speculative attempt may have drawn noise again, but what it drew is deleted and never published.
Late attempts find no folder to write into.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from ...budget.spending import DEFAULT_DATASET, LedgerLike, account_of, check_affordable, spending
from ...counting.executors import check_executors
from ...counting.request import AUTO, Counting
from ...counting.spark_habits import spark_habits
from ...counting.spark_rows import INTEGER_TYPES, Query, ids_of, rows_by_part, sum_by_key
from ...counting.suggesting import Spending, check_choice, predicted_noises, suggested, warned
from ...errors import ParameterError
from ...format import files
from ...format.addresses import path_of
from ...format.description import format_of, part_name
from ...keys.composite import EncodedKeys
from ...keys.hashing import KeySpace
from ...mechanisms import Plan, Sizing
from ...planning.drafts import Draft, draft
from ...planning.request import Request
from ...privacy.randomness import fresh_randomness
from ...releasing.building import told
from ...releasing.cells import NamedSums, Sums, distinct_rows
from ...releasing.parts import PartWork, planned
from ...releasing.published import Release, load
from ...structures.table import Counts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from typing_extensions import Unpack

    from ...mechanisms import MechanismOptions

DEFAULT_PARTS = 16
_ROWS_OF_TASK, _BYTES_OF_TASK = 1 << 18, 1 << 22


def release(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    path: str | os.PathLike[str],
    epsilon: float,
    delta: float = 0.0,
    user: str | None = None,
    value: str | None = None,
    max_keys_per_user: int | Literal["auto"] | None = None,
    max_per_key: float = 1,
    nonzero: int | None = None,
    total: float | None = None,
    upper: float | None = None,
    domain: int | None = None,
    step: float | None = None,
    signed: bool = False,
    mechanism: str = "auto",
    noise: str = "auto",
    parts: int = DEFAULT_PARTS,
    keep_keys: bool = False,
    sizing_share: float | None = None,
    nulls: str = "refuse",
    ledger: LedgerLike | None = None,
    dataset: str = DEFAULT_DATASET,
    **options: Unpack[MechanismOptions],
) -> Release:
    """Count a DataFrame of events with bounded contributions and release the counts, without
    collecting them.

    Parameters are those of `sparsedp.count` and `sparsedp.release`. `path` is the directory to
    write, on a file system that the driver and all executors share; sparsedp must be installed on
    the executors. `parts` should be large enough that the keys of one part fit in the memory of a
    Python worker: 10⁷ rows take less than 1 GB.

    With `keep_keys`, the keys themselves travel to the executors that build their parts, and all
    keys of a part must fit in the memory of a worker as well: 3·10⁶ keys of 16 bytes take less than
    1 GB.

    With `max_keys_per_user="auto"` the bound is chosen privately, as `sparsedp.suggest` does, with a
    share of ε that is debited on its own; the release has the rest. The plan of the result has the
    bound.
    """
    asked = locals()
    budget = None
    if max_keys_per_user == AUTO:
        budget = Spending.of(epsilon, delta)
        asked |= {"max_keys_per_user": 1, "epsilon": budget.left}
    query, drafted = _asked(df, asked)
    noises = [] if budget is None else predicted_noises(query.asked, budget, {"mechanism": mechanism, "noise": noise})
    target, parts = path_of(path).absolute(), drafted.problem.parts
    account = account_of(ledger, dataset)
    files.check_new(target, parts)
    if budget is not None:
        check_choice(account, budget)
    elif account is not None:
        check_affordable(account, drafted.problem.epsilon, drafted.problem.delta, drafted.event)
    own_domain = None if drafted.problem.hashed else drafted.problem.domain
    named = drafted.problem.keep_keys
    rows = _checked_rows(query, own_domain, named)
    if budget is not None:
        chosen = warned(suggested(spark_habits(query), budget, noises, account))
        query, drafted = _asked(df, asked | {"max_keys_per_user": chosen.max_keys_per_user})
    randomness = fresh_randomness()
    space = query.described(KeySpace.draw(own_domain, randomness))
    # All of the data has been checked. From here on noise is drawn, so from here on the budget is
    # spent.
    problem, event = drafted.problem, None if account is None else drafted.event
    with spending(account, problem.epsilon, problem.delta, drafted.label, event):
        partition = drafted.draw_partition(randomness)
        tasks = None if rows is None else _tasks(rows, drafted.plan)
        with rows_by_part(query, space, partition, drafted.sizing is not None, named, tasks) as shares:
            cluster = _Cluster(shares, query.asked.unit, parts, space if named else None)
            plan, work = planned(drafted, randomness, partition, cluster.sizes)
            _publish(cluster, plan, work, space, target, randomness.reproducible)
    return told(load(target, allow_reproducible=randomness.reproducible))


def plan(
    df: DataFrame,
    *,
    key: str | Sequence[str],
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
    noise: str = "auto",
    parts: int = DEFAULT_PARTS,
    keep_keys: bool = False,
    sizing_share: float | None = None,
    nulls: str = "refuse",
    **options: Unpack[MechanismOptions],
) -> Plan:
    """What `release` would spend and write: a dry run that checks all parameters and columns and
    reads no row.

    If the size has to be estimated, this plan is for the smallest size.
    """
    return _asked(df, locals())[1].plan


def _asked(df: DataFrame, arguments: dict[str, Any]) -> tuple[Query, Draft]:
    """The rows that count and the draft of their release, with all parameters and columns checked."""
    query = Query.create(df, Counting.of(arguments))
    request = Request.of(arguments | query.asked.bounds)
    if request.problem.parts == 1:
        raise ParameterError("parts must be at least 2: one part is built by one executor; collect counts instead")
    if request.domain is not None and query.key_types[0] not in INTEGER_TYPES:
        raise ParameterError(
            f"with domain= keys must be integers, and column {query.asked.keys[0]!r} has {query.key_types[0]} values"
        )
    return query, draft(request)


def _checked_rows(query: Query, domain: int | None, named: bool) -> int | None:
    """The number of rows, unless no row can be bad, after the checks of executors and rows.

    Both run at once, because the first of the executors' Pythons takes seconds to start. If they
    are unfit, nobody waits for the rows.
    """
    from pyspark import InheritableThread

    counted: Future[int | None] = Future()

    def count() -> None:
        try:
            counted.set_result(query.refuse_bad_rows(domain, named))
        except BaseException as error:
            counted.set_exception(error)

    session = query.df.sparkSession
    InheritableThread(target=count, daemon=True, session=session).start()  # in the caller's group of jobs
    check_executors(session)
    return counted.result()


def _tasks(rows: int, plan: Plan) -> int:
    """How many tasks build the parts. A task of Python takes a tenth of a second even if it does
    nothing, so small parts share one; what they become is the same.
    """
    return min(plan.problem.parts, 1 + rows // _ROWS_OF_TASK + (plan.nbytes or 0) // _BYTES_OF_TASK)


@dataclass(frozen=True)
class _Cluster:
    """The rows of each part, together on an executor."""

    shares: DataFrame
    unit: Fraction
    parts: int
    named: KeySpace | None = None  # if rows have keys, which will be named, and not their ids

    def each(self, work: Callable[[int, Sums], dict[str, Any]], schema: str) -> list[dict[str, Any]]:
        """The result of `work` for each part, on its executor; exactly one result for every part."""
        unit, space = self.unit, self.named  # for the executors, which have no DataFrame

        def worked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            for part, keys, values in _parts_of(batches):
                sums = _sums(keys, values, unit) if space is None else named_sums(keys, values, unit, space)
                given = work(part, sums)
                columns = {name: pa.array([one]) for name, one in given.items()}
                yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32()), **columns})

        rows = self.shares.sortWithinPartitions("part").mapInArrow(worked, f"part int, {schema}").collect()
        results = sorted((row.asDict() for row in rows), key=lambda row: cast(int, row["part"]))
        if [row["part"] for row in results] != list(range(self.parts)):
            raise RuntimeError(f"Spark gave {len(results)} results for {self.parts} parts; nothing was published")
        return results

    def sizes(self, work: PartWork, sizing: Sizing) -> list[int]:
        """The number that is counted for each part."""
        return [
            row["total"] for row in self.each(lambda at, sums: {"total": work.size(at, sums, sizing)}, "total bigint")
        ]


def _sums(ids: pa.ChunkedArray, values: Counts, unit: Fraction) -> Sums:
    return Sums.of(ids.to_numpy().astype(np.int64, copy=False).view(np.uint64), values, unit)


def named_sums(keys: pa.ChunkedArray, values: Counts, unit: Fraction, space: KeySpace) -> NamedSums:
    """The sums of the keys of a part, each key once, whatever its fingerprint."""
    import pyarrow as pa

    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}  # together they may exceed 2 GB
    names, totals = sum_by_key(keys.cast(wide.get(keys.type, keys.type)), values)
    named = EncodedKeys(names) if space.columns else names
    ids = ids_of(space, named)
    return NamedSums.of_rows(ids, totals, unit, named, distinct_rows(ids, named))


def _parts_of(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.ChunkedArray, Counts]]:
    """The parts of a partition, one after the other, with their ids (or keys) and values: a
    partition contains whole parts, in order.
    """
    current: int | None = None
    pieces: list[Any] = []
    for batch in batches:
        numbers = batch.column(0).to_numpy(zero_copy_only=False)
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for begin, end in pairwise(edges):
            if begin == end:
                continue
            if current is not None and numbers[begin] != current:
                yield current, *_joined(pieces)
                pieces = []
            current = int(numbers[begin])
            rows = batch.slice(begin, end - begin)
            real = rows.filter(rows.column(1).is_valid())
            pieces.append(real)
    if current is not None:
        yield current, *_joined(pieces)


def _joined(pieces: list[pa.RecordBatch]) -> tuple[pa.ChunkedArray, Counts]:
    import pyarrow as pa

    table = pa.Table.from_batches(pieces)
    return table.column(1), table.column(2).to_numpy().astype(np.int64, copy=False)


def _publish(cluster: _Cluster, plan: Plan, work: PartWork, space: KeySpace, target: Path, reproducible: bool) -> None:
    """Build every part on an executor, and make a release from one attempt of each."""
    parts, version = cluster.parts, format_of(space)
    staging = target.with_name(f".{target.name}.{secrets.token_hex(8)}.spark")
    attempts = staging / "attempts"
    attempts.mkdir(parents=True)

    def build(part: int, sums: Sums) -> dict[str, Any]:
        sides = work.build(part, sums)
        attempt = f"{part}-{secrets.token_hex(8)}"
        try:
            (attempts / attempt).mkdir()
        except FileNotFoundError:
            raise FileNotFoundError(
                f"an executor does not see {attempts}: path must be on a file system that the driver and all executors "
                "share (or this attempt came too late, after another one had been chosen)"
            ) from None
        return {"attempt": attempt, "sha256": files.write_part(attempts / attempt, part, parts, sides, version)}

    try:
        built = cluster.each(build, "attempt string, sha256 string")
        with files.new_directory(target) as directory:
            for row in built:
                name = part_name(row["part"])
                os.rename(attempts / row["attempt"] / name, directory / name)
            files.finish_parts(directory, plan, space, reproducible, [row["sha256"] for row in built])
    finally:
        shutil.rmtree(staging, ignore_errors=True)
