"""Spark sessions, and the processes of clusters on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark

from faults import HANGS

SPARK_HOME = Path(pyspark.__file__).parent
COMMON = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
# A server for clients of Spark Connect, on any port, in the process of a session.
CONNECT = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}

# Processes that live for a minute: they spend no time on optimising code, on threads for garbage
# collection, or on verifying classes of Spark again.
JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+IgnoreUnrecognizedVMOptions "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_SUBMIT_OPTS"] = JAVA


def session(master: str, **settings: str) -> Any:
    """A new session on this master; one at a time."""
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = SparkSession.builder.master(master).appName("sparsedp tests")
        for name, value in {**COMMON, **settings}.items():
            builder = builder.config(name, value)
        made = builder.getOrCreate()
        assert made.sparkContext.master == master, "stop the other session first"
        made.sparkContext.setLogLevel("OFF")
    return made


@dataclass
class Cluster:
    """A standalone master and its workers, as processes."""

    folder: Path
    master: str = ""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, main: str, *arguments: str) -> Path:
        log = self.folder / f"{name}.log"
        settings = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA,
        }
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

    def start_workers(self, *names: str) -> None:
        """Start workers of these names, unless they are running."""
        resources = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--host", "127.0.0.1")
        started = [
            self.start(
                name,
                "org.apache.spark.deploy.worker.Worker",
                *(*resources, "--work-dir", str(self.folder / name), self.master),
            )
            for name in names
            if name not in self.processes
        ]
        for log in started:
            wait_for(log, "Successfully registered with master")

    def kill(self, name: str) -> None:
        """Kill a process and everything it started: a worker with its executors."""
        os.killpg(self.processes[name].pid, 9)
        self.processes.pop(name).wait()

    def stop(self) -> None:
        for name in list(self.processes):
            self.kill(name)


def wait_for(log: Path, pattern: str) -> str:
    """Wait until a line of the log matches, and return the last group of the pattern, or all of it."""
    end = time.monotonic() + HANGS
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(encoding="utf-8", errors="replace"))
        if found:
            return found[found.lastindex or 0]
        time.sleep(0.1)
    raise TimeoutError(f"{pattern} is not in {log}: {log.read_text(encoding='utf-8', errors='replace')[-2000:]}")
