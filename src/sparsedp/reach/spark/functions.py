"""A release as functions of Spark's SQL: `visits(key)`, `visits_low(key)` and `visits_high(key)`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...counting.executors import check_executors
from ...errors import MissingDependencyError, ParameterError
from ...releasing.published import Release
from ..answering import ENDS, Question, check_name, check_own, questions
from .lookups import shipped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(
    spark: SparkSession,
    release: Release | str | os.PathLike[str],
    name: str = "visits",
    *,
    confidence: float = 0.95,
) -> None:
    """Give a session three functions for its SQL: `name(key)`, the estimate, and `name_low(key)` and
    `name_high(key)`, the interval of this confidence.

    They have one argument for each column of the key; null if any of them is null. Functions of
    these names that were registered before are replaced, unless they belong to a release with
    another name. A release of one file is sent to every
    executor once; a directory of parts is opened by its path. Needs Spark 4.1 or newer.
    """
    try:
        from pyspark.sql.functions import arrow_udf
    except ImportError:  # also of Spark before 4.1
        raise MissingDependencyError(
            "functions of Spark's SQL need pyspark 4.1 or newer: pip install 'pyspark>=4.1'"
        ) from None
    asked = questions(release, confidence)
    check_name(name)
    check_own(name, spark.catalog.functionExists)
    for end in ENDS:
        _refuse_taken(spark, name + end)
    check_executors(spark)
    find = shipped(spark, asked[0].release)
    for end, question in zip(ENDS, asked, strict=True):
        spark.udf.register(name + end, arrow_udf(_function(find, question.wanted, confidence), "double"))


def _refuse_taken(spark: SparkSession, name: str) -> None:
    """`ParameterError` if Spark itself has a function of this name."""
    if not spark.catalog.functionExists(name):
        return
    if str(spark.catalog.getFunction(name).className).startswith("org.apache.spark.sql.catalyst."):
        raise ParameterError(f"Spark already has a function {name!r}; pass another name=")


def _function(find: Callable[[], Release], wanted: str, confidence: float) -> Callable[..., Any]:
    """The question as a function of Arrow columns, for executors."""

    def answer(*columns: Any) -> Any:
        return Question(find(), wanted, confidence).of_batch(columns)

    answer.__annotations__.clear()  # from which Spark would infer another kind of function
    return answer
