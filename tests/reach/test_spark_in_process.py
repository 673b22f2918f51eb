"""Releases that Spark builds are the local ones bit for bit, with their sizes and debits: the kinds
that `spark/` does not build on a real Spark, in this process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
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
from sparsedp.format.container import read
from sparsedp.format.description import HEADER_NAME
from sparsedp.keys.hashing import Partition
from sparsedp.mechanisms.gaussian import GaussianSize
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


@pytest.mark.parametrize(("mechanism", "delta"), [("retrieval", 1e-6), ("threshold", 0.0)])
def test_integers_of_a_domain_are_their_own_ids(
    mechanism: str, delta: float, frame: pd.DataFrame, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"domain": 2000, "nonzero": 2000, "delta": delta, "mechanism": mechanism}
    built, local = both(frame, tmp_path, key="page", **options)
    assert not built.plan.problem.hashed
    assert same(built, local)


OTHERS = [(key, named) for key in KEYS for named in (False, True) if (key, named) not in KEYS_ON_SPARK]


@pytest.mark.parametrize(("key", "named"), OTHERS, ids=str)
def test_keys_of_several_columns(key: Any, named: bool, typed: pa.Table, tmp_path: Path) -> None:
    built, local = both(typed, tmp_path, key=key, user="user", max_keys_per_user=2, max_per_key=2, **OPTIONS[named])
    assert same(built, local)
    assert built.key_columns == local.key_columns
    if named:
        assert built.kept_keys() == local.kept_keys() != []


def test_the_ledger_gets_the_law_that_it_gets_locally(frame: pd.DataFrame, tmp_path: Path) -> None:
    ledger = sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=5, delta=1e-6, accounting="pld")
    counting: dict[str, Any] = {"key": "url", "user": "user", "max_keys_per_user": 20}
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-8, "noise": "gaussian", "parts": PARTS, "ledger": ledger}
    counts = sparsedp.count(frame, **counting)
    df = Frame(pa.Table.from_pandas(frame, preserve_index=False), counts)
    sparsedp.spark.release(df, **counting, path=tmp_path / "r", **options)
    sparsedp.release(counts, **options)
    spark, local = ledger.entries()
    assert spark.event is not None
    assert spark.event == local.event
    with pytest.raises(sparsedp.BudgetError, match="nothing was spent"):  # before a row is read
        sparsedp.spark.release(df, **counting, path=tmp_path / "s", **options | {"epsilon": 9.0})


def test_one_noisy_number_of_keys_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tables that differ outside of the fullest part have the same header but for the digests of
    # their parts. Catches numbers of all parts in the header, or a size from their sum.
    counted: list[list[int]] = []
    noisy = GaussianSize.noisy

    def watched(self: GaussianSize, numbers: Any, randomness: Any) -> list[int]:
        counted.append(list(numbers))
        return noisy(self, numbers, randomness)

    monkeypatch.setattr(GaussianSize, "noisy", watched)

    def header(keys: list[int], name: str) -> tuple[sparsedp.Release, dict[str, Any]]:
        table = pa.table({"key": keys, "user": [f"user {key % 50}" for key in keys]})
        counting: dict[str, Any] = {"key": "key", "user": "user", "max_keys_per_user": 20}
        with reproducible_for_tests(8):
            release = sparsedp.spark.release(
                Frame(table, sparsedp.count(table, **counting)),
                **counting,
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
