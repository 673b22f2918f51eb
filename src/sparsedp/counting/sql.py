"""The SQL of a count: each user's rows become a bounded number of pairs (key, contribution), summed
by key.

A hash of the bytes of user and key decides which keys of a user stay. What a user's rows become
depends only on these rows and on public settings (docs/privacy.md, "Bounded contributions": row
locality).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from ..errors import InputError
from ..structures.table import LARGEST_COUNT
from .canonical import TEXTS, grouped, hash_of_key, order_of
from .declared import reads_integers
from .request import Counting
from .scans import Scan, quoted

# A database would also read 0x10, 1_000 and 1.5, which it rounds, as integers.
_INTEGER = "[+-]?[0-9]+"
_WHOLE = r"\s*[+-]?[0-9]+(\.0*)?([eE][+]?[0-9]+)?\s*"


@dataclass(frozen=True)
class Query:
    """The SQL of one count."""

    table: Scan
    asked: Counting

    @property
    def reads_integers(self) -> bool:
        """Whether keys are text to be read as integers."""
        return reads_integers(self.table.types[self.asked.key], self.asked.key_type)

    @property
    def _key(self) -> str:
        column, kind = quoted(self.asked.key), self.table.types[self.asked.key]
        text = column if kind == "VARCHAR" else f"CAST({column} AS VARCHAR)"
        if self.reads_integers:
            return f"CASE WHEN regexp_full_match({text}, '{_INTEGER}') THEN TRY_CAST({text} AS {self._key_kind}) END"
        return text if self.asked.key_type == "text" or TEXTS.fullmatch(kind) else column

    @property
    def _key_kind(self) -> str:
        """The type of `_key`."""
        kind = self.table.types[self.asked.key]
        if self.reads_integers:  # no type covers both ends, and the rows must not decide which one is needed
            return "BIGINT" if self.asked.domain is None else "UBIGINT"
        return "VARCHAR" if self.asked.key_type == "text" or TEXTS.fullmatch(kind) else kind

    @property
    def _value(self) -> str | None:
        """The value as a number; NULL if it is not a number."""
        if self.asked.value is None:
            return None
        return f"TRY_CAST({quoted(self.asked.value)} AS {'BIGINT' if self.asked.grid is None else 'DOUBLE'})"

    def wrong_rows(self) -> dict[str, str]:
        """What may be wrong with a row, and the SQL that detects it."""
        faults = {}
        if not self.asked.drop:
            faults["{key} is null"] = f"{quoted(self.asked.key)} IS NULL"
            if self.asked.user is not None:
                faults["{user} is null"] = f"{quoted(self.asked.user)} IS NULL"
            if self.asked.value is not None:
                faults["{value} is null"] = f"{quoted(self.asked.value)} IS NULL"
        if self.reads_integers:
            least, end = ("-2^63", "2^63") if self.asked.domain is None else ("0", "2^64")
            faults[f"{{key}} is not an integer from {least} to below {end} in decimal digits"] = (
                f"{quoted(self.asked.key)} IS NOT NULL AND {self._key} IS NULL"
            )
        if self.asked.domain is not None:
            faults[f"{{key}} is not in [0, {self.asked.domain})"] = (
                f"{self._key} < 0 OR {self._key} >= {self.asked.domain}"
            )
        if self.asked.value is not None:
            number = "number" if self.asked.grid is not None else "whole number below 2^63 (pass step= for reals)"
            wrong = f"{self._value} IS NULL"
            if self.asked.grid is None and self.table.types[self.asked.value] == "VARCHAR":  # its cast would round
                wrong += f" OR TRY_CAST({quoted(self.asked.value)} AS DOUBLE) <> {self._value}"
                wrong += f" OR NOT regexp_full_match({quoted(self.asked.value)}, '{_WHOLE}')"
            faults[f"{{value}} is not a {number}"] = f"{quoted(self.asked.value)} IS NOT NULL AND ({wrong})"
            if self.asked.grid is not None:
                faults["{value} is not finite"] = f"NOT isfinite({self._value})"
            if not self.asked.signed:
                faults["{value} is negative (pass signed=True to allow it)"] = f"{self._value} < 0"
        return faults

    @property
    def _grouped_key(self) -> tuple[str, str]:
        return grouped(self._key, self._key_kind, self.table.binary_text)

    @property
    def _grouped_user(self) -> tuple[str, str]:
        assert self.asked.user is not None
        return grouped(quoted(self.asked.user), self.table.types[self.asked.user], self.table.binary_text)

    def _rows(self) -> str:
        """The rows that count: k, u, v, and whether anything is wrong with them."""
        faults = list(self.wrong_rows().values())
        bad = " OR ".join(f"coalesce({fault}, false)" for fault in faults) or "false"
        columns = [f"{self._grouped_key[0]} AS k", f"({bad}) AS bad"]
        if self.asked.user is not None:
            columns.append(f"{self._grouped_user[0]} AS u")
        if self._value is not None:
            columns.append(f"{self._value} AS v")
        return f"SELECT {', '.join(columns)} FROM source{self._not_dropped}"

    @property
    def _not_dropped(self) -> str:
        if not self.asked.drop:
            return ""
        return " WHERE " + " AND ".join(f"{quoted(name)} IS NOT NULL" for name in self.asked.columns)

    def _bounded(self, total: str) -> str:
        """A total cut to what a user may contribute to a key, in units."""
        most = self.asked.most_units
        least = -most if self.asked.signed else 0
        return f"CAST(least(greatest({total}, {least}), {most}) AS BIGINT)"

    @property
    def _units(self) -> str:
        """A value in whole units. A sum of floats would depend on the order, and so on other rows;
        integers do not.
        """
        if self.asked.grid is None:
            return "v"
        limit = float(LARGEST_COUNT)
        return f"CAST(floor(least(greatest(v * {float(1 / self.asked.unit)!r}, {-limit!r}), {limit!r})) AS HUGEINT)"

    def sql(self) -> str:
        """Keys, their sums in units, and whether a row was bad: one scan of the table."""
        limit = LARGEST_COUNT
        total = f"CAST(least(greatest(sum(c), {-limit}), {limit}) AS BIGINT)"
        if self.asked.user is None:
            own = "1" if self.asked.value is None else self._bounded(self._units)
            kept = f"SELECT k, {own} AS c, bad FROM rows"
        else:
            # If rows are only counted, key and user show whether a row is bad; that needs no
            # aggregate.
            bad = (
                "(u IS NULL OR k IS NULL)" if self.asked.value is None and self.asked.domain is None else "bool_or(bad)"
            )
            own = self._bounded("count(*)" if self.asked.value is None else f"sum({self._units})")
            if self.asked.value is None and self.asked.contribution.per_key == 1:
                own = "1"
            # A bad row must not be hidden by the bound on keys, so its pair comes first. The key
            # decides between equal hashes: anything else that the database might use could depend
            # on other users' rows.
            hashed = order_of("u", self._grouped_user[1], "k", self._grouped_key[1])
            order = f"CASE WHEN bad THEN 0::UHUGEINT ELSE {hashed} END"
            kept = (
                f"SELECT k, c, bad FROM (SELECT u, k, {own} AS c, {bad} AS bad FROM rows GROUP BY u, k) QUALIFY "
                f"row_number() OVER (PARTITION BY u ORDER BY {order}, k) "
                f"<= {self.asked.contribution.keys}"
            )
        keys = "k" if self._grouped_key[1] == self._key_kind else "decode(k) AS k"
        return (
            f"SELECT {keys}, n, bad FROM (WITH rows AS ({self._rows()}), kept AS ({kept}) "
            f"SELECT k, {total} AS n, bool_or(bad) AS bad FROM kept GROUP BY k)"
        )

    def habits_sql(self, sampled: int, sums: int) -> str:
        """How many users have each number of keys, and the counts of `sampled` keys of each user, by
        sums with random signs: one scan of the table.

        A key belongs to one of `sums` sums, with a sign; both are bits of its hash.
        """
        hashed = order_of("u", self._grouped_user[1], "k", self._grouped_key[1])
        own = hash_of_key("k", self._grouped_key[1])
        return (
            f"SELECT * FROM (WITH rows AS ({self._rows()}), "
            "pairs AS MATERIALIZED (SELECT u, k, bool_or(bad) AS bad FROM rows GROUP BY u, k), "
            f"few AS (SELECT {own} AS h FROM pairs QUALIFY "
            f"row_number() OVER (PARTITION BY u ORDER BY {hashed}, k) <= {sampled}) "
            "SELECT true AS users, d AS at, CAST(count(*) AS BIGINT) AS n, bool_or(bad) AS bad "
            "FROM (SELECT count(*) AS d, bool_or(bad) AS bad FROM pairs GROUP BY u) GROUP BY d "
            f"UNION ALL SELECT false, CAST(h % {sums} AS BIGINT), "
            f"CAST(sum(CASE WHEN (h // {sums}) % 2 = 0 THEN 1 ELSE -1 END) AS BIGINT), false "
            f"FROM few GROUP BY h % {sums})"
        )

    def refuse(self) -> NoReturn:
        """Raise `InputError` with the number of bad rows and the first of them."""
        faults = {text: f"coalesce({fault}, false)" for text, fault in self.wrong_rows().items()}
        counts = ", ".join(f"count(*) FILTER (WHERE {f}), min(line) FILTER (WHERE {f})" for f in faults.values())
        lines = "SELECT *, row_number() OVER () AS line FROM source"
        (row,) = self.table.query(f"SELECT {counts} FROM ({lines}){self._not_dropped}").fetchall()
        roles = {"key": self.asked.key, "user": self.asked.user, "value": self.asked.value}
        names = {role: f"column {name!r}" for role, name in roles.items()}
        found = [
            f"{text.format(**names)} in {number} row{'s' if number > 1 else ''}, first in row {first}"
            for text, number, first in zip(faults, row[::2], row[1::2], strict=True)
            if number
        ]
        fix = "fix them or pass nulls='drop'" if any(" is null" in text for text in found) else "fix the table"
        raise InputError(f"{'; '.join(found)}; {fix}")
