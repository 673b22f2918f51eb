"""Clients of Spark Connect: releases, lookups and functions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from faults import HANGS

# A separate process: a Spark Connect session and a classic one cannot coexist.
EVERYTHING = """
import sys
import sparsedp, sparsedp.spark
from pyspark.sql import SparkSession
from sparsedp.privacy.randomness import reproducible_for_tests

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
assert not hasattr(spark, "_jsparkSession")
df = spark.range(20_000).selectExpr(
    "concat('key ', id % 700) as key", "date_add(date'2024-02-28', cast(id % 3 as int)) as day", "id % 50 as user",
    "(id % 5) / 4D as v",
)
path = sys.argv[2]
# Users with too many keys, sums that are cut, keys of two columns: only the way to the engine differs.
counting = dict(key=["day", "key"], user="user", value="v", step=0.5, max_keys_per_user=20, max_per_key=4)
options = dict(epsilon=9, delta=1e-6, mechanism="retrieval", parts=3)
with reproducible_for_tests(3):
    built = sparsedp.spark.release(df, **counting, **options, path=path + "/r")
table = df.toArrow()
with reproducible_for_tests(3):
    local = sparsedp.release(sparsedp.count(table, **counting), **options)
assert built.plan == local.plan
for one, other in zip(built.sides[0], local.sides[0], strict=True):
    for name in one:
        assert (one[name] == other[name]).all(), name
names = sparsedp.spark.release(df, key="key", epsilon=9, delta=1e-6, keep_keys=True, parts=2, path=path + "/names")
assert len(names.kept_keys()) > 600 and set(names.kept_keys()) <= set(table["key"].to_pylist())
asked = spark.range(100).selectExpr("concat('key ', id) as key")
for release in (names, sparsedp.release({"key 1": 50}, epsilon=1)):
    found = sparsedp.spark.lookup(asked, release, key="key").toPandas()
    assert found["estimate"].tolist() == release.lookup(found["key"].tolist()).tolist()
    sparsedp.spark.register(spark, release)
    called = asked.selectExpr("key", "visits(key) AS estimate", "visits_high(key) AS high").toPandas()
    assert called["estimate"].tolist() == release.lookup(called["key"].tolist()).tolist()
    assert called["high"].tolist() == release.interval(called["key"].tolist())[1].tolist()
print("all is well")
"""


def test_everything_works_through_spark_connect(connect: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING, connect, str(tmp_path)], capture_output=True, text=True, timeout=HANGS
    )
    assert "all is well" in done.stdout, done.stderr[-3000:]
