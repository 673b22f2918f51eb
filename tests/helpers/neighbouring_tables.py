"""Tables of events with hostile cells, the same for the same seed, and the same tables without some
of the users.

Cells are text, bytes, integers, dates or truth values, with a plain reading that every kind of
input must give.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import combinations
from typing import Any

KEYS_LIMITS, LIMITS = (1, 2, 3), (1, 2)
COLUMNS = ("user", "key", "value", "note")

# Cells that a guessing reader mistakes for something else; it often treats the cells of one theme
# as equal.
THEMES: dict[str, list[str]] = {
    "words": ["alpha", "beta", "gamma", "delta", "epsilon", "a", "b", "c"],
    "numbers": ["1", "2", "7", "007", "+7", "1.0", "1e5", "100000", "0x10", "16", "0", "-0", "-0.0", "1_000", "1,5"],
    "integers": ["1", "2", "7", "007", "+7", "12", "0", "-0", "-1", "3", "00"],
    "codes": ["007", "7", "01", "1", "012", "12", "0", "00", "3"],
    "large numbers": [str(2**63), str(2**63 - 1), str(2**64), str(10**30), "-1", "1", str(-(2**63)), "9" * 40],
    "floats": ["NaN", "nan", "inf", "-inf", "Infinity", "1e5", "1e400", "-0.0", "0.0", "0", ".5", "5."],
    "days": ["2020-01-01", "2020-1-1", "2020-01-1", "2020-01-02", "2020-1-02", "2021-12-31"],
    "dates": ["2020-01-01", "2020-1-1", "01/02/2020", "20200101", "12:30", "2020-01-01 00:00:00", "2020-01-01T00:00Z"],
    "calendar": ["2020-01-01", "2020-02-29", "1969-12-31", "0001-01-01", "9999-12-31", "2020-01-02"],
    "moments": ["2020-01-01T00:00:00", "2020-01-01 00:00:00", "2020-01-01T00:00:00.0", "1969-12-31T23:59:59.999999"],
    "instants": ["2020-01-01T00:00:00Z", "2020-01-01 00:00:00Z", "2020-01-01T00:00:00.123Z", "1969-12-31T23:59:59.9Z"],
    "times": [
        *("2020-01-01T00:00:00", "2020-01-01 00:00:00", "2020-01-01T00:00:00.5", "2020-01-01T00:00:00.500"),
        *("2020-01-01T00:00:00Z", "2020-01-01T24:00:00", "0000-01-01T00:00:00", "2020-01-01T00:00:00.123Z"),
        *("1969-12-31T23:59:59.999999", "2020-01-01T00:00:00.1234567", "2020-02-30T00:00:00", "2020-01-01"),
    ],
    "truth": ["true", "True", "FALSE", "false", "t", "f", "0", "1", "yes", "no"],
    "nothing": ["", "NULL", "null", "None", "NA", "N/A", "\\N", "nan", "-", "<NA>", "''"],
    "cases": ["a", "A", "ß", "ss", "SS", "ẞ", "i", "I", "İ", "ı", "straße", "STRASSE"],
    "marks": ["é", "e\u0301", "Å", "A\u030a", "\u212b", "a", "a\u200b", "\ufeffa", "\u202ea", "😀", "👩\u200d👧", "ﬁ"],
    "quotes": ['"', '""', 'a"b', '"a"', "'", "''", "it's", '\\"', "\\", "a\\nb", "`", '"a', 'a"', "a"],
    "lines": ["a\nb", "a\r\nb", "a\rb", "\n", "\r", "a", "b", "a\u2028b", "a\x85b", "\x0b", "\na", "a\n"],
    "comments": ["#", "# a", "//", "// a", "--", "/* a */", "#key", "%", "a#b", "a"],
    "delimiters": [";", "a;b", "\t", "a\tb", "|", "a|b", ",", "a,b", ":", "a b", "\x01", "\x1f", "a;b;c", "a"],
    "spaces": [" a", "a ", " a ", "a", "  ", "\u00a0a", "\u3000", "\ta"],
    "paths": ["key=abc", "abc", "key=abc/user=1", "%2F", "/", "%", "a%20b", "a b", "*", "[ab]", "{a,b}", "../a", "~"],
    "json": ['{"a": 1}', '{"a":1}', "[1]", '"a"', "a", "null", '{"key": "x"}', "\\u0061", "{", "1", "1.0"],
    "headers": ["user", "key", "value", "user,key,value", "note", "\ufeffuser", "KEY"],
    "long": ["x" * 65536, "x" * 65535 + "y", '"' * 9000, "x"],
    "controls": ["\0", "a\0b", "a", "\x1a", "\x7f", "\x08"],
}
_COMMON = [name for name in THEMES if name not in ("long", "controls", "calendar", "moments", "instants", "times")]
_MOMENT = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?"
WILD_VALUES = ["1e5", "1.0", " 7", "007", "0x10", "1_000", "NaN", "inf", "-0.0", "1.5", "-3", "", str(2**63), "9" * 30]
WILD_VALUES += ["true", "2020-01-01", "x", "+1", "1e-1", "9007199254740993", "1e400", "١"]
WILD_REALS = [float("nan"), float("inf"), -0.0, 1e300, -1.5, 0.1, 5e-324]


@dataclass(frozen=True)
class Row:
    """One event. `file` is its file if there are several; `damage` is how its line of a text file
    is broken.
    """

    user: Any
    key: Any
    value: Any
    note: Any = "n"
    file: int = 0
    damage: str | None = None

    def cells(self, columns: tuple[str, ...]) -> list[Any]:
        """The cells of the given columns."""
        return [getattr(self, name) for name in columns]

    def __str__(self) -> str:
        cells = (
            text if len(text := repr(cell)) < 80 else f"{text[:40]}… ({len(text)})" for cell in self.cells(COLUMNS)
        )
        return f"({', '.join(cells)}, file {self.file}{', ' + self.damage if self.damage else ''})"


@dataclass(frozen=True)
class Events:
    """A table; `removable` are the rows that one user has, for some of the users."""

    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    cells: str  # the kind of keys
    real: bool  # values
    files: int
    removable: tuple[frozenset[int], ...] = ()
    left: frozenset[int] = frozenset()  # which of the rows are present
    dropped: bool = False  # files without rows do not exist

    def without(self, users: tuple[int, ...]) -> Events:
        """The same table without the rows of these users."""
        gone: frozenset[int] = frozenset().union(*(self.removable[user] for user in users))
        return replace(self, left=self.left - gone)

    @property
    def present(self) -> list[Row]:
        """The rows that are left, in order, file by file."""
        return [self.rows[at] for at in self.order]

    @property
    def order(self) -> list[int]:
        """The positions of the remaining rows among all rows."""
        return sorted(self.left, key=lambda at: (self.rows[at].file, at))

    def by_file(self) -> Iterator[tuple[int, list[Row]]]:
        """The rows of each file."""
        found = {file: [row for row in self.present if row.file == file] for file in range(self.files)}
        for file, rows in found.items():
            if rows or not self.dropped or not self.left:
                yield file, rows

    def column(self, name: str) -> list[Any]:
        """The cells of one column."""
        return [getattr(row, name) for row in self.present]

    def places(self, rows: frozenset[int], header: bool) -> tuple[set[int], set[int]]:
        """How a message may name these rows: by their numbers, in the table or in the file, or by
        their lines.
        """
        numbers, lines = set(), set()
        next_of: dict[int, tuple[int, int, int]] = {}
        for number, at in enumerate(self.order, 1):
            row = self.rows[at]
            # Rows of this file, and its lines, counted in both ways.
            ordinal, feeds, breaks = next_of.get(row.file, (1, 1 + header, 1 + header))
            text = "".join(cell for cell in row.cells(self.columns) if header and isinstance(cell, str))
            more, most = text.count("\n"), len(re.findall(r"\r\n|\r|\n", text))
            next_of[row.file] = ordinal + 1, feeds + 1 + more, breaks + 1 + most
            if at in rows:
                numbers |= {number, ordinal}
                lines |= {ordinal + header, *range(feeds, feeds + more + 1), *range(breaks, breaks + most + 1)}
        return numbers, lines


@dataclass(frozen=True)
class Game:
    """A table, and how it is counted."""

    events: Events
    arguments: dict[str, Any]

    def pairs(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Sets of removed users, each with and without one more user."""
        users = range(len(self.events.removable))
        for size in users:
            for gone in combinations(users, size):
                yield from ((gone, tuple(sorted((*gone, user)))) for user in users if user not in gone)


