"""Lookups where the keys are: a DataFrame with estimates and intervals."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...counting.executors import check_executors
from ...counting.scans import check_columns
from ...counting.spark_rows import KIND_OF_TYPE
from ...errors import InputError, KeyTypeError, ParameterError
from ...format import files
from ...format.addresses import address_of
from ...keys.components import wrong_component
from ...keys.hashing import wrong_kind
from ...keys.kinds import columns_in_words, is_instant, is_simple, unit_of
from ...releasing.published import Release, load

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def lookup(
    df: DataFrame, release: Release | str | os.PathLike[str], *, key: str | Sequence[str], confidence: float = 0.95
) -> DataFrame:
    """The DataFrame with three more columns: estimate, low, high.

    A release of one file is sent to every executor once, as a file; a directory of parts is opened
    by its path. Keys must not be null. A key of several columns is a list of their names in this
    table, in the order of the release.
    """
    names = [key] if isinstance(key, str) else list(key)
    check_columns(dict(df.dtypes), names)
    taken = {"estimate", "low", "high"} & set(df.columns)
    if taken:
        raise InputError(f"the table already has a column {sorted(taken)[0]!r}; rename it")
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must be in (0, 1), got {confidence}")
    opened = release if isinstance(release, Release) else load(release)
    _check_kinds(opened, names, [str(dict(df.dtypes)[name]) for name in names])
    check_executors(df.sparkSession)
    find = shipped(df.sparkSession, opened)
    places = [df.columns.index(name) for name in names]

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        local = find()
        for batch in batches:
            keys = batch.column(places[0]) if len(places) == 1 else tuple(batch.column(at) for at in places)
            estimates = local.lookup(keys)
            low, high = local.interval(keys, confidence)
            columns = [*batch.columns, *(pa.array(one) for one in (estimates, low, high))]
            yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, "estimate", "low", "high"])

    from pyspark.sql.types import DoubleType, StructType

    schema = StructType(list(df.schema.fields))
    for name in ("estimate", "low", "high"):
        schema = schema.add(name, DoubleType())
    return df.mapInArrow(answer, schema)


def _check_kinds(release: Release, names: list[str], types: list[str]) -> None:
    """`KeyTypeError` unless these columns have the kinds of the release's."""
    kinds = [KIND_OF_TYPE.get(own) for own in types]
    columns = release.key_columns
    if len(columns) != len(names):
        words = columns_in_words(columns)
        raise KeyTypeError(
            f"the keys of this release have {len(columns)} columns ({words}), got {len(names)}; pass key="
        )
    if not release.key_space.columns:
        simple = kinds[0] if is_simple(kinds[0]) else None
        if release.key_space.kind not in (None, simple):
            raise wrong_kind(release.key_space.kind, simple)
        return
    for column, name, kind, own in zip(columns, names, kinds, types, strict=True):
        assert column.kind is not None
        same_times = unit_of(column.kind) and unit_of(kind or "") and is_instant(column.kind) == is_instant(kind or "")
        if kind != column.kind and not same_times:
            raise wrong_component(column.kind, kind or own, f"column {name!r}")


def shipped(session: SparkSession, opened: Release) -> Callable[[], Release]:
    """A function that opens the release on an executor, once for each of its Python workers."""
    if opened.source is not None and opened.plan.problem.parts > 1:
        path, digest = opened.source.locator, opened.source.digest
        return lambda: _open(path, digest)
    if opened.plan.problem.parts > 1:
        raise ParameterError("a release of several parts must be saved, on a file system that all executors share")
    content = files.to_bytes(opened)
    name, digest = _add_file(session, content)

    def find() -> Release:
        from pyspark import SparkFiles

        return _open(SparkFiles.get(name), digest)

    return find


def _add_file(session: SparkSession, content: bytes) -> tuple[str, str]:
    """Send a file to all executors; return its name there and the digest of its header."""
    name = f"{hashlib.sha256(content).hexdigest()[:32]}.sparsedp"
    folder = Path(tempfile.mkdtemp(prefix="sparsedp-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors fetch it when they first need it
    path = folder / name
    path.write_bytes(content)
    shipped = files.load(path, Release).source
    assert shipped is not None
    if hasattr(session, "_jsparkSession"):
        session.sparkContext.addFile(str(path))
    else:  # Spark Connect
        session.addArtifacts(str(path), file=True)
    return name, shipped.digest


_OPENED: dict[tuple[str, str], Release] = {}


def _open(path: str, digest: str) -> Release:
    """The release with this digest, kept open by this process."""
    found = _OPENED.get((path, digest))
    if found is None:
        found = load(path, allow_reproducible=True)  # the caller had opened it
        if found.source is None or found.source.digest != digest:
            raise ParameterError(f"{address_of(path) or path} has been replaced since the lookup was planned")
        _OPENED[path, digest] = found
    return found
