"""A table of events, and whether two releases are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sparsedp import Release

PARTS = 3
OF_COUNT = ("key", "user", "value", "step", "signed", "max_keys_per_user", "max_per_key")


def events(rows: int = 8_000, seed: int = 0) -> pd.DataFrame:
    """Users with at most 30 rows each, pages, and amounts of quarters."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "user": [f"user {at // 30}" for at in range(rows)],
            "url": [f"/page/{page}" for page in random.zipf(1.4, rows) % 2000],
            "page": random.zipf(1.4, rows) % 2000,
            "amount": random.integers(0, 40, rows) / 4,
            "change": random.integers(-9, 10, rows),
        }
    )


def counting_of(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of `count` alone out of those of a release."""
    return {name: options.pop(name) for name in OF_COUNT if name in options}


def table(spark: Any, frame: pd.DataFrame) -> Any:
    """The events as a DataFrame of Spark."""
    return spark.createDataFrame(frame)


def same(one: Release, other: Release) -> bool:
    """Whether two releases have the same plan and the same arrays."""
    arrays = [[array for side in release.sides for part in side for array in part.items()] for release in (one, other)]
    return one.plan == other.plan and all(
        a == b and np.array_equal(x, y) for (a, x), (b, y) in zip(*arrays, strict=True)
    )
