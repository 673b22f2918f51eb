"""Executors whose Python cannot do the work are found first, and the error says how to fix it."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

import sparsedp.spark
from sparsedp import KeyTypeError, MissingDependencyError
from sparsedp.counting import executors

SCRIPT = """
import sys
sys.path[:0] = {tests}
from clusters import session
import os
os.environ["PYSPARK_PYTHON"] = {python!r}
import sparsedp.spark
spark = session("local[1]")
df = spark.range(100).selectExpr("cast(id as string) as page")
try:
    sparsedp.spark.release(df, key="page", epsilon=1.0, nonzero=100, parts=2, path="out")
except sparsedp.MissingDependencyError as error:
    print(error)
"""


def test_a_python_without_sparsedp_is_named_with_the_fix(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    script = SCRIPT.format(
        tests=[str(Path(__file__).parent), str(Path(__file__).parents[2] / "helpers")],
        python=str(tmp_path / "bare" / "bin" / "python"),
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "sparsedp cannot be imported by the executors' Python" in done.stdout
    assert f"set PYSPARK_PYTHON={sys.executable}" in done.stdout
    assert not (tmp_path / "out").exists()


def test_the_executors_python_is_asked_before_the_rows(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert executors._probe(spark)["sparsedp"] == sparsedp.__version__
    monkeypatch.setattr(
        executors, "_probe", lambda session: {"python": "/elsewhere/python", "pyarrow": "1", "sparsedp": "0.0.1"}
    )
    with pytest.raises(MissingDependencyError, match=r"/elsewhere/python, has sparsedp 0\.0\.1, the driver's"):
        executors.check_executors(spark)


def test_a_column_of_another_kind_than_the_keys_is_refused_by_the_driver(spark: Any) -> None:
    release = sparsedp.release({"1": 5}, epsilon=1.0, nonzero=10)
    with pytest.raises(KeyTypeError, match="the keys of this release are text"):
        sparsedp.spark.lookup(spark.range(3), release, key="id")
