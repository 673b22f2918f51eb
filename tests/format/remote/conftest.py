"""Files on a server that can fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sparsedp
from releases import make
from remote_files import KEYS, NAME
from sparsedp import Release
from sparsedp.format import transport
from web import FaultyServer


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release whose arrays are long enough to be read in pieces, and one in parts."""
    folder = tmp_path_factory.mktemp("served")
    options: dict[str, Any] = {"epsilon": 1.0, "nonzero": len(KEYS)}
    sparsedp.release((KEYS, 1 + 400 * (KEYS % 50 == 0)), **options).save(folder / NAME)
    make("tight-alp-parts").save(folder / "in.parts")
    return folder


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.0)


@pytest.fixture
def server(folder: Path) -> Iterator[FaultyServer]:
    with FaultyServer(folder) as serving:
        yield serving
        serving.released.set()


@pytest.fixture
def opened(server: FaultyServer) -> Release:
    return sparsedp.load(server.url + NAME)
