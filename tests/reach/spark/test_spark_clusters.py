"""On a cluster of two executors, one of which is killed."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sparsedp
import sparsedp.spark
from clusters import EXECUTORS, TWO_EXECUTORS, executors, kill, session
from faults import HANGS


@pytest.fixture(scope="module")
def remote() -> Any:
    made = session(TWO_EXECUTORS, **EXECUTORS)
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


def test_killed_executors_cost_time_or_the_release_but_never_half_of_it(remote: Any, tmp_path: Path) -> None:
    # One is killed while the table is checked, and one while the parts are built.
    reading = tmp_path / "reading"

    def slow(batches: Any) -> Any:
        for batch in batches:
            reading.touch()
            time.sleep(0.4)
            yield batch

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
    events: list[Callable[[], bool]] = [reading.exists, lambda: ledger.datasets()[0].left_epsilon == 0]
    for happened in events:
        end = time.monotonic() + HANGS
        while not happened() and not outcome and time.monotonic() < end:
            time.sleep(0.05)
        assert not outcome  # rows take seconds, so an executor is killed among them
        kill(executors(remote)[0])
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
