"""The SQL of a count: each user's rows become a bounded number of pairs (key, contribution), summed
by key.

A hash of the bytes of user and key decides which keys of a user stay. What a user's rows become
depends only on these rows and on public settings (docs/privacy.md, "Bounded contributions": row
locality).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from .._util.lazy import cached_property
from ..errors import InputError
from ..structures.table import LARGEST_COUNT
from .canonical import grouped, order_of
from .key_columns import KeySource, key_sources
from .request import Counting
from .scans import Scan, quoted

_UP = "ASC NULLS LAST"  # whatever the settings of the caller's connection are
_WHOLE = r"\s*[+-]?[0-9]+(\.0*)?([eE][+]?[0-9]+)?\s*"


@dataclass(frozen=True)
class Query:
    """The SQL of one count."""

    table: Scan
    asked: Counting

    @cached_property
    def keys(self) -> tuple[KeySource, ...]:
        """The columns of the key."""
        return key_sources(self.table, self.asked)

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
            faults = {f"column {name!r} is null": f"{quoted(name)} IS NULL" for name in self.asked.columns}
        for key in self.keys:
            faults |= key.faults
        if self.asked.value is not None:
            value = f"column {self.asked.value!r}"
            number = "number" if self.asked.grid is not None else "whole number below 2^63 (pass step= for reals)"
            wrong = f"{self._value} IS NULL"
            if self.asked.grid is None and self.table.types[self.asked.value] == "VARCHAR":  # its cast would round
                wrong += f" OR TRY_CAST({quoted(self.asked.value)} AS DOUBLE) <> {self._value}"
                wrong += f" OR NOT regexp_full_match({quoted(self.asked.value)}, '{_WHOLE}')"
            faults[f"{value} is not a {number}"] = f"{quoted(self.asked.value)} IS NOT NULL AND ({wrong})"
            if self.asked.grid is not None:
                faults[f"{value} is not finite"] = f"NOT isfinite({self._value})"
            if not self.asked.signed:
                faults[f"{value} is negative (pass signed=True to allow it)"] = f"{self._value} < 0"
        return faults

    @cached_property
    def _grouped_keys(self) -> list[tuple[str, str]]:
        """The SQL of each column of the key to group by, and its type."""
        return [grouped(key.value, key.type, self.table.binary_text) for key in self.keys]

    @property
    def _names(self) -> list[str]:
        """The names of the columns of the key in the query."""
        return [f"k{at}" for at in range(len(self.keys))]

    @property
    def _ascending(self) -> str:
        """The columns of the key to order by."""
        return ", ".join(f"{name} {_UP}" for name in self._names)

    @property
    def _typed_names(self) -> list[tuple[str, str]]:
        return [(name, kind) for name, (_, kind) in zip(self._names, self._grouped_keys, strict=True)]

    @property
    def _order(self) -> str:
        """The hash that orders the keys of a user."""
        return order_of([("u", self._grouped_user[1]), *self._typed_names])

    @property
    def _grouped_user(self) -> tuple[str, str]:
        assert self.asked.user is not None
        return grouped(quoted(self.asked.user), self.table.types[self.asked.user], self.table.binary_text)

    def _rows(self) -> str:
        """The rows that count: k0, k1, …, u, v, and whether anything is wrong with them."""
        faults = list(self.wrong_rows().values())
        bad = " OR ".join(f"coalesce({fault}, false)" for fault in faults) or "false"
        columns = [f"{sql} AS {name}" for name, (sql, _) in zip(self._names, self._grouped_keys, strict=True)]
        columns.append(f"({bad}) AS bad")
        if self.asked.user is not None:
            columns.append(f"{self._grouped_user[0]} AS u")
        if self._value is not None:
            columns.append(f"{self._value} AS v")
        return f"SELECT {', '.join(columns)} FROM source WHERE {self._counts}"

    @property
    def _counts(self) -> str:
        """Whether a row counts, or is dropped."""
        if not self.asked.drop:
            return "true"
        return " AND ".join(f"{quoted(name)} IS NOT NULL" for name in self.asked.columns)

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
        limit, k = LARGEST_COUNT, ", ".join(self._names)
        total = f"CAST(least(greatest(sum(c), {-limit}), {limit}) AS BIGINT)"
        if self.asked.user is None:
            own = "1" if self.asked.value is None else self._bounded(self._units)
            kept = f"SELECT {k}, {own} AS c, bad FROM rows"
        else:
            # If rows are only counted, key and user show whether a row is bad, and no pair carries it.
            bad, own, sums = f"({' OR '.join(f'{name} IS NULL' for name in ('u', *self._names))})", "1", []
            if self.asked.value is not None or self.asked.domain is not None:
                bad = "bad"
                sums.append("bool_or(bad) AS bad")
            if self.asked.value is not None or self.asked.contribution.per_key != 1:
                own = "c"
                sums.append(f"{self._bounded('count(*)' if self.asked.value is None else f'sum({self._units})')} AS c")
            # A bad row must not be hidden by the bound on keys, so its pair comes first. The key
            # decides between equal hashes: anything else that the database might use could depend
            # on other users' rows.
            order = f"CASE WHEN {bad} THEN 0::UINTEGER ELSE {self._order} END"
            kept = (
                f"SELECT {k}, {own} AS c, {bad} AS bad FROM "
                f"(SELECT {', '.join(['u', k, *sums])} FROM rows GROUP BY u, {k}) QUALIFY "
                f"row_number() OVER (PARTITION BY u ORDER BY {order} {_UP}, {self._ascending}) "
                f"<= {self.asked.contribution.keys}"
            )
        keys = ", ".join(
            name if kind == key.type else f"decode({name}) AS {name}"
            for key, (name, kind) in zip(self.keys, self._typed_names, strict=True)
        )
        return (
            f"SELECT {keys}, n, bad FROM (WITH rows AS ({self._rows()}), kept AS ({kept}) "
            f"SELECT {k}, {total} AS n, bool_or(bad) AS bad FROM kept GROUP BY {k})"
        )

    def habits_sql(self, sampled: int, sums: int) -> str:
        """How many users have each number of keys, and the counts of `sampled` keys of each user, by
        sums with random signs: one scan of the table.

        A key belongs to one of `sums` sums, with a sign; both are bits of its hash.
        """
        own, k = order_of(self._typed_names), ", ".join(self._names)
        return (
            f"SELECT * FROM (WITH rows AS ({self._rows()}), "
            f"pairs AS MATERIALIZED (SELECT u, {k}, bool_or(bad) AS bad FROM rows GROUP BY u, {k}), "
            f"few AS (SELECT {own} AS h FROM pairs QUALIFY "
            f"row_number() OVER (PARTITION BY u ORDER BY {self._order} {_UP}, {self._ascending}) <= {sampled}) "
            "SELECT true AS users, d AS at, CAST(count(*) AS BIGINT) AS n, bool_or(bad) AS bad "
            "FROM (SELECT count(*) AS d, bool_or(bad) AS bad FROM pairs GROUP BY u) GROUP BY d "
            f"UNION ALL SELECT false, CAST(h % {sums} AS BIGINT), "
            f"CAST(sum(CASE WHEN (h // {sums}) % 2 = 0 THEN 1 ELSE -1 END) AS BIGINT), false "
            f"FROM few GROUP BY h % {sums})"
        )

    def refuse(self) -> NoReturn:
        """Raise `InputError` with the number of bad rows and the first of them."""
        faults = {text: f"coalesce({fault}, false)" for text, fault in self.wrong_rows().items()}
        # Each under a name of our own: a column of the table must not take its place.
        wrong = ", ".join(f"{fault} AS bad{at}" for at, fault in enumerate(faults.values()))
        rows = f"SELECT row_number() OVER () AS place, {wrong}, {self._counts} AS counts FROM source"
        counts = ", ".join(
            f"count(*) FILTER (WHERE bad{n}), min(place) FILTER (WHERE bad{n})" for n in range(len(faults))
        )
        (row,) = self.table.query(f"SELECT {counts} FROM ({rows}) WHERE counts").fetchall()
        found = [
            f"{text} in {number} row{'s' if number > 1 else ''}, first in row {first}"
            for text, number, first in zip(faults, row[::2], row[1::2], strict=True)
            if number
        ]
        if not found:  # the table of a relation may be another one each time
            raise InputError(
                "rows were malformed that no longer are; pass a table that does not change while it is read"
            )
        fix = "fix them or pass nulls='drop'" if any(" is null" in text for text in found) else "fix the table"
        raise InputError(f"{'; '.join(found)}; {fix}")
