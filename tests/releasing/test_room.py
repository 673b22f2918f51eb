"""A release that is too large for this machine is refused before its budget is spent."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sparsedp
from sparsedp.releasing import room


@pytest.fixture
def ledger(tmp_path: Path) -> sparsedp.Ledger:
    return sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=1.0)


@pytest.mark.parametrize("size", [{"nonzero": 10**15}, {"total": 2**70}, {"nonzero": 10**15, "parts": 4}])
def test_what_is_larger_than_the_memory_is_refused_and_nothing_is_spent(
    size: dict[str, Any], ledger: sparsedp.Ledger, tmp_path: Path
) -> None:
    with pytest.raises(sparsedp.ParameterError, match=r"bytes( in each part)?, and there are .* bytes of memory here"):
        sparsedp.release({"a": 1}, epsilon=1.0, ledger=ledger, path=tmp_path / "out", **size)
    assert ledger.datasets()[0].left_epsilon == 1.0
    assert not (tmp_path / "out").exists()


def test_what_is_larger_than_the_room_on_the_disk_is_refused(
    ledger: sparsedp.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10_000))
    with pytest.raises(sparsedp.ParameterError, match=r"has room for 1e\+04"):
        sparsedp.release({"a": 1}, epsilon=1.0, nonzero=10_000, ledger=ledger, path=tmp_path / "out")
    assert ledger.datasets()[0].left_epsilon == 1.0
    sparsedp.release({"a": 1}, epsilon=1.0, nonzero=10, ledger=ledger, path=tmp_path / "out")


def test_a_place_that_cannot_be_written_is_told_before_its_room(ledger: sparsedp.Ledger) -> None:
    # Catches "has room for 0 bytes" where no disk would help.
    with pytest.raises(OSError, match=r"/proc/a\.sparsedp"):
        sparsedp.release({"a": 1}, epsilon=1.0, nonzero=10, ledger=ledger, path="/proc/a.sparsedp")
    assert ledger.datasets()[0].left_epsilon == 1.0


def test_a_limit_of_the_process_counts_as_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    everything = room.memory_here()
    assert everything is not None
    assert everything > 2**30
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**20, 2**20))
    assert room.memory_here() == 2**20
