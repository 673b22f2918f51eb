"""Spark in this process, and a Spark Connect server beside it; all on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import javahome
from clusters import CONNECT, prepare, session
from spark_tables import events, table


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # Spark warns about newer versions of its dependencies, and leaves sockets to the
            # garbage collector.
            for warning in ("default::FutureWarning", "default::DeprecationWarning", "default::ResourceWarning"):
                item.add_marker(pytest.mark.filterwarnings(warning))
            item.add_marker(pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session", autouse=True)
def java(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A Java for this process and for those that it starts, and their environment."""
    if not javahome.find(os.environ):
        pytest.fail("Spark needs Java 17 or newer: install one, or pip install 'sparsedp[java]'", pytrace=False)
    prepare(tmp_path_factory.mktemp("spark-home"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Spark in this process, with two threads and one retry of a task; it serves Spark Connect too."""
    made = session("local[2,2]", **CONNECT)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    """Events, in pandas."""
    return events()


@pytest.fixture(scope="session")
def df(spark: Any, frame: pd.DataFrame) -> Any:
    """The same events, in Spark."""
    return table(spark, frame).cache()


@pytest.fixture(scope="session")
def connect(spark: Any) -> str:
    """The address of a Spark Connect server, which runs beside the session of this process."""
    services = spark.sparkContext._jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(services, "SparkConnectService$"), "MODULE$")  # names that Scala gives
    return f"sc://127.0.0.1:{service.localPort()}"
