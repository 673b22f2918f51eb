"""Executors whose Python cannot do the work are found first, and the error says how to fix it."""

from __future__ import annotations

import sys
import threading
import venv
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pyspark
import pytest

import sparsedp.spark
from sparsedp import InputError, KeyTypeError, MissingDependencyError
from sparsedp.counting import executors
from sparsedp.counting.spark_rows import Query

HANGS_MS = 600_000


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session has been asked yet."""
    monkeypatch.setattr(executors, "_FIT", WeakSet())


@pytest.mark.usefixtures("unasked")
def test_a_python_without_sparsedp_is_named_with_the_fix(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    (packages,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    # Nothing but what comes with every Spark.
    archives = (Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip")
    (packages / "spark.pth").write_text("\n".join(map(str, archives)), encoding="utf-8")
    # What a session takes from PYSPARK_PYTHON when it is made; executors start a daemon of it.
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "bare" / "bin" / "python"))
    df = spark.range(100).selectExpr("cast(id as string) as page")
    for _ in range(2):  # an executor that is not fit is asked again
        with pytest.raises(MissingDependencyError) as error:
            sparsedp.spark.release(df, key="page", epsilon=1.0, nonzero=100, parts=2, path=tmp_path / "out")
    assert "sparsedp cannot be imported by the executors' Python" in str(error.value)
    assert str(tmp_path / "bare") in str(error.value)
    assert f"set PYSPARK_PYTHON={sys.executable}" in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("unasked")
def test_the_executors_python_is_asked_before_the_rows(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert executors._probe(spark)["sparsedp"] == sparsedp.__version__
    monkeypatch.setattr(
        executors, "_probe", lambda session: {"python": "/elsewhere/python", "pyarrow": "1", "sparsedp": "0.0.1"}
    )
    with pytest.raises(MissingDependencyError, match=r"/elsewhere/python, has sparsedp 0\.0\.1, the driver's"):
        executors.check_executors(spark)


@pytest.mark.usefixtures("unasked")
def test_what_is_wrong_with_executors_is_said_before_what_is_wrong_with_rows(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = spark.sql("SELECT if(id = 3, null, 'a') AS page FROM range(9)")
    asked: dict[str, Any] = {"key": "page", "epsilon": 1.0, "nonzero": 100, "parts": 2, "path": tmp_path / "out"}
    with pytest.raises(InputError, match="column 'page' is null in 1 row"):
        sparsedp.spark.release(df, **asked)
    monkeypatch.setattr(executors, "_FIT", WeakSet())
    monkeypatch.setattr(executors, "_probe", lambda session: {"python": "p", "pyarrow": None, "sparsedp": "1"})
    with pytest.raises(MissingDependencyError, match="pyarrow cannot be imported"):
        sparsedp.spark.release(df, **asked)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("unasked")
def test_nobody_waits_for_the_rows_if_executors_are_unfit(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = threading.Event(), threading.Event()

    def endless(*_: Any) -> None:
        asked.set()
        answered.wait()

    monkeypatch.setattr(Query, "refuse_bad_rows", endless)
    monkeypatch.setattr(executors, "_probe", lambda session: {"python": "p", "pyarrow": None, "sparsedp": "1"})
    try:
        with pytest.raises(MissingDependencyError, match="pyarrow cannot be imported"):
            sparsedp.spark.release(spark.range(9), key="id", epsilon=1.0, nonzero=9, parts=2, path=tmp_path / "out")
        assert asked.wait()
    finally:
        answered.set()


@pytest.mark.usefixtures("unasked")
def test_the_checks_are_in_the_group_of_jobs_of_the_caller(spark: Any, tmp_path: Path) -> None:
    # Catches checks that cancelJobGroup does not end, and that have another pool of the scheduler.
    context = spark.sparkContext

    def jobs_of(group: str | None) -> set[int]:
        context._jsc.sc().listenerBus().waitUntilEmpty(HANGS_MS)  # jobs of earlier tests may not be listed yet
        return set(context.statusTracker().getJobIdsForGroup(group))

    outside = jobs_of(None)
    df = spark.sql("SELECT if(id = 3, null, 'a') AS page FROM range(9)")
    context.setJobGroup("a release", "checks")
    try:
        with pytest.raises(InputError, match="column 'page' is null in 1 row"):
            sparsedp.spark.release(df, key="page", epsilon=1.0, nonzero=9, parts=2, path=tmp_path / "out")
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)
    assert len(jobs_of("a release")) >= 2
    assert jobs_of(None) == outside


@pytest.mark.usefixtures("unasked")
def test_a_session_is_asked_until_it_is_fit_and_then_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    # Catches a job before every lookup, and a verdict that outlives its session.
    class Session:
        pass

    asked: list[Any] = []
    fit = {"python": sys.executable, "pyarrow": "1", "sparsedp": sparsedp.__version__}

    def probe(session: Any) -> dict[str, str]:
        asked.append(session)
        return fit

    monkeypatch.setattr(executors, "_probe", probe)
    one, other = Session(), Session()
    for session in (one, one, other, one):
        executors.check_executors(session)
    assert asked == [one, other]


def test_a_column_of_another_kind_than_the_keys_is_refused_by_the_driver(spark: Any) -> None:
    release = sparsedp.release({"1": 5}, epsilon=1.0, nonzero=10)
    with pytest.raises(KeyTypeError, match="the keys of this release are text"):
        sparsedp.spark.lookup(spark.range(3), release, key="id")
