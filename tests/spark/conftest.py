"""Spark in this process, a standalone cluster of two workers, and a Spark Connect server; all on loopback."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark
import pytest

SPARK_HOME = Path(pyspark.__file__).parent
COMMON = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}

os.environ["PYSPARK_PYTHON"] = sys.executable


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # Spark warns of newer versions of what it uses, and leaves sockets to be collected.
            for warning in ("default::FutureWarning", "default::DeprecationWarning", "default::ResourceWarning"):
                item.add_marker(pytest.mark.filterwarnings(warning))
            item.add_marker(pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"))


def session(master: str, **settings: str) -> Any:
    """A new session on this master; one at a time."""
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = SparkSession.builder.master(master).appName("sparsedp tests")
        for name, value in {**COMMON, **settings}.items():
            builder = builder.config(name, value)
        made = builder.getOrCreate()
        made.sparkContext.setLogLevel("OFF")
    return made


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Spark in this process, with two threads and retries."""
    made = session("local[2,4]")
    yield made
    made.stop()


@dataclass
class Cluster:
    """A standalone master and its workers, as processes."""

    folder: Path
    master: str = ""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, main: str, *arguments: str) -> Path:
        log = self.folder / f"{name}.log"
        settings = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "512m"}
        with log.open("wb") as file:
            self.processes[name] = subprocess.Popen(
                [str(SPARK_HOME / "bin" / "spark-class"), main, *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **settings},
                cwd=self.folder,
                start_new_session=True,
            )
        return log

    def kill(self, name: str) -> None:
        """Kill a process and everything it started: a worker with its executors."""
        os.killpg(self.processes[name].pid, 9)
        self.processes.pop(name).wait()

    def stop(self) -> None:
        for name in list(self.processes):
            self.kill(name)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(log: Path, pattern: str, seconds: float = 60) -> None:
    """Until a line of the log matches."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if re.search(pattern, log.read_text(encoding="utf-8", errors="replace")):
            return
        time.sleep(0.2)
    raise TimeoutError(f"{pattern} is not in {log}: {log.read_text(encoding='utf-8', errors='replace')[-2000:]}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A master and two workers with one core each."""
    made = Cluster(tmp_path)
    port = str(free_port())
    try:
        log = made.start(
            "master",
            "org.apache.spark.deploy.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            port,
            "--webui-port",
            "0",
        )
        made.master = f"spark://127.0.0.1:{port}"
        wait_for(log, "I have been elected leader")
        for name in ("first", "second"):
            resources = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--host", "127.0.0.1")
            work = ("--work-dir", str(tmp_path / name))
            worker_log = made.start(name, "org.apache.spark.deploy.worker.Worker", *resources, *work, made.master)
            wait_for(worker_log, "Successfully registered with master")
        yield made
    finally:
        made.stop()


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[str]:
    """The address of a Spark Connect server."""
    made = Cluster(tmp_path)
    port = str(free_port())
    settings = {**COMMON, "spark.connect.grpc.binding.port": port, "spark.connect.grpc.binding.address": "127.0.0.1"}
    arguments = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    try:
        log = made.start(
            "server",
            "org.apache.spark.deploy.SparkSubmit",
            *("--master", "local[2]", *arguments),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
        )
        wait_for(log, "Spark Connect server started")
        yield f"sc://127.0.0.1:{port}"
    finally:
        made.stop()
