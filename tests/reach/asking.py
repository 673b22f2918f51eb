"""Keys of every kind, and releases of them, for tests that ask through other systems."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import sparsedp
from sparsedp import Release

_NOON = datetime(2024, 2, 29, 12, 30)
_DAYS = [date(2024, 2, 28) + timedelta(days=at) for at in range(4)]

KINDS: dict[str, Any] = {
    "text": ["a", "", "ü" * 40, "b"],
    "integer": [3, -7, 2**62, 0],
    "bytes": [b"a", b"", b"\xff" * 40, b"b"],
    "date": _DAYS,
    "timestamp": [_NOON + timedelta(microseconds=at) for at in range(4)],
    "instant": [(_NOON + timedelta(hours=at)).replace(tzinfo=timezone.utc) for at in range(4)],
    "several columns": [(day, f"page {at}", at % 2 == 0, at - 2, bytes([at])) for at, day in enumerate(_DAYS)],
}


def release_of(keys: Any, **options: Any) -> Release:
    """A release in which each of these keys has a large count of its own; made once."""
    what = repr((keys, options))
    if what not in _MADE:
        counts = [1000 * (at + 1) for at in range(len(keys))]
        _MADE[what] = sparsedp.release((keys, counts), epsilon=1.0, nonzero=10, **options)
    return _MADE[what]


_MADE: dict[str, Release] = {}
