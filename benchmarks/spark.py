"""Releases on Spark: time, shuffled bytes and the memory of driver and executors, as rows grow,
beside plain Spark with the same bounded GROUP BY.

`python -m benchmarks.spark part tight-alp`: the memory of building one part, without Spark; with
`part retrieval names`, of one whose keys are all named. `python -m benchmarks.spark [rows ...]`: 10⁶,
10⁷ and 10⁸ events of 10⁶ users and 10⁶ keys (the table of `benchmarks.counting`), on two executors of
one core each in processes of their own, 16 parts, each size in a new application.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyspark

import sparsedp
import sparsedp.spark
from sparsedp.keys.hashing import KeySpace
from sparsedp.mechanisms import DivisiblePlan
from sparsedp.privacy.randomness import PartStreams, Randomness
from sparsedp.reach.spark.building import named_sums
from sparsedp.releasing.cells import Sums
from sparsedp.releasing.parts import PartWork

from .counting import KEYS_PER_USER, make_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = (10**6, 10**7, 10**8)
PARTS = 16
EXECUTOR_MEMORY = 3072
DRIVER_MEMORY = "1g"


def children(parent: int) -> list[int]:
    """All processes below one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found += [int(entry.name), *children(int(entry.name))]
    return found


def resident(process: int) -> int:
    """Resident bytes of a process, 0 if it is gone."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0


class Watch(threading.Thread):
    """The largest memory of the driver (this process and its JVM), and of any executor with its
    Python workers.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.driver = self.executor = 0
        self.done = threading.Event()

    def run(self) -> None:
        """Look twice a second."""
        while not self.done.wait(0.5):
            below = children(os.getpid())
            names = {process: _command(process) for process in below}
            executors = [process for process, name in names.items() if "CoarseGrainedExecutorBackend" in name]
            parts = {process: [process, *children(process)] for process in executors}
            owned = {process for group in parts.values() for process in group}
            self.driver = max(self.driver, sum(map(resident, {os.getpid(), *below} - owned)))
            for group in parts.values():
                self.executor = max(self.executor, sum(map(resident, group)))


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def shuffled(log: Path) -> int:
    """Bytes written by all shuffles, from the event log of the application."""
    total = 0
    for file in (path for path in log.rglob("*") if path.is_file() and not path.name.startswith((".", "appstatus"))):
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event.get("Event") == "SparkListenerTaskEnd":
                total += event.get("Task Metrics", {}).get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
    return total


def count_alone(spark: SparkSession, path: str, folder: Path) -> int:
    """The bounded GROUP BY of plain Spark, written to Parquet: no checks, no noise and no release."""
    from pyspark.sql import Window, functions

    order = Window.partitionBy("user_id").orderBy(functions.xxhash64("user_id", "url"), "url")
    pairs = spark.read.parquet(path).select("user_id", "url").repartition("user_id").groupBy("user_id", "url").count()
    kept = pairs.withColumn("rank", functions.row_number().over(order)).where(f"rank <= {KEYS_PER_USER}")
    kept.groupBy("url").count().write.parquet(str(folder / "counts"))
    return 0


def release_with(delta: float) -> Callable[[SparkSession, str, Path], int]:
    """Table to release."""

    def release(spark: SparkSession, path: str, folder: Path) -> int:
        made = sparsedp.spark.release(
            spark.read.parquet(path),
            key="url",
            user="user_id",
            max_keys_per_user=KEYS_PER_USER,
            epsilon=1,
            delta=delta,
            parts=PARTS,
            path=folder / "release",
        )
        return made.nbytes

    return release


SIDES = {"Spark": count_alone, "tight-alp": release_with(0.0), "retrieval": release_with(1e-9)}
MOST = 1.5  # tight-alp's time over that of plain Spark, at 10⁸ rows


def one(path: str, side: str) -> dict[str, float]:
    """One side, in a new application."""
    os.environ.update(
        SPARK_HOME=str(Path(pyspark.__file__).parent), SPARK_SCALA_VERSION="2.13", SPARK_LOCAL_IP="127.0.0.1"
    )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "events"
        log.mkdir()
        settings = {
            "spark.ui.enabled": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": log.as_uri(),
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.executor.memory": f"{EXECUTOR_MEMORY}m",
            "spark.sql.shuffle.partitions": "32",
            "spark.executorEnv.SPARSEDP_THREADS": "1",
        }
        builder = SparkSession.builder.master(f"local-cluster[2,1,{EXECUTOR_MEMORY}]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        watch = Watch()
        watch.start()
        start = time.perf_counter()
        nbytes = SIDES[side](spark, path, Path(folder))
        took = time.perf_counter() - start
        watch.done.set()
        spark.stop()
        memory = {"driver": watch.driver, "executor": watch.executor}
        return {"seconds": took, "shuffled": shuffled(log), "bytes": nbytes, **memory}


def part_memory(mechanism: str, named: bool) -> float:
    """Bytes that building one part takes for each of its 10⁷ rows, at the peak, the rows included.

    With names, each row has a key of 16 bytes, which is stored and named.
    """
    rows, delta = 10**7, 1e-9 if mechanism == "retrieval" or named else 0.0
    plan = sparsedp.plan(1.0, delta, nonzero=2 * rows, parts=2, mechanism=mechanism, keep_keys=named)
    assert isinstance(plan, DivisiblePlan)
    partition = plan.draw_partition(plan.problem, Randomness())
    work = PartWork(plan.problem, partition, PartStreams(None, bytes(32)), plan)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if named:
        data, ends = np.empty((rows, 16), np.uint8), np.arange(0, 16 * rows + 1, 16, dtype=np.int32)
        for digit in range(16):
            data[:, 15 - digit] = ord("0") + np.arange(rows) // 10**digit % 10
        keys = pa.chunked_array([pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(data))])
        work.build(0, named_sums(keys, np.full(rows, 1000), Fraction(1), KeySpace(1 << 64, (1, 2))))
    else:
        ids = np.random.default_rng(0).integers(0, 1 << 63, rows, np.uint64)
        work.build(0, Sums.of(ids, np.ones(rows, np.int64), Fraction(1)))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / rows


def main() -> None:
    """Every size in a process of its own."""
    if sys.argv[1:2] == ["part"]:
        named = sys.argv[3:] == ["names"]
        print(f"{sys.argv[2]}: {part_memory(sys.argv[2], named):.0f} bytes for each row of a part")
        return
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(one(sys.argv[2], sys.argv[3])))
        return
    sizes = [int(float(rows)) for rows in sys.argv[1:]] or ROWS
    names = ("time", "rows/s", "shuffled", "driver", "executor", "release")
    print(f"{'rows':>8}  {'mechanism':10}{''.join(f'{name:>10}' for name in names)}")
    for rows in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "events.parquet")
            make_events(path, rows)
            took = {}
            for name in SIDES:
                command = [sys.executable, "-m", "benchmarks.spark", "one", path, name]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                found = json.loads(done.stdout.splitlines()[-1])
                took[name] = found["seconds"]
                memory = "".join(f"{found[name] / 1e9:7.2f} GB" for name in ("shuffled", "driver", "executor"))
                print(
                    f"{rows:8.0e}  {name:10}{found['seconds']:8.1f} s{rows / found['seconds']:10.3g}"
                    f"{memory}{found['bytes'] / 1e6:7.1f} MB",
                    flush=True,
                )
            ratio = took["tight-alp"] / took["Spark"]
            print(
                f"{rows:8.0e}  tight-alp takes {ratio:.2f} × as long as Spark; at most {MOST} × at 10⁸ rows", flush=True
            )


if __name__ == "__main__":
    main()
