"""On a standalone cluster whose worker is killed, and through Spark Connect."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import sparsedp
import sparsedp.spark
from clusters import JAVA, Cluster, session
from faults import HANGS

EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": JAVA,
}


@pytest.fixture(scope="module")
def remote(cluster: Cluster) -> Any:
    made = session(cluster.master, **EXECUTORS)
    yield made
    made.stop()


def test_executors_of_a_cluster_build_the_parts(remote: Any, tmp_path: Path) -> None:
    df = remote.range(100_000).selectExpr("concat('key ', cast(sqrt(id) as int)) as key", "id % 1000 as user")
    options: dict[str, Any] = {"key": "key", "user": "user", "max_keys_per_user": 50, "epsilon": 50, "parts": 4}
    release = sparsedp.spark.release(df, path=tmp_path / "r", **options)
    sparsedp.verify(tmp_path / "r")
    truth = dict(df.groupBy("key").count().collect())
    largest = sorted(truth, key=truth.__getitem__)[-20:]
    assert max(abs(release[key] - truth[key]) for key in largest) < 0.9 * min(truth[key] for key in largest)
    found = sparsedp.spark.lookup(df.select("key").distinct(), release, key="key")
    assert found.count() == len(truth)


@pytest.mark.parametrize("delay", [1.0, 4.0])
def test_a_killed_worker_costs_time_or_the_release_but_never_half_of_it(
    cluster: Cluster, remote: Any, delay: float, tmp_path: Path
) -> None:
    def slow(batches: Any) -> Any:
        for batch in batches:
            time.sleep(0.4)
            yield batch

    cluster.start_workers("first")
    df = remote.range(0, 60_000, 1, 12).mapInArrow(slow, "id bigint").selectExpr("id % 5000 as key")
    target = tmp_path / "r"
    ledger = sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=1)
    outcome: list[Any] = []

    def build() -> None:
        try:
            outcome.append(
                sparsedp.spark.release(df, key="key", epsilon=1, nonzero=5000, parts=6, path=target, ledger=ledger)
            )
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    time.sleep(delay)
    cluster.kill("first")
    thread.join(timeout=HANGS)
    assert outcome
    left = {path.name for path in tmp_path.iterdir() if path.suffix in (".spark", ".tmp")}
    assert left == set()
    if isinstance(outcome[0], sparsedp.Release):
        sparsedp.verify(target)
        assert len(outcome[0].sides[0]) == 6
        assert ledger.datasets()[0].left_epsilon == 0
    else:
        assert isinstance(outcome[0], sparsedp.SpentError)
        assert not target.exists()


# A separate process: a Spark Connect session and a classic one cannot coexist.
CLIENT = """
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
        [sys.executable, "-c", CLIENT, connect, str(tmp_path)], capture_output=True, text=True, timeout=HANGS
    )
    assert "all is well" in done.stdout, done.stderr[-3000:]
