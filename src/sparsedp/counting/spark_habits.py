"""The habits of users from which `suggest` chooses a bound, counted by Spark."""

from __future__ import annotations

import numpy as np

from .canonical import spark_byte_of_key
from .spark_rows import Query
from .suggesting import SAMPLED_KEYS, SUMS, Habits, habits_of


def spark_habits(query: Query) -> Habits:
    """What `habits` gives for the same rows: not to be published."""
    from pyspark.sql import functions

    ranked = query.ranked()
    keys = ranked.groupBy("u").agg(functions.max("rank").alias("at"))
    users = keys.groupBy("at").agg(functions.count(functions.lit(1)).alias("n"))
    own = spark_byte_of_key([*zip(query.own_names, query.key_types, strict=True)])
    sign = functions.when(own % (2 * SUMS) < SUMS, 1).otherwise(-1)
    few = ranked.where(functions.col("rank") <= SAMPLED_KEYS).select((own % SUMS).alias("at"), sign.alias("n"))
    sums = few.groupBy("at").agg(functions.sum("n").alias("n"))
    # Together, so that Spark groups rows by user once.
    both = [
        found.select(functions.lit(told).alias("users"), *(functions.col(name).cast("bigint") for name in ("at", "n")))
        for told, found in ((True, users), (False, sums))
    ]
    rows = both[0].unionByName(both[1]).collect()
    return habits_of(*(np.array([row[at] for row in rows], kind) for at, kind in enumerate(("bool", "int64", "int64"))))
