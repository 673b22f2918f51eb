"""Events with columns of every type, and the keys that are made of them."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

ROWS = 3000
TYPES: dict[str, tuple[str, Any]] = {
    "user": ("int", pa.int32()),
    "day": ("date", pa.date32()),
    "page": ("string", pa.string()),
    "raw": ("binary", pa.binary()),
    "number": ("bigint", pa.int64()),
    "new": ("boolean", pa.bool_()),
    "instant": ("timestamp", pa.timestamp("us", "UTC")),
    "local": ("timestamp_ntz", pa.timestamp("us")),
}
FIRST = datetime(1969, 12, 31, 23, 59, 59, 999_999)


def rows() -> list[tuple[Any, ...]]:
    found = []
    for at in range(ROWS):
        time = FIRST + timedelta(hours=7 * (at % 11), microseconds=at % 3)
        found.append(
            (
                at % 200,
                date(1969, 12, 30) + timedelta(at % 5),
                f"/é{at % 13}",
                bytes([at % 4, 255]),
                at % 6 - 3,
                at % 2 == 0,
                time.replace(tzinfo=timezone.utc),
                time,
            )
        )
    return found


def arrow_events() -> pa.Table:
    """The events as an Arrow table."""
    return pa.table(
        {
            name: pa.array(cells, kind)
            for (name, (_, kind)), cells in zip(TYPES.items(), zip(*rows(), strict=True), strict=True)
        }
    )


KEYS = [
    ["day", "page"],
    ["page", "raw", "new"],
    ["instant", "number"],
    ["local", "instant", "day", "number"],
    "day",
    "instant",
    "local",
]
# Every type on a real Spark, several columns and one, with names and without; the others are in
# test_spark_in_process.py.
KEYS_ON_SPARK: list[tuple[Any, bool]] = [(KEYS[1], True), (KEYS[3], False), ("day", True), ("instant", False)]
# Without names and with them.
OPTIONS: dict[bool, dict[str, Any]] = {
    False: {"epsilon": 2.0, "nonzero": 400},
    True: {"epsilon": 8.0, "delta": 1e-3, "keep_keys": True, "mechanism": "stability"},
}
