"""Files to attack."""

from __future__ import annotations

from pathlib import Path

import pytest

from forged_files import FILES
from releases import make


@pytest.fixture(scope="session")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of all variants."""
    path = tmp_path_factory.mktemp("attacks") / "a.sparsedp"
    result = {}
    for name in FILES:
        make(name).save(path)
        result[name] = path.read_bytes()
    return result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "attack.sparsedp"
