"""A remote release answers as the same file on disk does, bit for bit, from the lines it reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import numpy.typing as npt
import pytest

import sparsedp
from releases import COMPOSITE, CUT_LAWS, DIRECTORIES, VARIANTS, keys_of, make
from sparsedp import ParameterError, Release
from sparsedp.format import remote, sheet

EVERY = [*VARIANTS, *DIRECTORIES, *CUT_LAWS, *COMPOSITE]
GOLDEN = Path(__file__).parents[1] / "golden"


def _garbage(size: int) -> npt.NDArray[np.uint8]:
    return np.full(size, 0xA7, np.uint8)


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read that need not be, and what was not read is garbage."""
    for name, value in {"HEAD": 64, "GAP": 0, "_SHORT": 0}.items():
        monkeypatch.setattr(remote, name, value)
    monkeypatch.setattr(sheet, "reserved", _garbage)


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


def served(memory: Any, path: Path) -> Release:
    for file in [path] if path.is_file() else path.iterdir():
        memory.pipe_file("/" + str(file.relative_to(path.parent)), file.read_bytes())
    return sparsedp.load(f"memory://{path.name}", allow_reproducible=True)


def compare(here: Release, there: Release, keys: Any) -> None:
    reader = here._readers[0]
    for estimator in reader.estimators:
        for prior in reader.priors:
            try:
                mine = here.lookup(keys, estimator=estimator, prior=prior, clamp=False)
            except ParameterError:  # balanced answers have no mean
                continue
            assert np.array_equal(mine, there.lookup(keys, estimator=estimator, prior=prior, clamp=False))
    for prior in reader.priors:
        assert np.array_equal(here.interval(keys, 0.9, prior=prior), there.interval(keys, 0.9, prior=prior))
    together = np.array([here.lookup(keys), *here.interval(keys, 0.9)])
    for release in (here, there):
        assert np.array_equal(together, release.answer(keys, 0.9))
    assert summed(here, keys) == summed(there, keys)


def summed(release: Release, keys: Any) -> object:
    try:
        return release.sum(keys)
    except ParameterError as error:  # some mechanisms have no sums
        return str(error)


@pytest.mark.parametrize("name", EVERY)
def test_every_release_answers_the_same(name: str, memory: Any, tmp_path: Path) -> None:
    release = make(name)
    release.save(tmp_path / name)
    here, there = sparsedp.load(tmp_path / name, allow_reproducible=True), served(memory, tmp_path / name)
    keys = keys_of(name, 100)
    compare(here, there, keys)
    first: Any = next(zip(*keys.values(), strict=True)) if name in COMPOSITE else 3
    one = first[0] if name == "day" else first
    assert here[one] == there[one]
    assert (here.filled, here.overload, here.plan, repr(here)) == (
        there.filled,
        there.overload,
        there.plan,
        repr(there),
    )
    assert here.plan.error(2) == there.plan.error(2)
    for mine, other in zip(here.stored(), there.stored(), strict=True):
        assert np.array_equal(mine, other)
    if release.plan.problem.keep_keys:
        assert here.kept_keys() == there.kept_keys()
    assert str(here.top(5, candidates=keys)) == str(there.top(5, candidates=keys))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("format-1/*.sparsedp")), ids=lambda path: path.stem)
def test_old_files_answer_the_same(path: Path, memory: Any) -> None:
    here, there = sparsedp.load(path, allow_reproducible=True), served(memory, path)
    keys = np.arange(100)
    assert np.array_equal(here.lookup(keys), there.lookup(keys))
    assert np.array_equal(here.interval(keys), there.interval(keys))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"domain": 1 << 40},
        {"delta": 1e-9, "mechanism": "retrieval"},
        {"delta": 1e-9, "mechanism": "retrieval", "nonzero": 500},  # too small: nothing is filled
        {"mechanism": "threshold", "domain": 1 << 30},
        {"mechanism": "threshold-alp", "parts": 1},
        {"parts": 5},
        {"parts": 4, "domain": 1 << 40},
        {"parts": 3, "delta": 1e-9, "mechanism": "retrieval"},
        {"signed": True, "step": 0.5},
    ],
    ids=str,
)
def test_long_tables_answer_the_same(options: dict[str, Any], memory: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    keys = random.choice(1 << 20, 6000, replace=False)
    values = random.zipf(1.3, 6000).clip(max=10_000)
    signs = random.choice([-1, 1], 6000) if options.get("signed") else 1
    release = sparsedp.release((keys, values * signs), **{"epsilon": 1.0, "nonzero": 6000, **options})
    release.save(tmp_path / "a.sparsedp")
    here, there = sparsedp.load(tmp_path / "a.sparsedp"), served(memory, tmp_path / "a.sparsedp")
    for asked in (keys[:1], keys[:300], np.concatenate([keys[::2], keys[:100], random.integers(0, 1 << 20, 3000)])):
        compare(here, there, asked)


def test_many_keys_are_asked_for_in_pieces(memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparsedp.mechanisms.gathering._PIECE", 700)
    keys = np.arange(5000)
    sparsedp.release((keys, 1 + keys % 300), epsilon=1.0, nonzero=5000).save(tmp_path / "a.sparsedp")
    here, there = sparsedp.load(tmp_path / "a.sparsedp"), served(memory, tmp_path / "a.sparsedp")
    compare(here, there, keys[::-1])
    assert len(there.lookup(keys[:0])) == 0
