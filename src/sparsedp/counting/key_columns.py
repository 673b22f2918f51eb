"""The columns of the key in DuckDB: SQL for their values, of types that do not depend on rows.

As stored, a column keeps its declared type. Text can be read as integers, truth values, dates or
timestamps, each row by itself; what cannot be read is refused with its row. Timestamps can be cut to
a coarser unit or to dates, instants by UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import InputError
from ..keys.encoding import NO_TIME
from ..keys.kinds import UNITS, ColumnKind, is_column_kind, is_instant, timestamps, unit_of
from .canonical import INTEGERS, TEXTS
from .request import Counting
from .scans import Scan, quoted

# A database would also read 0x10, 1_000 and 1.5, which it rounds, as integers.
_INTEGER = "[+-]?[0-9]+"
_DAY = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-[0-9]{2}-[0-9]{2}"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_DIGITS = {"s": "", "ms": r"(\.[0-9]{1,3})?", "us": r"(\.[0-9]{1,6})?", "ns": r"(\.[0-9]{1,9})?"}

NUMBERS = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(.*\)|VARCHAR")
# Types whose values have exactly one text under all settings of the database: no time zones and no
# floats.
_AS_TEXT = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BOOLEAN|UUID|DATE|TIME|TIMESTAMP(_S|_MS|_NS)?|DECIMAL\(.*\)"
)

# Types of timestamps: their kind, and SQL for their number of units since 1970, NULL for infinity.
_TIMESTAMPS: dict[str, tuple[ColumnKind, str]] = {
    "TIMESTAMP_S": ("timestamp[s]", "epoch_ms({}) // 1000"),
    "TIMESTAMP_MS": ("timestamp[ms]", "epoch_ms({})"),
    "TIMESTAMP": ("timestamp[us]", "epoch_us({})"),
    "TIMESTAMP_NS": ("timestamp[ns]", "CASE WHEN isfinite({0}) THEN epoch_ns({0}) END"),  # a number before DuckDB 2
    "TIMESTAMP WITH TIME ZONE": ("timestamp[us, UTC]", "epoch_us({})"),
    "TIMESTAMPTZ_NS": ("timestamp[ns, UTC]", "epoch_ns({})"),
}
_TYPE_OF_KIND = {kind: stored for stored, (kind, _) in _TIMESTAMPS.items()}
_DAY_SECONDS = 86_400


def kind_of_type(stored: str) -> ColumnKind | None:
    """The kind of keys that a type of DuckDB holds; None for a type that holds no keys."""
    if TEXTS.fullmatch(stored):
        return "text"
    if INTEGERS.fullmatch(stored):
        return "integer"
    if stored in _TIMESTAMPS:
        return _TIMESTAMPS[stored][0]
    others: dict[str, ColumnKind] = {"BLOB": "bytes", "BOOLEAN": "boolean", "DATE": "date"}
    return others.get(stored)


@dataclass(frozen=True)
class KeySource:
    """One column of the key: its name, its type in the table, and the kind that it is counted as."""

    name: str
    stored: str
    kind: ColumnKind
    domain: int | None = None

    @property
    def is_read(self) -> bool:
        """Whether it is text to be read as something else."""
        return TEXTS.fullmatch(self.stored) is not None and self.kind != "text"

    @property
    def type(self) -> str:
        """DuckDB's type of the value. Timestamps are their number of units since 1970."""
        if unit_of(self.kind) is not None:
            return "BIGINT"
        if self.kind == "integer":
            if not self.is_read:
                return self.stored
            # No type covers both ends, and the rows must not decide which one is needed.
            return "BIGINT" if self.domain is None else "UBIGINT"
        return {"text": "VARCHAR", "bytes": "BLOB", "boolean": "BOOLEAN", "date": "DATE"}[self.kind]

    @property
    def value(self) -> str:
        """SQL for the value; NULL if there is none, it is infinite, or the text cannot be read."""
        column = quoted(self.name)
        text = column if self.stored == "VARCHAR" else f"CAST({column} AS VARCHAR)"
        if self.kind == "text":
            return text
        if self.is_read:
            pattern, cast = self._reading(text)
            return f"CASE WHEN regexp_full_match({text}, '{pattern}') THEN {cast} END"
        if self.stored == "DATE":
            return f"CASE WHEN isfinite({column}) THEN {column} END"
        return self._cut(column) if self.stored in _TIMESTAMPS else column

    def _reading(self, text: str) -> tuple[str, str]:
        """What the text must look like, and the SQL that reads it."""
        if self.kind == "integer":
            return _INTEGER, f"TRY_CAST({text} AS {self.type})"
        if self.kind == "boolean":
            return "true|false", f"{text} = 'true'"
        if self.kind == "date":
            return _DAY, f"TRY_CAST({text} AS DATE)"
        unit, instant = unit_of(self.kind), is_instant(self.kind)
        assert unit is not None
        local = timestamps(unit, False)
        stored, units = _TYPE_OF_KIND[local], _TIMESTAMPS[_TYPE_OF_KIND[local]][1]
        moment = f"TRY_CAST({f'left({text}, -1)' if instant else text} AS {stored})"
        return f"{_DAY}[T ]{_TIME}{_DIGITS[unit]}{'Z' if instant else ''}", f"TRY({units.format(moment)})"

    def _cut(self, column: str) -> str:
        """A timestamp in units, perhaps coarser ones, or its date; each is the one that it lies in."""
        kind, units = _TIMESTAMPS[self.stored]
        # TRY around every use: DuckDB computes what several have in common before them. NumPy's NaT
        # is no time in a release either.
        number, have = f"nullif(TRY({units.format(column)}), {NO_TIME})", UNITS[unit_of(kind) or ""]
        wanted = unit_of(self.kind)
        factor = have * _DAY_SECONDS if wanted is None else have // UNITS[wanted]
        if factor > 1:  # // rounds towards zero
            number = f"({number} - ((({number}) % {factor} + {factor}) % {factor})) // {factor}"
        return (
            f"TRY({number})"
            if wanted is not None
            else f"TRY(CAST(DATE '1970-01-01' + CAST({number} AS INTEGER) AS DATE))"
        )

    @property
    def faults(self) -> dict[str, str]:
        """What may be wrong with a value, and the SQL that detects it; null is not among it."""
        column, label = quoted(self.name), f"column {self.name!r}"
        faults = {}
        if self.is_read or self.stored == "DATE" or self.stored in _TIMESTAMPS:
            wrong = f"is not {self._expected}" if self.is_read else "is infinite or out of range"
            faults[f"{label} {wrong}"] = f"{column} IS NOT NULL AND {self.value} IS NULL"
        if self.domain is not None:
            faults[f"{label} is not in [0, {self.domain})"] = f"{self.value} < 0 OR {self.value} >= {self.domain}"
        return faults

    @property
    def _expected(self) -> str:
        if self.kind == "integer":
            least, end = ("-2^63", "2^63") if self.domain is None else ("0", "2^64")
            return f"an integer from {least} to below {end} in decimal digits"
        if self.kind == "boolean":
            return "true or false"
        if self.kind == "date":
            return "a date such as 2024-01-31"
        zone = "Z" if is_instant(self.kind) else ""
        return f"a time such as 2024-01-31T12:00:00{zone} in {unit_of(self.kind)}"


