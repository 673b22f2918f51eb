"""Tumult Analytics on Spark: keys are selected with half of ε and all of δ, and counted with the
other half.

It takes the rows, and bounds what users contribute itself. Without δ it needs a list of all keys
that is public.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

PACKAGE = "tmlt.analytics"


def prepare(data: dict[str, Any]) -> Any:
    """The rows as a table of a Spark in this process."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # of this environment
    from pyspark.sql import SparkSession

    importlib.import_module("tmlt.analytics")
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(os.cpu_count()))  # 200 of a cluster take minutes
        .getOrCreate()
    )
    return spark.createDataFrame([(int(user), int(place)) for user, place in data["rows"]], ["user", "key"])


def release(way: str, rows: Any, keys: int, epsilon: float, delta: float) -> dict[int, float]:
    """Laplace noise, in both steps."""
    from tmlt.analytics import (
        AddRowsWithID,
        ApproxDPBudget,
        KeySet,
        MaxGroupsPerID,
        MaxRowsPerGroupPerID,
        QueryBuilder,
        Session,
    )

    session = Session.from_dataframe(ApproxDPBudget(epsilon, delta), "rows", rows, AddRowsWithID("user"))
    bounded = QueryBuilder("rows").enforce(MaxGroupsPerID("key", keys)).enforce(MaxRowsPerGroupPerID("key", 1))
    selected = session.evaluate(bounded.get_groups(["key"]), ApproxDPBudget(epsilon / 2, delta))
    counted = bounded.groupby(KeySet.from_dataframe(selected)).count()
    answers = session.evaluate(counted, ApproxDPBudget(epsilon / 2, 0))
    return {row["key"]: row["count"] for row in answers.collect()}


def answer(way: str, released: dict[int, float], data: dict[str, Any]) -> dict[str, Any]:
    """What is published."""
    return {"estimates": released, "named": list(released)}