def plain_key(cell: Any, cells: str, key_type: str) -> tuple[str, bytes] | None:
    """Kind and bytes of the key in a cell; None if it is not a key."""
    if cell is None:
        return None
    if cells == "bytes":
        return "bytes", cell
    if key_type == "date" or (cells == "date" and key_type == "as stored"):
        return _plain_day(str(cell))
    if key_type.startswith("timestamp"):
        return _plain_moment(cell, key_type)
    if cells == "boolean":
        return "boolean" if key_type == "as stored" else "text", str(cell).lower().encode()
    if cells in ("integer", "wide") and key_type != "text":
        return "integer", str(cell).encode()
    if key_type == "integer":
        return ("integer", str(int(cell)).encode()) if re.fullmatch("[+-]?[0-9]+", cell) else None
    return "text", str(cell).encode()


def _plain_day(cell: str) -> tuple[str, bytes] | None:
    try:
        return "date", date.fromisoformat(cell).isoformat().encode()
    except ValueError:
        return None


def _plain_moment(cell: str, kind: str) -> tuple[str, bytes] | None:
    """A time by its number of microseconds."""
    zone = "Z" if "UTC" in kind else ""
    if not re.fullmatch(_MOMENT + zone, cell):
        return None
    whole, _, digits = cell.removesuffix("Z").partition(".")
    try:
        moment = datetime.fromisoformat(whole)
    except ValueError:
        return None
    seconds = (moment - datetime(1970, 1, 1)) // timedelta(seconds=1)
    return "timestamp", str(seconds * 10**6 + int(digits.ljust(6, "0") or 0)).encode()


