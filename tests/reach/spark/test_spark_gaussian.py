"""Gaussian noise on Spark: the local release bit for bit, and chosen as there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sparsedp
import sparsedp.spark
from spark_kinds import GAUSSIAN, GAUSSIAN_ON_SPARK
from spark_tables import PARTS, counting_of, same
from sparsedp.privacy.randomness import reproducible_for_tests


@pytest.mark.parametrize("kind", GAUSSIAN_ON_SPARK)
def test_a_gaussian_release_is_the_local_one_bit_for_bit(
    kind: str, df: Any, frame: pd.DataFrame, tmp_path: Path
) -> None:
    # Catches laws that do not survive the way to the executors, coins of another stream, and a size
    # from another number than the local one.
    asked = {"key": "url", "user": "user", **GAUSSIAN[kind]}
    counting = counting_of(asked)
    options: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-9, "noise": "gaussian", "parts": PARTS, **asked}
    with reproducible_for_tests(6):
        built = sparsedp.spark.release(df.repartition(4), **counting, path=tmp_path / "r", **options)
    with reproducible_for_tests(6):
        local = sparsedp.release(sparsedp.count(frame, **counting), **options)
    assert built.plan.problem.gaussian
    assert same(built, local)
    sparsedp.verify(tmp_path / "r")
    assert sparsedp.spark.plan(df, **counting, **options).problem.gaussian


def test_noise_is_chosen_as_locally(df: Any) -> None:
    # Catches a request that loses the bounds of a user on its way, and then plans geometric noise.
    for keys in (1, 100):
        options: dict[str, Any] = {
            "epsilon": 1.0,
            "delta": 1e-9,
            "parts": PARTS,
            "max_keys_per_user": keys,
            "nonzero": 2000,
        }
        planned = sparsedp.spark.plan(df, key="url", user="user", **options)
        assert planned.problem.gaussian == sparsedp.plan(**options).problem.gaussian == (keys == 100)
