"""A table to release."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of visits in an empty folder, which becomes the current folder."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    users = generator.integers(0, 300, 6000)
    urls = [f"page {key}" for key in generator.zipf(1.5, 6000) % 500]
    pd.DataFrame({"user": users, "url": urls, "seconds": 1.5}).to_parquet("visits.parquet")
    return tmp_path
