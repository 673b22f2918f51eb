"""Counts of tables with and without one user."""

from __future__ import annotations

from typing import Any

import sparsedp

Rows = list[tuple[Any, Any]]  # user, key


def counted(source: object, keys: int = 1, **options: Any) -> dict[Any, int]:
    counts = sparsedp.count(source, **{"key": "k", "user": "u", "max_keys_per_user": keys, **options})
    return dict(zip(counts.keys.to_pylist(), counts.units.tolist(), strict=True))


def assert_local(with_user: dict[Any, int], without: dict[Any, int], keys: int = 1, most: int = 1) -> None:
    """The counts are those of tables with and without one user."""
    changes = [abs(with_user.get(key, 0) - without.get(key, 0)) for key in {*with_user, *without}]
    assert sum(change > 0 for change in changes) <= keys, (with_user, without)
    assert max(changes, default=0) <= most
