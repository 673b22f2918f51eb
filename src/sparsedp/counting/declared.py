"""Which declared types of columns can be keys, users and values; all others are refused with the
cast to use.
"""

from __future__ import annotations

import re

from ..errors import InputError
from .canonical import INTEGERS, TEXTS, tells_users_apart
from .request import Counting
from .scans import Scan

_NUMBERS = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(.*\)|VARCHAR")
# Types whose values have exactly one text under all settings of the database: no time zones and no
# floats.
_AS_TEXT = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BOOLEAN|UUID|DATE|TIME|TIMESTAMP(_S|_MS|_NS)?|DECIMAL\(.*\)"
)


def check_types(table: Scan, counting: Counting) -> None:
    """`InputError`, with the cast to use, for columns whose type does not fit their role."""
    _check_key(table, counting.key, counting.key_type)
    if counting.domain is not None:
        _check_domain(table, counting.key, counting.key_type)
    if counting.user is not None:
        _check_user(table, counting.user)
    if counting.value is not None:
        _check_value(table, counting.value, real=counting.grid is not None)


def reads_integers(kind: str, key_type: str) -> bool:
    """Whether keys of this type are text to be read as integers."""
    return key_type == "integer" and TEXTS.fullmatch(kind) is not None


def _has(table: Scan, column: str) -> str:
    """The type of a column in words, without the values of an ENUM, which are data."""
    return f"column {column!r} has {re.sub(r'ENUM[(].*[)]', 'ENUM', table.types[column], flags=re.DOTALL)} values"


def _check_key(table: Scan, key: str, key_type: str) -> None:
    kind, what = table.types[key], _has(table, key)
    plain = TEXTS.fullmatch(kind) or INTEGERS.fullmatch(kind)
    if plain or (key_type == "as stored" and kind == "BLOB"):
        return
    if key_type == "text" and _AS_TEXT.fullmatch(kind):
        return
    if key_type == "integer":
        # A cast here would round, or lose digits beyond 2^53, so the caller decides.
        fix = table.cast(key, "BIGINT") if _NUMBERS.fullmatch(kind) else "name another column"
        raise InputError(f"{what}, and integer keys must be integers, or text in decimal digits; {fix}")
    fix = "pass key_type='text' to use their text"
    if kind == "BLOB":
        raise InputError(f"{what}, which are not text; omit key_type= to use the bytes as they are")
    if not _AS_TEXT.fullmatch(kind):
        fix = table.cast(key, "VARCHAR")
    raise InputError(f"{what}, and keys must be text, bytes or 64-bit integers; {fix}")


def _check_domain(table: Scan, key: str, key_type: str) -> None:
    kind = table.types[key]
    if reads_integers(kind, key_type) or (INTEGERS.fullmatch(kind) and key_type != "text"):
        return
    fix = "pass key_type='integer' to read them as integers, or omit domain= to hash them"
    if not TEXTS.fullmatch(kind):
        fix = "omit domain= to hash them"
    raise InputError(f"keys must be integers below domain=, and {_has(table, key)}; {fix}")


def _check_user(table: Scan, user: str) -> None:
    kind = table.types[user]
    if not tells_users_apart(kind):
        fix = table.cast(user, "BIGINT" if kind in ("FLOAT", "DOUBLE") else "VARCHAR")
        raise InputError(f"{_has(table, user)}, and users must be text, bytes, integers, dates or truth values; {fix}")


def _check_value(table: Scan, value: str, real: bool) -> None:
    kind = table.types[value]
    if not _NUMBERS.fullmatch(kind):
        fix = table.cast(value, "BIGINT") if kind == "BOOLEAN" else "name another column"
        raise InputError(f"{_has(table, value)}, and values to sum must be numbers; {fix}")
    if not real and not INTEGERS.fullmatch(kind) and kind not in ("HUGEINT", "VARCHAR"):
        raise InputError(f"column {value!r} has real values ({kind}); pass step=, the grid of the sums")
