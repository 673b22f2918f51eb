"""Gaussian noise on Spark: the local release bit for bit, and one noisy number of keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparsedp
import sparsedp.spark
from spark_kinds import GAUSSIAN, GAUSSIAN_ON_SPARK
from spark_tables import PARTS, counting_of, same
from sparsedp.format.container import read
from sparsedp.format.description import HEADER_NAME
from sparsedp.keys.hashing import Partition
from sparsedp.mechanisms.gaussian import GaussianSize
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


def test_the_ledger_gets_the_law_that_it_gets_locally(df: Any, frame: pd.DataFrame, tmp_path: Path) -> None:
    ledger = sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=5, delta=1e-6, accounting="pld")
    counting: dict[str, Any] = {"key": "url", "user": "user", "max_keys_per_user": 20}
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-8, "noise": "gaussian", "parts": PARTS, "ledger": ledger}
    sparsedp.spark.release(df, **counting, path=tmp_path / "r", **options)
    sparsedp.release(sparsedp.count(frame, **counting), **options)
    spark, local = ledger.entries()
    assert spark.event is not None
    assert spark.event == local.event
    with pytest.raises(sparsedp.BudgetError, match="nothing was spent"):  # before a job is run
        sparsedp.spark.release(df, **counting, path=tmp_path / "s", **options | {"epsilon": 9.0})


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


def test_one_noisy_number_of_keys_is_published(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tables that differ outside of the fullest part have the same header but for the digests of
    # their parts. Catches numbers of all parts in the header, or a size from their sum.
    counted: list[list[int]] = []
    noisy = GaussianSize.noisy

    def watched(self: GaussianSize, numbers: Any, randomness: Any) -> list[int]:
        counted.append(list(numbers))
        return noisy(self, numbers, randomness)

    monkeypatch.setattr(GaussianSize, "noisy", watched)

    def header(keys: list[int], name: str) -> tuple[sparsedp.Release, dict[str, Any]]:
        df = spark.createDataFrame([(key, f"user {key % 50}") for key in keys], "key bigint, user string")
        with reproducible_for_tests(8):
            release = sparsedp.spark.release(
                df,
                key="key",
                user="user",
                max_keys_per_user=20,
                epsilon=20,  # little noise, so that the number is not cut at its least value
                delta=1e-9,
                noise="gaussian",
                mechanism="retrieval",
                parts=PARTS,
                path=tmp_path / name,
            )
        return release, dict(read(tmp_path / name / HEADER_NAME).description)

    first, described = header(list(range(600)), "first")
    part_of = Partition(PARTS, True).part_of(first.key_space.ids(list(range(5000))))
    sizes = np.bincount(part_of[:600].astype(np.int64), minlength=PARTS)
    assert counted == [sizes.tolist()]  # every key is counted, as nobody has more than 20
    most = int(sizes.max())
    emptiest, fullest = (
        [key for key in range(600, 5000) if part_of[key] == part] for part in (sizes.argmin(), sizes.argmax())
    )
    _, others = header([*range(600), *emptiest[: most - int(sizes.min())]], "more elsewhere")
    assert counted[1] != counted[0]
    assert {name for name in described if described[name] != others[name]} == {"checksums"}  # that of the digests
    assert set(read(tmp_path / "first" / HEADER_NAME).arrays) == {"parts.sha256"}
    third, _ = header([*range(600), *fullest[:400]], "more in the fullest part")
    assert (first.plan.problem.nonzero or 0) > PARTS  # the least is 1 for a part
    assert (third.plan.problem.nonzero or 0) > (first.plan.problem.nonzero or 0) + 400
