"""On a standalone cluster, whose worker is killed."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
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
    truth = Counter(f"key {math.isqrt(at)}" for at in range(100_000))
    largest = sorted(truth, key=truth.__getitem__)[-20:]
    assert max(abs(release[key] - truth[key]) for key in largest) < 0.9 * min(truth[key] for key in largest)
    found = sparsedp.spark.lookup(df.select("key").distinct(), release, key="key")
    assert found.count() == len(truth)


@pytest.mark.parametrize("event", ["the table is checked", "the budget is spent"])
def test_a_killed_worker_costs_time_or_the_release_but_never_half_of_it(
    cluster: Cluster, remote: Any, event: str, tmp_path: Path
) -> None:
    reading = tmp_path / "reading"

    def slow(batches: Any) -> Any:
        for batch in batches:
            reading.touch()
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

    def happened() -> bool:
        return reading.exists() if event == "the table is checked" else ledger.datasets()[0].left_epsilon == 0

    thread = threading.Thread(target=build)
    thread.start()
    end = time.monotonic() + HANGS
    while not happened() and not outcome and time.monotonic() < end:
        time.sleep(0.05)
    assert not outcome  # rows take seconds, so the worker is killed among them
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