def key_sources(table: Scan, counting: Counting) -> tuple[KeySource, ...]:
    """The columns of the key, or `InputError` with the cast to use."""
    found = []
    for name, wanted in zip(counting.keys, counting.key_types, strict=True):
        kind = _kind(table, name, wanted)
        if kind == "boolean" and len(counting.keys) == 1:
            raise _no_key(table, name)
        if counting.domain is not None and kind != "integer":
            fix = "omit domain= to hash them"
            if TEXTS.fullmatch(table.types[name]):
                fix = f"pass key_type='integer' to read them as integers, or {fix}"
            raise InputError(f"keys must be integers below domain=, and {table.has(name)}; {fix}")
        found.append(KeySource(name, table.types[name], kind, counting.domain))
    return tuple(found)


def _kind(table: Scan, name: str, wanted: str) -> ColumnKind:
    """The kind that a column is counted as."""
    stored, what = table.types[name], table.has(name)
    found = kind_of_type(stored)
    if wanted == "as stored":
        if found is None:
            raise _no_key(table, name)
        return found
    assert is_column_kind(wanted)
    if wanted == found:
        return found
    if wanted == "text":
        if _AS_TEXT.fullmatch(stored):
            return "text"
        if stored == "BLOB":
            raise InputError(f"{what}, which are not text; omit key_type= to use the bytes as they are")
        raise _no_key(table, name)
    if wanted == "integer" and found != "text":
        # A cast here would round, or lose digits beyond 2^53, so the caller decides.
        fix = table.cast(name, "BIGINT") if NUMBERS.fullmatch(stored) else "name another column"
        raise InputError(f"{what}, and integer keys must be integers, or text in decimal digits; {fix}")
    if (found == "text" and wanted != "bytes") or _can_be_cut(found, wanted):
        return wanted
    raise InputError(f"{what}, which cannot be counted as {wanted}; cast it, or omit key_type=")


def _can_be_cut(found: ColumnKind | None, wanted: ColumnKind) -> bool:
    """Whether these are timestamps, to be cut to dates or to a coarser unit."""
    unit, other = unit_of(found or ""), unit_of(wanted)
    if unit is None or found is None:
        return False
    if other is None:
        return wanted == "date"
    return is_instant(found) == is_instant(wanted) and UNITS[other] < UNITS[unit]


def _no_key(table: Scan, name: str) -> InputError:
    stored = table.types[name]
    fix = "pass key_type='text' to use their text" if _AS_TEXT.fullmatch(stored) else table.cast(name, "VARCHAR")
    kinds = "text, bytes, 64-bit integers, dates or timestamps, or truth values beside other columns"
    return InputError(f"{table.has(name)}, and keys must be {kinds}; {fix}")
