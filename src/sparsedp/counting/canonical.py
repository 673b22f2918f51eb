"""Canonical bytes of users and keys, and the hash that orders a user's keys: one function, in
DuckDB and in Spark.

Text is its UTF-8, bytes are themselves, integers are decimal digits, dates are ISO text, truth
values are `true` and `false`, timestamps are the decimal digits of their number of units since 1970.
The hash of a pair is MD5 of the user's bytes and those of each column of the key, one after the
other; all but the last have the number of their bytes in decimal and a colon before them, so no two
pairs have the same such string. A user's keys are ordered by this digest, read as an integer with
the lowest byte first. MD5 need not be secure here: any fixed function would do (docs/privacy.md,
"Bounded contributions"), and every database has this one.
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


def order_of(columns: Sequence[tuple[str, str]], digest: str = "md5_number") -> str:
    """DuckDB's SQL for the hash of a user and the columns of a key; names and types come from
    `grouped`.
    """
    binary = any(kind == "BLOB" for _, kind in columns)
    texts = [column if kind in ("VARCHAR", "BLOB") else f"CAST({column} AS VARCHAR)" for column, kind in columns]
    if not binary:
        return f"{digest}(concat({', '.join(_told_apart(texts, 'strlen({0})'))}))"
    each = [text if kind == "BLOB" else f"encode({text})" for text, (_, kind) in zip(texts, columns, strict=True)]
    pieces = [
        f"encode({piece})" if piece == "':'" else piece
        for piece in _told_apart(each, "encode(CAST(octet_length({0}) AS VARCHAR))")
    ]
    return f"{digest}({' || '.join(pieces)})"


def _told_apart(pieces: Sequence[str], length: str) -> list[str]:
    """The pieces, each but the last with its length and a colon before it."""
    *first, last = pieces
    return [*(one for piece in first for one in (length.format(piece), "':'", piece)), last]


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
    pieces: list[Column] = []
    for own in each[:-1]:
        length = functions.concat(functions.octet_length(own).cast("string"), functions.lit(":"))
        pieces += [length.cast("binary"), own]
    return functions.md5(functions.concat(*pieces, each[-1]))


def spark_order_of(digest: Column) -> Column:
    """The order of digests. Spark computes an expression again wherever it stands, so this should be
    given a column, and not what computes it.
    """
    from pyspark.sql import functions

    # Reversed bytes compare like the integer whose lowest byte comes first.
    return functions.concat(*(functions.substring(digest, 2 * at + 1, 2) for at in reversed(range(_DIGEST_BYTES))))


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