def plain_keys(row: Row, cells: str, arguments: dict[str, Any]) -> Any:
    """The key of a row, or of each of its columns."""
    if isinstance(arguments["key"], str):
        return plain_key(row.key, cells, arguments.get("key_type", "as stored"))
    first = plain_key(row.key, cells, arguments["key_type"][0])
    return first, plain_key(row.note, "text", "as stored")


def of_kind(played: Game, key_type: str | None, several_columns: bool) -> Game:
    """The same table, counted by other types or by key and note together."""
    arguments, events = dict(played.arguments), played.events
    if key_type is not None or several_columns:
        arguments.pop("domain", None)
    if key_type is not None:
        arguments["key_type"] = key_type
    if several_columns:
        arguments["key"] = ["key", "note"]
        arguments["key_type"] = [arguments.get("key_type", "as stored"), "as stored"]
        if "note" not in events.columns:
            events = replace(events, columns=(*events.columns, "note"))
    return Game(events, arguments)


def _pool(rng: random.Random, cells: str, theme: str) -> list[Any]:
    if cells == "text":
        return rng.sample(THEMES[theme], min(len(THEMES[theme]), rng.randint(2, 8)))
    if cells == "bytes":
        texts = [text.encode() for text in rng.sample(THEMES[theme], 2)]
        return [*texts, b"", b"\xff", b"\0", b"\xff\xfe"][: rng.randint(2, 6)]
    if cells == "boolean":
        return [True, False]
    if cells == "date":
        return [date(2020, 1, 1) + timedelta(rng.choice([-80_000, 0, 1, 2, 31, 9000])) for _ in range(4)]
    if cells == "wide":
        return rng.choice([[0, 1, 2, 3, 1 << 62], [-1, 0, 1, (1 << 63) - 1, -(1 << 63)], [1 << 53, (1 << 53) + 1]])
    return rng.choice([[0, 1, 2, 3, 4], [0, 1, 127], [5, 6, 7, 100, 101]])  # of every width


def _users(rng: random.Random, number: int, themes: list[str]) -> list[str]:
    theme = THEMES[rng.choice(themes)]
    return rng.sample([*theme, *(f"u{at}" for at in range(6))][: max(number, len(theme))], number)


def _value(rng: random.Random, real: bool, wild: bool, as_text: bool) -> Any:
    if wild and rng.random() < 0.4:
        return rng.choice(WILD_VALUES) if as_text else rng.choice(WILD_REALS) if real else -rng.randint(1, 3)
    number = rng.choice([0, 1, 1, 2, 3, 5])
    if real and rng.random() < 0.5:
        return f"{number}.25" if as_text else number + 0.25
    return str(number) if as_text else float(number) if real else number


