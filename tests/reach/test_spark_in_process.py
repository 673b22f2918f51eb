"""Releases that Spark builds are the local ones bit for bit: the kinds that `spark/` does not build on
a real Spark, in this process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import sparsedp
import sparsedp.spark
from spark_columns import KEYS, KEYS_ON_SPARK, OPTIONS, arrow_events
from spark_in_process import Frame, install
from spark_kinds import (
    COUNTING,
    GAUSSIAN,
    GAUSSIAN_ON_SPARK,
    NAMED,
    NAMED_ON_SPARK,
    ON_SPARK,
    PAIRS,
    RELEASING,
)
from spark_tables import PARTS, counting_of, events, same
from sparsedp.privacy.randomness import reproducible_for_tests


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return events()


@pytest.fixture(scope="module")
def typed() -> pa.Table:
    return arrow_events()


def both(table: Any, folder: Path, **options: Any) -> tuple[sparsedp.Release, sparsedp.Release]:
    """A release as Spark builds it, and the local one with the same randomness, written as it goes."""
    counting = counting_of(options)
    given = {"epsilon": 2.0, "parts": PARTS, **options}
    counts = sparsedp.count(table, **counting)
    arrow = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
    with reproducible_for_tests(9):
        built = sparsedp.spark.release(Frame(arrow, counts), **counting, path=folder / "spark", **given)
    with reproducible_for_tests(9):
        local = sparsedp.release(counts, **given)
    with reproducible_for_tests(9):
        assert same(sparsedp.release(counts, path=folder / "local", **given), local)
    return built, local


@pytest.mark.parametrize(("counting", "releasing"), [pair for pair in PAIRS if pair not in ON_SPARK])
def test_counts_by_every_mechanism(counting: str, releasing: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    # Catches a plan or a law that does not survive the way to an executor.
    built, local = both(frame, tmp_path, **COUNTING[counting], **RELEASING[releasing])
    assert same(built, local)
    assert built.plan.problem.contribution == local.plan.problem.contribution


@pytest.mark.parametrize("kind", [kind for kind in GAUSSIAN if kind not in GAUSSIAN_ON_SPARK])
def test_gaussian_releases(kind: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    asked = {"key": "url", "user": "user", "delta": 1e-9, "noise": "gaussian", **GAUSSIAN[kind]}
    built, local = both(frame, tmp_path, **asked)
    assert built.plan.problem.gaussian
    assert same(built, local)


@pytest.mark.parametrize("kind", [kind for kind in NAMED if kind not in NAMED_ON_SPARK])
def test_releases_with_names(kind: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    built, local = both(frame, tmp_path, key="url", **{"delta": 1e-6, "keep_keys": True, **NAMED[kind]})
    assert same(built, local)
    assert built.kept_keys() == local.kept_keys() != []


OTHERS = [(key, named) for key in KEYS for named in (False, True) if (key, named) not in KEYS_ON_SPARK]


@pytest.mark.parametrize(("key", "named"), OTHERS, ids=str)
def test_keys_of_several_columns(key: Any, named: bool, typed: pa.Table, tmp_path: Path) -> None:
    built, local = both(typed, tmp_path, key=key, user="user", max_keys_per_user=2, max_per_key=2, **OPTIONS[named])
    assert same(built, local)
    assert built.key_columns == local.key_columns
    if named:
        assert built.kept_keys() == local.kept_keys() != []
