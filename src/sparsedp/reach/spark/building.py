"""Releases of tables in Spark, built where the data is.

Rows are shuffled twice. By user: each user's contribution is bounded, as in `count`. By part: each part of the release
is built and its noise drawn on an executor, which writes it as a file into a staging folder. Counts never come to the
driver; it gets the digests of the files, writes the header and gives the directory its name.

Commit protocol. An attempt of a task writes into a folder of its own. Spark's result names one attempt for every part;
the driver moves those files and no others into the release. A retried or speculative attempt may have drawn noise
again, but what it drew is deleted and never published. Attempts that come late find no folder to write into.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...budget.spending import DEFAULT_DATASET, LedgerLike, account_of, spending
from ...counting.executors import check_executors
from ...counting.spark_rows import INTEGER_TYPES, KEY_KINDS, Query, rows_by_part
from ...errors import ParameterError
from ...format import files
from ...keys.hashing import KeySpace
from ...mechanisms import DivisiblePlan, Plan
from ...planning.plans import check_sizing_share, make_problem
from ...privacy.randomness import Words, fresh_randomness
from ...releasing.building import Draft, draft_plan, told
from ...releasing.parts import PartWork
from ...releasing.published import Release, load

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

DEFAULT_PARTS = 16


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
    sizing_share: float | None = None,
    nulls: str = "refuse",
    ledger: LedgerLike | None = None,
    dataset: str = DEFAULT_DATASET,
    **options: object,
) -> Release:
    """Count a DataFrame of events with bounded contributions and release the counts, without collecting them.

    Parameters are those of `sparsedp.count` and `sparsedp.release`. `path` is the directory to write, on a file system
    that the driver and all executors share; sparsedp must be installed on the executors. `parts` should be enough that
    the keys of one part fit in the memory of a Python worker: 10⁷ rows take less than 1 GB.
    """
    query = Query.create(df, key, user, value, max_keys_per_user, max_per_key, step, signed, nulls)
    draft, plan = _draft(query, epsilon, delta, nonzero, total, upper, domain, mechanism, parts, sizing_share, options)
    target = Path(path).absolute()
    files.check_new(target, parts)
    account = None if ledger is None else account_of(ledger, dataset)
    own_domain = None if plan.problem.hashed else plan.problem.domain
    check_executors(df)
    query.refuse_bad_rows(own_domain)
    randomness = fresh_randomness()
    space = replace(KeySpace.draw(own_domain, randomness), kind=KEY_KINDS[query.key_type])
    # All of the data has been checked. From here on noise is drawn, so from here on the budget is spent.
    with spending(account, plan.problem.epsilon, plan.problem.delta, draft.label):
        partition = draft.draw_partition(plan, randomness)
        work = PartWork(plan, partition, query.unit, randomness.parts)
        with rows_by_part(query, space, partition, kept=draft.sizing is not None) as shares:
            if draft.sizing is not None:
                sizing = draft.sizing

                def size(part: int, ids: Words, values: Any) -> dict[str, Any]:
                    return {"total": work.size(part, ids, values, sizing)}

                rows = _each_part(shares, size, "total bigint")
                if [row["part"] for row in rows] != list(range(parts)):
                    raise RuntimeError(f"Spark counted {len(rows)} of {parts} parts; nothing was published")
                counted = [row["total"] for row in rows]
                plan = cast(DivisiblePlan, draft.finish(sizing.noisy(counted, randomness)))
                work = replace(work, plan=plan, counted=tuple(counted) if draft.builds_what_it_counted(plan) else None)
            _publish(shares, work, space, target, randomness.reproducible)
    return told(load(target, allow_reproducible=randomness.reproducible))


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
    sizing_share: float | None = None,
    nulls: str = "refuse",
    **options: object,
) -> Plan:
    """What `release` would spend and write: a dry run that checks all parameters and columns and reads no row.

    If the size has to be estimated, this plan is for the smallest one.
    """
    query = Query.create(df, key, user, value, max_keys_per_user, max_per_key, step, signed, nulls)
    return _draft(query, epsilon, delta, nonzero, total, upper, domain, mechanism, parts, sizing_share, options)[1]


def _draft(
    query: Query,
    epsilon: float,
    delta: float,
    nonzero: int | None,
    total: float | None,
    upper: float | None,
    domain: int | None,
    mechanism: str,
    parts: int,
    sizing_share: float | None,
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
    if domain is not None and query.key_type not in INTEGER_TYPES:
        raise ParameterError(
            f"with domain= keys must be integers, and column {query.key!r} has {query.key_type} values"
        )
    draft = draft_plan(problem, mechanism, check_sizing_share(sizing_share), options)
    return draft, cast(DivisiblePlan, draft.finish())  # of several parts, or it would have been refused


def _each_part(
    shares: DataFrame, work: Callable[[int, Words, Any], dict[str, Any]], schema: str
) -> list[dict[str, Any]]:
    """What `work` gives for each part, on its executor; exactly one result for every part."""

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for part, ids, values in _parts_of(batches):
            result = {
                "part": pa.array([part], pa.int32()),
                **{n: pa.array([v]) for n, v in work(part, ids, values).items()},
            }
            yield pa.RecordBatch.from_pydict(result)

    rows = shares.sortWithinPartitions("part").mapInArrow(each, f"part int, {schema}").collect()
    return sorted((row.asDict() for row in rows), key=lambda row: cast(int, row["part"]))


def _parts_of(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Words, Any]]:
    """The parts of a partition, one after the other: a partition has whole parts, in order."""
    current: int | None = None
    pieces: list[tuple[Any, Any]] = []
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
            pieces.append(
                (real.column(1).to_numpy(zero_copy_only=False), real.column(2).to_numpy(zero_copy_only=False))
            )
    if current is not None:
        yield current, *_joined(pieces)


def _joined(pieces: list[tuple[Any, Any]]) -> tuple[Words, Any]:
    ids, values = (np.concatenate(columns).astype(np.int64, copy=False) for columns in zip(*pieces, strict=True))
    return ids.view(np.uint64), values


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
            files.finish_parts(directory, work.plan, space, reproducible, [row["sha256"] for row in built])
    finally:
        shutil.rmtree(staging, ignore_errors=True)
