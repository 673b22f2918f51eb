"""A release beside polars: `pl.col("url").sparsedp.lookup(release)`, and `low` and `high`.

Importing this module gives every expression and every Series a namespace `sparsedp`. A key of
several columns is a struct with their names. Queries stay lazy, and the streaming engine answers
batch by batch. Missing keys give null.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ..errors import KeyTypeError, MissingDependencyError
from ..keys.kinds import columns_in_words
from ..releasing.published import Release
from .answering import Question, questions

try:
    import polars as pl
except ImportError:
    raise MissingDependencyError("sparsedp.reach.polars needs polars: pip install 'sparsedp[polars]'") from None

AnyRelease = Release | str | os.PathLike[str]


@pl.api.register_expr_namespace("sparsedp")
class ExprAnswers:
    """`expression.sparsedp`: the keys are its values."""

    def __init__(self, keys: pl.Expr) -> None:
        self._keys = keys

    def lookup(self, release: AnyRelease) -> pl.Expr:
        """The estimates; null where a key, or any of its columns, is null."""
        return self._asked(questions(release, 0.5)[0])

    def low(self, release: AnyRelease, confidence: float = 0.95) -> pl.Expr:
        """The low ends of the intervals."""
        return self._asked(questions(release, confidence)[1])

    def high(self, release: AnyRelease, confidence: float = 0.95) -> pl.Expr:
        """The high ends of the intervals."""
        return self._asked(questions(release, confidence)[2])

    def _asked(self, question: Question) -> pl.Expr:
        return self._keys.map_batches(_function(question), return_dtype=pl.Float64, is_elementwise=True)


@pl.api.register_series_namespace("sparsedp")
class SeriesAnswers:
    """`series.sparsedp`: the keys are its values."""

    def __init__(self, keys: pl.Series) -> None:
        self._keys = keys

    def lookup(self, release: AnyRelease) -> pl.Series:
        """The estimates; null where a key, or any of its columns, is null."""
        return _function(questions(release, 0.5)[0])(self._keys)

    def low(self, release: AnyRelease, confidence: float = 0.95) -> pl.Series:
        """The low ends of the intervals."""
        return _function(questions(release, confidence)[1])(self._keys)

    def high(self, release: AnyRelease, confidence: float = 0.95) -> pl.Series:
        """The high ends of the intervals."""
        return _function(questions(release, confidence)[2])(self._keys)


def _function(question: Question) -> Callable[[pl.Series], pl.Series]:
    """The question as a function of a batch."""

    def answer(keys: pl.Series) -> pl.Series:
        columns = [column.to_arrow() for column in _columns(question.release, keys)]
        return pl.Series(keys.name, question.of_batch(columns), pl.Float64)

    return answer


def _columns(release: Release, keys: pl.Series) -> list[pl.Series]:
    """The columns of the key: the Series itself, or the fields of a struct by their names."""
    wanted = release.key_columns
    if not isinstance(keys.dtype, pl.Struct):
        return [keys]
    fields = [field.name for field in keys.dtype.fields]
    names = [str(column.name) for column in wanted]
    if not set(names) <= set(fields):
        have = ", ".join(map(repr, fields))
        raise KeyTypeError(
            f"the keys of this release have the columns {columns_in_words(wanted)}, and the struct has the fields "
            f"{have}; name them with pl.struct(pl.col(…).alias(…), …)"
        )
    return [keys.struct.field(name) for name in names]
