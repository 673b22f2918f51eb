"""Spark in this process, a standalone cluster of two workers, and a Spark Connect server; all on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import javahome
import pytest
from clusters import COMMON, Cluster, free_port, session, wait_for


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # Spark warns of newer versions of what it uses, and leaves sockets to be collected.
            for warning in ("default::FutureWarning", "default::DeprecationWarning", "default::ResourceWarning"):
                item.add_marker(pytest.mark.filterwarnings(warning))
            item.add_marker(pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session", autouse=True)
def java() -> None:
    """A Java, for this process and those that it starts."""
    if not javahome.find(os.environ):
        pytest.fail("Spark needs Java 17 or newer: install one, or pip install 'sparsedp[java]'", pytrace=False)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Spark in this process, with two threads and retries."""
    made = session("local[2,4]")
    yield made
    made.stop()


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
