"""Which declared types of columns can be keys, users and values; all others are refused with the
cast to use.
"""

from __future__ import annotations

from ..errors import InputError
from .canonical import INTEGERS, tells_users_apart
from .key_columns import NUMBERS, key_sources
from .request import Counting
from .scans import Scan


def check_types(table: Scan, counting: Counting) -> None:
    """`InputError`, with the cast to use, for columns whose type does not fit their role."""
    key_sources(table, counting)
    if counting.user is not None:
        _check_user(table, counting.user)
    if counting.value is not None:
        _check_value(table, counting.value, real=counting.grid is not None)


def _check_user(table: Scan, user: str) -> None:
    kind = table.types[user]
    if not tells_users_apart(kind):
        fix = table.cast(user, "BIGINT" if kind in ("FLOAT", "DOUBLE") else "VARCHAR")
        raise InputError(f"{table.has(user)}, and users must be text, bytes, integers, dates or truth values; {fix}")


def _check_value(table: Scan, value: str, real: bool) -> None:
    kind = table.types[value]
    if not NUMBERS.fullmatch(kind):
        fix = table.cast(value, "BIGINT") if kind == "BOOLEAN" else "name another column"
        raise InputError(f"{table.has(value)}, and values to sum must be numbers; {fix}")
    if not real and not INTEGERS.fullmatch(kind) and kind not in ("HUGEINT", "VARCHAR"):
        raise InputError(f"column {value!r} has real values ({kind}); pass step=, the grid of the sums")
