"""Clients of Spark Connect: releases, lookups, functions, and counts of neighbouring tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from faults import HANGS

# Users, values and keys of two columns: only the way to the engine differs.
NAMES = ("date and notes",)

# A separate process: a Spark Connect session and a classic one cannot coexist.
EVERYTHING = """
import sys
import sparsedp, sparsedp.spark
from pyspark.sql import SparkSession
from sparsedp.privacy.randomness import reproducible_for_tests

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
assert not hasattr(spark, "_jsparkSession")
df = spark.range(20_000).selectExpr("concat('key ', id % 700) as key", "id % 50 as user", "cast(id % 5 as double) as v")
path = sys.argv[2]
with reproducible_for_tests(3):
    built = sparsedp.spark.release(df, key="key", epsilon=1, parts=3, path=path + "/r")
pandas = df.toPandas()
with reproducible_for_tests(3):
    local = sparsedp.release(sparsedp.count(pandas, key="key"), epsilon=1, parts=3)
for one, other in zip(built.sides[0], local.sides[0], strict=True):
    for name in one:
        assert (one[name] == other[name]).all(), name
sums = sparsedp.spark.release(
    df, key="key", user="user", value="v", step=0.5, max_keys_per_user=20, max_per_key=4, epsilon=9, delta=1e-6,
    mechanism="retrieval",
    parts=2, path=path + "/sums",
)
assert sums.mechanism == "retrieval"
names = sparsedp.spark.release(df, key="key", epsilon=9, delta=1e-6, keep_keys=True, parts=2, path=path + "/names")
assert len(names.kept_keys()) > 600 and set(names.kept_keys()) <= set(pandas["key"])
asked = spark.range(100).selectExpr("concat('key ', id) as key")
for release in (built, sparsedp.release({"key 1": 50}, epsilon=1)):
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


NEIGHBOURS = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:4]
import spark_counting
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
assert not hasattr(spark, "_jsparkSession")
seen = spark_counting.check_all(spark, sys.argv[4:], range(1), Path("."))
print(f"{seen.pairs} pairs are bounded")
"""


def test_one_user_moves_the_counts_through_spark_connect(connect: str, tmp_path: Path) -> None:
    here, helpers = Path(__file__).parent, Path(__file__).parents[2] / "helpers"
    done = subprocess.run(
        [sys.executable, "-c", NEIGHBOURS, connect, str(here), str(helpers), *NAMES],
        capture_output=True,
        text=True,
        timeout=HANGS,
        cwd=tmp_path,
    )
    assert "pairs are bounded" in done.stdout, done.stderr[-3000:]
