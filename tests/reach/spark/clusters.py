"""Spark sessions, and the processes of their executors; all on loopback."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pyspark

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

# Two executors of one core, each a process; the master and the workers of this standalone cluster are
# threads of the driver.
TWO_EXECUTORS = "local-cluster[2,1,512]"
EXECUTORS = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": JAVA}


def prepare(home: Path) -> None:
    """Give the processes of Spark their environment, and a home where executors may write.

    The home has no copy of pyspark's Python code, so that workers import the installed one, which
    is compiled.
    """
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    os.environ["SPARK_HOME"] = str(home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_SUBMIT_OPTS"] = JAVA
    os.environ["SPARK_LOCAL_IP"] = os.environ["SPARK_LOCAL_HOSTNAME"] = "127.0.0.1"


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


def executors(spark: Any) -> list[Any]:
    """The processes of executors that this session started: Java's handles."""
    children = spark.sparkContext._jvm.java.lang.ProcessHandle.current().children().toArray()
    return [one for one in children if one.isAlive() and one.info().command().orElse("").endswith("java")]


def kill(executor: Any) -> None:
    """Kill an executor and everything it started: its Python workers."""
    for process in (executor, *executor.descendants().toArray()):
        process.destroyForcibly()
    executor.onExit().get()