def game(
    seed: str,
    cells: str,
    as_text: bool,
    damages: tuple[str, ...] = (),
    several: bool = False,
    themes: tuple[str, ...] = (),
) -> Game:
    """The table of a seed, and the parameters to count it with.

    `as_text`: values are text too. `damages`: one row has one of these, and all other cells are
    harmless. `several`: there are several files. Users and keys have the given `themes`, or any.
    """
    rng = random.Random(seed)
    number = rng.choice([1, 2, 3, 3, 4, 5])
    users = _users(rng, number, [*themes] or [*_COMMON, "words", "words"])
    common, other = rng.choice(themes or _COMMON), rng.choice(themes or [*_COMMON, "long", "controls"])
    if not themes and rng.random() < 0.15:
        common, other = (rng.choice(["codes", "integers", "large numbers"]) for _ in range(2))
    if damages:
        common = other = "words"
        users = [f"u{at}" for at in range(number)]
    pools = [_pool(rng, cells, common) for _ in users]
    shared = rng.random() < 0.5
    if shared:
        pools = [pools[0]] * number
    pools[0] = _pool(rng, cells, other) if rng.random() < 0.7 else pools[0]
    sums = rng.random() < 0.4
    real = sums and rng.random() < 0.3
    wild = sums and not damages and rng.random() < 0.3
    gaps = not damages and rng.random() < 0.15
    odd = "words" if damages else rng.choice(_COMMON)
    files = rng.randint(2, 3) if several else 1
    own_file = rng.random() < 0.5
    rows = []
    for _ in range(rng.randint(number, 5 * number + 3)):
        who = rng.randrange(number)
        cut: list[Any] = [users[who], rng.choice(pools[who]), _value(rng, real, wild, as_text)]
        if gaps and rng.random() < 0.25:
            cut[rng.randrange(3 if sums else 2)] = None
        file = min(who, files - 1) if own_file else rng.randrange(files)
        rows.append(Row(cut[0], cut[1], cut[2], note=rng.choice(THEMES[odd]), file=file))
    order = rng.choice(["first", "last", "together", "mixed"])
    if order == "together":
        rows.sort(key=lambda row: str(row.user))
    elif order != "mixed":
        rows.sort(key=lambda row: (row.user == users[0]) == (order == "last"))
    if damages:
        at = rng.randrange(len(rows))
        rows[at] = replace(rows[at], damage=rng.choice(damages))
    by_user = rng.random() < 0.75
    if by_user:
        names = [users[0], *rng.sample(users[1:], min(2, number - 1))]
        groups = [frozenset(at for at, row in enumerate(rows) if row.user == name) for name in names]
    else:
        groups = [frozenset({at}) for at in rng.sample(range(len(rows)), min(3, len(rows)))]
    columns = ["key", *(["user"] if by_user or rng.random() < 0.7 else []), *(["value"] if sums else [])]
    columns += ["note"] if rng.random() < 0.5 else []
    rng.shuffle(columns)
    events = Events(
        tuple(rows), tuple(columns), cells, real, files, tuple(group for group in groups if group),
        frozenset(range(len(rows))), rng.random() < 0.5,
    )  # fmt: skip
    arguments: dict[str, Any] = {"key": "key", "nulls": rng.choice(["refuse", "drop", "drop"] if gaps else ["refuse"])}
    if by_user:
        arguments |= {"user": "user", "max_keys_per_user": rng.choice(KEYS_LIMITS)}
    if by_user or sums:
        arguments["max_per_key"] = rng.choice(LIMITS)
    if sums:
        arguments |= {"value": "value", "signed": rng.random() < 0.3}
        arguments |= {"step": 0.5} if real or rng.random() < 0.1 else {}
    return Game(events, arguments | _key_type(rng, cells, {common, other} <= {"codes", "integers", "large numbers"}))


def _key_type(rng: random.Random, cells: str, digits: bool) -> dict[str, Any]:
    if cells in ("date", "boolean"):
        return {"key_type": "text"}
    if cells == "text" and digits and rng.random() < 0.7:
        return {"key_type": "integer"}
    if cells in ("integer", "wide"):
        return rng.choice([{}, {}, {}, {"key_type": "text"}, {"domain": 100}, {"domain": 1000}])
    return {"key_type": "text"} if cells == "text" and rng.random() < 0.2 else {}
