"""Canonical bytes of users and keys, and the hash that orders a user's keys: one function, in
DuckDB and in Spark.

Text is its UTF-8, bytes are themselves, integers are decimal digits, dates are ISO text, truth
values are `true` and `false`. The hash of a pair is MD5 of the number of the user's bytes in
decimal, a colon, the user's bytes and the key's bytes: no two pairs have the same such string. A
user's keys are ordered by this digest, read as an integer with the lowest byte first. MD5 need not
be secure here: any fixed function would do (docs/privacy.md, "Bounded contributions"), and every
database has this one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

TEXTS = re.compile(r"VARCHAR|ENUM\(.*\)", re.DOTALL)
INTEGERS = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)")
# Types of users other than text: each value has exactly one text, and no row influences the type.
_USERS = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BLOB|DATE|BOOLEAN|UUID")

SPARK_INTEGERS = ("tinyint", "smallint", "int", "bigint")
SPARK_USERS = ("string", "binary", "date", "boolean", *SPARK_INTEGERS)

_DIGEST_BYTES = 16


def tells_users_apart(kind: str) -> bool:
    """Whether a column of this type of DuckDB has canonical bytes."""
    return (TEXTS.fullmatch(kind) or _USERS.fullmatch(kind)) is not None


def grouped(sql: str, kind: str, binary_text: bool) -> tuple[str, str]:
    """SQL to group a column by its bytes, and its type; collations and the codes of an ENUM have no
    influence.
    """
    if not TEXTS.fullmatch(kind):
        return sql, kind
    text = sql if kind == "VARCHAR" else f"CAST({sql} AS VARCHAR)"
    return (text, "VARCHAR") if binary_text else (f"encode({text})", "BLOB")


def order_of(user: str, user_kind: str, key: str, key_kind: str) -> str:
    """DuckDB's SQL for the hash of a user and a key; their types come from `grouped`."""
    user, key = (
        column if kind in ("VARCHAR", "BLOB") else f"CAST({column} AS VARCHAR)"
        for column, kind in ((user, user_kind), (key, key_kind))
    )
    if "BLOB" not in (user_kind, key_kind):
        return f"md5_number(concat(strlen({user}), ':', {user}, {key}))"
    user_bytes, key_bytes = (
        column if kind == "BLOB" else f"encode({column})" for column, kind in ((user, user_kind), (key, key_kind))
    )
    return f"md5_number(encode(concat(octet_length({user_bytes}), ':')) || {user_bytes} || {key_bytes})"


def hash_of_key(key: str, kind: str) -> str:
    """DuckDB's SQL for a hash of a key alone; its type comes from `grouped`."""
    return f"md5_number({key if kind in ('VARCHAR', 'BLOB') else f'CAST({key} AS VARCHAR)'})"


def spark_byte_of_key(key: Column, kind: str) -> Column:
    """The lowest byte of the same hash, for a column of Spark."""
    from pyspark.sql import functions

    digest = functions.md5(key if kind == "binary" else key.cast("string").cast("binary"))
    return functions.conv(functions.substring(digest, 1, 2), 16, 10).cast("int")


def spark_order_of(user: Column, user_kind: str, key: Column, key_kind: str) -> Column:
    """The same order for columns of Spark."""
    from pyspark.sql import functions

    user_bytes, key_bytes = (
        column if kind == "binary" else column.cast("string").cast("binary")
        for column, kind in ((user, user_kind), (key, key_kind))
    )
    length = functions.concat(functions.octet_length(user_bytes).cast("string"), functions.lit(":"))
    digest = functions.md5(functions.concat(length.cast("binary"), user_bytes, key_bytes))
    # Reversed bytes compare like the integer whose lowest byte comes first.
    reversed_bytes = [functions.substring(digest, 2 * at + 1, 2) for at in reversed(range(_DIGEST_BYTES))]
    return functions.concat(*reversed_bytes)
