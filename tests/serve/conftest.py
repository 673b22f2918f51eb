"""Files to serve, and the service in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sparsedp
from serving import COUNTS, Running, running
from sparsedp.serve.catalog import Source


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Releases of every kind of key, and three days of a series."""
    folder = tmp_path_factory.mktemp("served")
    plain: dict[str, Any] = {"epsilon": 1.0, "nonzero": 100}
    sparsedp.release(COUNTS, **plain).save(folder / "visits.sparsedp")
    kept: dict[str, Any] = {**plain, "delta": 1e-6, "mechanism": "stability", "keep_keys": True}
    sparsedp.release({**COUNTS, "c": 300}, **kept).save(folder / "named.sparsedp")
    sparsedp.release({2**63: 900, -5: 800, 7: 100}, **kept).save(folder / "numbers.sparsedp")
    sparsedp.release({b"\x00\xff": 900, b"text": 800}, **kept).save(folder / "bytes.sparsedp")
    pairs = {("2026-11-01", "/"): 900, ("2026-11-02", "/a"): 500}
    sparsedp.release(pairs, **kept).save(folder / "pairs.sparsedp")
    sparsedp.release({3: 900, 5: 100}, epsilon=1.0, domain=50).save(folder / "small.sparsedp")
    sparsedp.release(COUNTS, **plain, parts=3).save(folder / "parts.sparsedp")
    days = folder / "days"
    days.mkdir()
    for day in (1, 2, 3):
        sparsedp.release({"a": 1000 * day, "b": 100}, **plain).save(days / f"visits-2026-11-0{day}.sparsedp")
    return folder


@pytest.fixture(scope="session")
def sources(folder: Path) -> list[Source]:
    files = sorted(folder.glob("*.sparsedp"))
    return [*(Source.of_file(str(path)) for path in files), Source.of_series(f"days={folder}/days")]


@pytest.fixture(scope="session")
def served(sources: list[Source]) -> Running:
    """All of them. Tests only read it."""
    return running(sources)
