"""Canonical bytes of users and keys, and the hash that orders a user's keys: one function, in
DuckDB and in Spark.

Text is its UTF-8, bytes are themselves, integers are decimal digits, dates are ISO text, truth
values are `true` and `false`, timestamps are the decimal digits of their number of units since 1970.
The hash of a pair is MD5 of the user's bytes and those of each column of the key, one after the
other. All but the last are told apart from what follows: text and bytes have the number of their
bytes in decimal and a colon before them, and other types, in which there is no colon, have one
after them. So no two pairs have the same such string. A user's keys are ordered by the first four
bytes of this digest, read as an integer with the lowest byte first. MD5 need not be secure here:
any fixed function would do (docs/privacy.md, "Bounded contributions"), and every database has this
one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..keys.kinds import ColumnKind

if TYPE_CHECKING:
    from pyspark.sql import Column

TEXTS = re.compile(r"VARCHAR|ENUM\(.*\)", re.DOTALL)
INTEGERS = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)")
# Types of users other than text: each value has exactly one text, and no row influences the type.
_USERS = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BLOB|DATE|BOOLEAN|UUID")

SPARK_INTEGERS = ("tinyint", "smallint", "int", "bigint")
SPARK_TIMES: dict[str, ColumnKind] = {"timestamp": "timestamp[us, UTC]", "timestamp_ntz": "timestamp[us]"}
SPARK_USERS = ("string", "binary", "date", "boolean", *SPARK_INTEGERS)

_ORDER_BYTES = 4
_LOWEST = (1 << 8 * _ORDER_BYTES) - 1


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


def order_of(columns: Sequence[tuple[str, str]]) -> str:
    """DuckDB's SQL for the hash of a user and the columns of a key; names and types come from
    `grouped`.
    """
    texts = [column if kind in ("VARCHAR", "BLOB") else f"CAST({column} AS VARCHAR)" for column, kind in columns]
    kinds = [kind for _, kind in columns]
    if "BLOB" in kinds:
        texts = [text if kind == "BLOB" else f"encode({text})" for text, kind in zip(texts, kinds, strict=True)]
        length, colon, joined = "encode(CAST(octet_length({0}) AS VARCHAR))", "encode(':')", "({0})"
        pieces = " || ".join(_told_apart(texts, kinds, length, colon))
    else:
        length, colon, joined = "strlen({0})", "':'", "concat({0})"
        pieces = ", ".join(_told_apart(texts, kinds, length, colon))
    # Not md5_number_lower or _upper, which take four times as long.
    return f"CAST(md5_number({joined.format(pieces)}) & {_LOWEST}::UHUGEINT AS UINTEGER)"


def _told_apart(texts: Sequence[str], kinds: Sequence[str], length: str, colon: str) -> list[str]:
    """The texts, each but the last so that it can be told apart from what follows."""
    pieces: list[str] = []
    for text, kind in zip(texts[:-1], kinds, strict=False):
        pieces += [length.format(text), colon, text] if kind in ("VARCHAR", "BLOB") else [text, colon]
    return [*pieces, texts[-1]]


def spark_byte_of_key(columns: Sequence[tuple[str, str]]) -> Column:
    """The lowest byte of the hash of a key alone, for columns of Spark."""
    from pyspark.sql import functions

    return functions.conv(functions.substring(spark_digest_of(columns), 1, 2), 16, 10).cast("int")


def spark_digest_of(columns: Sequence[tuple[str, str]]) -> Column:
    """The same hash for columns of Spark, by their names, which are plain words, and types: its
    bytes in hexadecimal.
    """
    from pyspark.sql import functions

    each = [_spark_bytes(name, kind) for name, kind in columns]
    colon = functions.lit(":")
    pieces: list[Column] = []
    for own, (_, kind) in zip(each[:-1], columns, strict=False):
        if kind in ("string", "binary"):
            length = functions.concat(functions.octet_length(own).cast("string"), colon)
            pieces += [length.cast("binary"), own]
        else:
            pieces += [own, colon.cast("binary")]
    return functions.md5(functions.concat(*pieces, each[-1]))


def spark_order_of(digest: Column) -> Column:
    """The order of digests. Spark computes an expression again wherever it stands, so this should be
    given a column, and not what computes it.
    """
    from pyspark.sql import functions

    # Reversed bytes compare like the integer whose lowest byte comes first.
    return functions.concat(*(functions.substring(digest, 2 * at + 1, 2) for at in reversed(range(_ORDER_BYTES))))


def _spark_bytes(name: str, kind: str) -> Column:
    """The canonical bytes of a column of Spark."""
    from pyspark.sql import functions

    if kind == "binary":
        return functions.col(name)
    numbers = {
        "timestamp": f"unix_micros({name})",
        "timestamp_ntz": f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {name})",
    }
    return functions.expr(numbers.get(kind, name)).cast("string").cast("binary")
