"""`max_keys_per_user="auto"` on Spark: the habits, the choice and the debits of the local one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparsedp
import sparsedp.spark
from spark_tables import PARTS, table
from sparsedp import BudgetError, ParameterError
from sparsedp.budget.ledger import Ledger
from sparsedp.counting.opening import opened
from sparsedp.counting.request import Counting
from sparsedp.counting.spark_habits import spark_habits
from sparsedp.counting.spark_rows import Query
from sparsedp.counting.suggesting import habits
from sparsedp.privacy.randomness import reproducible_for_tests


@pytest.mark.parametrize(("key", "nulls"), [("url", "drop"), ("page", "refuse")])
def test_users_have_the_habits_that_duckdb_finds(spark: Any, key: str, nulls: str, frame: pd.DataFrame) -> None:
    # Catches rows counted in place of keys, another order of a user's keys, another sum or sign of a
    # key, and users without a key that count.
    frame = frame[["user", key]]
    if nulls == "drop":
        frame = frame.mask(np.random.default_rng(3).random(frame.shape) < 0.05)
        frame = frame.astype(object).where(frame.notna(), None)
    counting = Counting(key=key, user="user", max_keys_per_user=1, nulls=nulls)
    with opened(frame, counting) as query:
        expected = habits(query)
    found = spark_habits(Query.create(table(spark, frame), counting))
    assert expected[0].sum() > 0
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_release_chooses_its_bound_as_locally(df: Any, frame: pd.DataFrame, tmp_path: Path) -> None:
    # Catches a choice of its own, ε spent twice, and a debit that is not made.
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1, delta=1e-9)
    options: dict[str, Any] = {"key": "url", "user": "user", "max_keys_per_user": "auto", "epsilon": 1, "delta": 1e-9}
    with reproducible_for_tests(8):
        built = sparsedp.spark.release(df, **options, path=tmp_path / "r", parts=PARTS, ledger=ledger)
    with reproducible_for_tests(8):
        counts = sparsedp.count(frame, **options)
    assert built.plan.problem.contribution == counts.contribution
    assert built.plan.problem.epsilon == counts.left_epsilon
    debits = [(entry.mechanism, entry.epsilon) for entry in ledger.entries()]
    assert [name == "suggest" for name, _ in debits] == [True, False]
    assert debits[1][1] == counts.left_epsilon
    with pytest.raises(BudgetError):
        sparsedp.spark.release(df, **options, path=tmp_path / "again", parts=PARTS, ledger=ledger)


def test_auto_needs_users_and_is_refused_by_plan(df: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"key": "url", "max_keys_per_user": "auto", "epsilon": 1.0}
    with pytest.raises(ParameterError, match="user must be given"):
        sparsedp.spark.release(df, **options, path=tmp_path / "r")
    with pytest.raises(ParameterError, match="suggest"):
        sparsedp.spark.plan(df, **options, user="user")


def test_the_ledger_gets_the_law_of_the_bound_that_was_chosen(df: Any, tmp_path: Path) -> None:
    # Catches the event of the draft for one key, which would state a much smaller loss.
    ledger = Ledger.create(tmp_path / "l.db", epsilon=9, delta=1e-6)
    options: dict[str, Any] = {"key": "url", "user": "user", "max_keys_per_user": "auto", "epsilon": 2, "delta": 1e-6}
    with reproducible_for_tests(8):
        built = sparsedp.spark.release(df, **options, noise="gaussian", path=tmp_path / "r", parts=PARTS, ledger=ledger)
    bound = built.plan.problem.contribution
    assert bound is not None
    assert bound.keys > 1
    event = ledger.entries()[1].event
    assert event is not None
    assert event.startswith(f"gaussian: {bound.keys} draws by 1 ")
