"""One user moves the counts by at most m keys and M each, starting from the input's bytes: pairs of
hostile tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import sparsedp
from neighbouring_inputs import KINDS, Kind, hive
from neighbours import CountFunction, Seen, check
from sparsedp import BoundedCounts, InputError
from sparsedp.counting import tables
from sparsedp.privacy.contributions import Contribution

pytestmark = pytest.mark.usefixtures("one_database")

DAMAGED = [name for name, kind in KINDS.items() if kind.damages]
REFUSED = "pandas, bytes"  # objects that are not text
DAMAGED_TABLES = 2
COUNTED_PAIRS = 4
AT_SCALE = 12
MUTANT_TABLES, RIGHT_TABLES = 30, 10


def tried(seen: Seen) -> bool:
    """Whether the tables say something: some were counted, and a user has moved a count."""
    return seen.pairs - seen.refused >= COUNTED_PAIRS and seen.most > 0


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.promise(22)
def test_one_user_moves_the_counts_of_every_kind_of_input_by_a_bounded_share(
    name: str, tmp_path: Path, measured: Callable[..., None]
) -> None:
    seen, seed = Seen(), 0
    while seed < KINDS[name].tables or not (tried(seen) or name == REFUSED):
        seen.add(check(name, seed, tmp_path))
        seed += 1
    measured(pairs=seen.pairs, refused=seen.refused, keys=seen.keys, most=seen.most)


@pytest.mark.parametrize("name", ["csv", "Arrow, string"])
def test_integers_of_both_ends_are_no_reason_to_refuse_what_one_user_adds(name: str, tmp_path: Path) -> None:
    for seed in range(4):
        check(name, seed, tmp_path, themes=("large numbers", "integers"))


@pytest.mark.parametrize("name", DAMAGED)
def test_a_broken_row_is_refused_by_its_place_or_moves_no_more(name: str, tmp_path: Path) -> None:
    for seed in range(DAMAGED_TABLES):
        check(name, seed, tmp_path, damaged=True)


@pytest.mark.audit
@pytest.mark.parametrize("name", KINDS)
def test_one_user_moves_the_counts_by_a_bounded_share_at_scale(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    seen = Seen()
    for seed in range(1000, 1000 + AT_SCALE * kind.tables):
        seen.add(check(name, seed, tmp_path))
    assert tried(seen) or name == REFUSED
    for seed in range(1000, 1000 + AT_SCALE * DAMAGED_TABLES * bool(kind.damages)):
        check(name, seed, tmp_path, damaged=True)


# Wrong ways to count. They are separate queries, so that they stay wrong however the package
# changes.

_ORDER = "hash(u, k)"


def counting(
    table: Callable[[Any], str],
    key: str = "key",
    user: str = '"user"',
    grouped: str = "k",
    order: str = _ORDER,
    cut: bool = True,
    limited: bool = True,
) -> CountFunction:
    """Counting by one plain query; `table` gives the SQL of a source, the other arguments what may
    be wrong with it.
    """

    def count(source: Any, **arguments: Any) -> BoundedCounts:
        if arguments.get("key_type") == "integer":
            raise InputError("keys are text here")
        most, per_key = arguments.get("max_keys_per_user", 1), arguments.get("max_per_key", 1)
        who = user if "user" in arguments else "row_number() OVER ()"
        own = "count(*)"
        scale = 1 << 21 if "step" in arguments else 1  # units of step/2^20, for a step of 0.5
        if "value" in arguments:
            own = f"sum(CAST(floor(least(greatest(TRY_CAST(value AS DOUBLE), -1e6), 1e6) * {scale}) AS HUGEINT))"
        lowest = -per_key if arguments.get("signed") else 0
        own = f"least(greatest({own}, {lowest * scale}), {per_key * scale})" if cut else own
        bound = f"QUALIFY row_number() OVER (PARTITION BY u ORDER BY o, k) <= {most}" if limited else ""
        with tables.new_database() as connection:
            try:
                if not isinstance(source, (str, Path, list, duckdb.DuckDBPyRelation)):
                    connection.register("events", source)
                rows = f"SELECT {key} AS k, {who} AS u, * FROM {table(source)}"
                needed = ["k", "u", *(["value"] if "value" in arguments else [])]
                numbered = f"SELECT *, row_number() OVER () AS line FROM ({rows})"
                gaps = " OR ".join(f"{name} IS NULL" for name in needed)
                ((nulls,),) = connection.sql(f"SELECT min(line) FROM ({numbered}) WHERE {gaps}").fetchall()
                if nulls is not None and arguments["nulls"] == "refuse":
                    raise InputError(f"something is null, first in row {nulls}")
                there = " AND ".join(f"{name} IS NOT NULL" for name in needed)
                pairs = f"SELECT u, {grouped} AS k, {own} AS c FROM ({rows}) WHERE {there} GROUP BY u, {grouped}"
                kept = f"SELECT * FROM (SELECT *, {order} AS o FROM ({pairs})) {bound}"
                counted = connection.sql(
                    f"SELECT any_value(k) AS k, CAST(sum(c) AS BIGINT) AS n FROM ({kept}) GROUP BY {grouped}"
                ).to_arrow_table()
            except duckdb.Error:
                raise InputError("the table cannot be read") from None
        contribution = Contribution(most, Fraction(per_key), arguments.get("user"))
        units = np.asarray(counted.column("n").to_numpy(), np.int64)
        return BoundedCounts(counted.column("k"), units, Fraction(1), None, contribution)

    return count


def registered(_: object) -> str:
    return "events"


def sniffed_csv(path: object) -> str:
    return f"read_csv('{path}')"


def sniffed_json(path: Path) -> str:
    if not path.stat().st_size:  # it would refuse an empty file, and be found out by that
        return """(SELECT '' AS key, '' AS "user", 0 AS value WHERE false)"""
    return f"read_json_auto('{path}')"


def cast_folders(path: object) -> str:
    return f"read_parquet('{path}', hive_partitioning = true)"


def refuses_empty_tables(source: Any, **arguments: Any) -> BoundedCounts:
    counts = sparsedp.count(source, **arguments)
    if not len(counts):
        raise InputError("the table is empty")
    return counts


def refuses_many_keys(source: Any, **arguments: Any) -> BoundedCounts:
    counts = sparsedp.count(source, **arguments)
    if len(counts) > 3:
        raise InputError("the table has more than 3 keys")
    return counts


def cell_in_message(source: Any, **arguments: Any) -> BoundedCounts:
    try:
        return sparsedp.count(source, **arguments)
    except InputError as error:
        raise InputError(f"{error} (the last of the rows is {source.slice(source.num_rows - 1).to_pylist()})") from None


HIVE = {"hive": Kind(hive, placed=False)}


@dataclass(frozen=True)
class Mutant:
    """A way to count, the kind of input that it is for, and the rows that should expose it."""

    function: CountFunction
    kind: str = "Arrow, string"
    themes: tuple[str, ...] = ()


def by_two_columns(limited: str, source: Any, **arguments: Any) -> BoundedCounts:
    """Counting by key and note, where a user may have so many of what is `limited`."""
    if arguments["key_type"] != ["as stored"] * 2 or "user" not in arguments or "value" in arguments:
        return sparsedp.count(source, **arguments)
    most, per_key = arguments["max_keys_per_user"], arguments["max_per_key"]
    with tables.new_database() as connection:
        connection.register("events", source)
        rows = 'SELECT key, note, "user" AS u FROM events WHERE key IS NOT NULL AND note IS NOT NULL AND u IS NOT NULL'
        ranked = f"SELECT *, dense_rank() OVER (PARTITION BY u ORDER BY {limited}) AS place FROM ({rows})"
        kept = f"SELECT * FROM ({ranked}) WHERE place <= {most}"
        pairs = f"SELECT key, note, least(count(*), {per_key}) AS c FROM ({kept}) GROUP BY key, note, u"
        counted = connection.sql(f"SELECT key, note, CAST(sum(c) AS BIGINT) FROM ({pairs}) GROUP BY key, note")
        table = counted.to_arrow_table()
    units = np.asarray(table.column(2).to_numpy(), np.int64)
    contribution = Contribution(most, Fraction(per_key), arguments["user"])
    return BoundedCounts(table.select(["key", "note"]), units, Fraction(1), None, contribution)


NUMBERS = ("codes", "words")
RIGHT = {
    "one query": Mutant(counting(registered)),
    "two columns": Mutant(partial(by_two_columns, "key, note"), "Arrow, two columns"),
    "one query of Parquet": Mutant(counting(lambda path: f"read_parquet('{path}')"), "parquet"),
}
MUTANTS = {
    "CSV is sniffed": Mutant(counting(sniffed_csv), "csv"),
    "CSV is sniffed and cast to text": Mutant(counting(sniffed_csv, key="CAST(key AS VARCHAR)"), "csv"),
    "TSV is sniffed": Mutant(counting(sniffed_csv), "tsv"),
    "JSON is sniffed": Mutant(counting(sniffed_json), "jsonl", ("dates", "words")),
    "JSON is sniffed and cast to text": Mutant(
        counting(sniffed_json, key="CAST(key AS VARCHAR)"), "jsonl", ("dates", "words")
    ),
    "folders are cast": Mutant(counting(cast_folders), "hive", NUMBERS),
    "folders are cast, and back to text": Mutant(
        counting(cast_folders, key="CAST(key AS VARCHAR)"), "hive", ("days", "words")
    ),
    "keys are collated": Mutant(counting(registered, grouped="k COLLATE NOCASE"), themes=("cases",)),
    "keys are folded": Mutant(counting(registered, key="lower(key)"), themes=("cases",)),
    "keys are normalised": Mutant(counting(registered, key="nfc_normalize(key)"), themes=("marks",)),
    "keys are trimmed": Mutant(counting(registered, key="trim(key)"), themes=("spaces",)),
    "keys are numbers where they can be": Mutant(
        counting(registered, key="coalesce(CAST(TRY_CAST(key AS BIGINT) AS VARCHAR), key)"), themes=NUMBERS
    ),
    "users are folded": Mutant(counting(registered, user='lower("user")'), themes=("cases",)),
    "users are normalised": Mutant(counting(registered, user='nfc_normalize("user")'), themes=("marks",)),
    "keys by the code of an ENUM": Mutant(counting(registered, order="hash(dense_rank() OVER (ORDER BY k))")),
    "frequent keys first": Mutant(counting(registered, order="-count(*) OVER (PARTITION BY k)")),
    "counts are not cut": Mutant(counting(registered, cut=False)),
    "keys are not limited": Mutant(counting(registered, limited=False)),
    "an empty table is refused": Mutant(refuses_empty_tables),
    "many keys are refused": Mutant(refuses_many_keys),
    "only the first column is limited": Mutant(partial(by_two_columns, "key"), "Arrow, two columns"),
    "a refusal tells of other rows": Mutant(cell_in_message),
}


def refuted(mutant: Mutant, folder: Path, tables: int = MUTANT_TABLES) -> str | None:
    """What the suite reports about a way to count, if anything."""
    for seed in range(tables):
        place = folder / str(seed)
        place.mkdir()
        try:
            check(mutant.kind, seed, place, mutant.function, themes=mutant.themes, kinds=KINDS | HIVE)
        except AssertionError as error:
            return str(error)
    return None


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_suite_refutes_a_reader_that_guesses(mutant: str, tmp_path: Path) -> None:
    found = refuted(MUTANTS[mutant], tmp_path)
    assert found is not None
    assert "Error: " not in found.partition("\n")[0], f"the mutant broke: {found}"


@pytest.mark.parametrize("right", RIGHT)
def test_the_suite_does_not_refute_a_plain_query(right: str, tmp_path: Path) -> None:
    assert refuted(RIGHT[right], tmp_path, RIGHT_TABLES) is None
