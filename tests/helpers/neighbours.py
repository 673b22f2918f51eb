"""Whether a way to count respects the bound: removing one user changes the counts by at most that
user's share.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

import sparsedp
from neighbouring_inputs import KINDS, Kind
from neighbouring_tables import Events, Game, game, of_kind, plain_keys
from sparsedp import BoundedCounts, InputError

CountFunction = Callable[..., BoundedCounts]
Units = dict[Any, int]  # by kind and bytes of the key, or of each of its columns
_PLACE = re.compile(r"\b(row|line|record/value|position) (\d+)")


@dataclass(frozen=True)
class Outcome:
    """Counts by kind and bytes of their keys, or why there are none."""

    units: Units
    kind: str = ""
    refusal: str | None = None


@dataclass
class Seen:
    """What a run of the suite has seen."""

    pairs: int = 0
    counts: int = 0
    refused: int = 0
    kinds: set[str] = field(default_factory=set)
    keys: float = 0.0  # the largest ℓ0 / m
    most: float = 0.0  # the largest ℓ∞ / M

    def add(self, other: Seen) -> None:
        """Add what another run has seen."""
        self.pairs, self.counts = self.pairs + other.pairs, self.counts + other.counts
        self.refused, self.kinds = self.refused + other.refused, self.kinds | other.kinds
        self.keys, self.most = max(self.keys, other.keys), max(self.most, other.most)


def by_bytes(keys: Any) -> tuple[str, list[Any]]:
    """The kind of keys, and kind and bytes of each, or of each of its columns if it has several."""
    if isinstance(keys, pa.Table):
        columns = [by_bytes(column) for column in keys.columns]
        if len(columns) == 1:
            return columns[0]
        return ", ".join(kind for kind, _ in columns), list(zip(*(cells for _, cells in columns), strict=True))
    column = pa.chunked_array(keys) if not isinstance(keys, (pa.Array, pa.ChunkedArray)) else keys
    kind = column.type.value_type if pt.is_dictionary(column.type) else column.type
    if pt.is_integer(kind):
        return "integer", [("integer", str(key).encode()) for key in column.to_pylist()]
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return "text", [("text", key.encode()) for key in column.to_pylist()]
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return "bytes", [("bytes", key) for key in column.to_pylist()]
    if pt.is_date32(kind):
        return "date", [("date", str(key).encode()) for key in column.to_pylist()]
    if pt.is_boolean(kind):
        return "boolean", [("boolean", str(key).lower().encode()) for key in column.to_pylist()]
    if pt.is_timestamp(kind):
        numbers = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        return "timestamp", [("timestamp", str(key).encode()) for key in numbers.to_pylist()]
    raise AssertionError(f"keys are a column of {kind}")


def count_once(count_function: CountFunction, source: object, arguments: dict[str, Any]) -> Outcome:
    """The counts of a source, or why it was refused."""
    try:
        counts = count_function(source, **arguments)
    except InputError as error:
        return Outcome({}, refusal=str(error))
    kind, keys = by_bytes(counts.keys)
    assert len(set(keys)) == len(keys), "a key occurs twice"
    return Outcome(dict(zip(keys, counts.units.tolist(), strict=True)), kind)


def limits(arguments: dict[str, Any]) -> tuple[int, int]:
    """How many keys one user may move, and by how many units each."""
    per_key = arguments.get("max_per_key", 1)
    return arguments.get("max_keys_per_user", 1), per_key if arguments.get("step") is None else (per_key * 2) << 20


def compare(
    larger: Outcome,
    smaller: Outcome,
    events: Events,
    gone: frozenset[int],
    arguments: dict[str, Any],
    *,
    header: bool = False,
    exact: bool = True,
    placed: bool = True,
) -> Seen:
    """How much the removed rows have moved; `AssertionError` if it is more than they may.

    `events` is the larger table, whose lines begin with a `header`. With `exact`, the keys that
    move must be those of the removed rows; with `placed`, messages about these rows must name their
    position.
    """
    if larger.refusal is not None or smaller.refusal is not None:
        places = events.places(gone, header)
        _compare_refusals(larger.refusal, smaller.refusal, *places, placed=placed)
        return Seen(pairs=1, refused=1)
    assert larger.kind == smaller.kind, f"keys are {larger.kind} with the user and {smaller.kind} without"
    moved = {
        key: larger.units.get(key, 0) - smaller.units.get(key, 0) for key in larger.units.keys() | smaller.units.keys()
    }
    moved = {key: units for key, units in moved.items() if units}
    most_keys, most_units = limits(arguments)
    shown = dict(sorted(moved.items())[:8])
    assert len(moved) <= most_keys, f"{len(moved)} keys moved, and at most {most_keys} may: {shown}"
    most = max(map(abs, moved.values()), default=0)
    assert most <= most_units, f"a count moved by {most} units, and at most {most_units} may: {shown}"
    if not arguments.get("signed"):
        assert min(moved.values(), default=0) >= 0, f"a count became smaller by more rows: {shown}"
    if exact:
        own = {plain_keys(events.rows[at], events.cells, arguments) for at in gone}
        assert moved.keys() <= own, f"keys moved that are not the user's: {shown}"
    return Seen(pairs=1, keys=len(moved) / most_keys, most=most / most_units)


def _compare_refusals(larger: str | None, smaller: str | None, rows: set[int], lines: set[int], placed: bool) -> None:
    assert larger is not None, f"refused without the user only: {smaller}"
    known = set() if smaller is None else _parts(smaller)
    if _parts(larger) == known:
        return
    # Anything else that is wrong with the larger table must be in the removed rows, and the message
    # says so.
    more = "; ".join(part for part in larger.split("; ") if _parts(part) - known)
    assert more, f"refused for more without the user: {smaller} (with: {larger})"
    # A file that cannot be parsed has no rows, and the error may be noticed after the place where
    # it begins.
    if not placed or "cannot be read" in more:
        return
    places = [(what, int(number)) for what, number in _PLACE.findall(more)]
    assert places, f"refused with the user only, and not by a place: {larger} (without: {smaller})"
    wrong = [
        f"{what} {number}"
        for what, number in places
        if number + (what == "position") not in (lines if what == "line" else rows)
    ]
    assert not wrong, (
        f"refused with the user only, by {', '.join(wrong)}, which is another's: {larger} (without: {smaller})"
    )


def _parts(message: str) -> set[str]:
    """The message without numbers and paths."""
    plain = re.sub(r"\brows\b", "row", re.sub(r"\d+", "#", re.sub(r"(/[^/\s]+)+/", "", message)))
    return set(plain.split("; "))


def check(
    name: str,
    seed: int,
    folder: Path,
    count_function: CountFunction = sparsedp.count,
    damaged: bool = False,
    themes: tuple[str, ...] = (),
    kinds: dict[str, Kind] = KINDS,
) -> Seen:
    """All pairs of the table of a seed, as an input of this kind; `AssertionError` says how to
    reproduce it.
    """
    kind = kinds[name]
    damages = kind.damages if damaged else ()
    played = game(f"{name}/{seed}/{damaged}", kind.cells, kind.as_text, damages, kind.several, themes or kind.themes)
    played = of_kind(played, kind.key_type, kind.several_columns)
    users = tuple(range(len(played.events.removable)))
    outcomes: dict[tuple[int, ...], Outcome] = {}
    seen = Seen(kinds={name})

    def outcome(gone: tuple[int, ...]) -> Outcome:
        if gone not in outcomes:
            place = folder / "".join(map(str, gone)).rjust(len(users) + 1, "-")
            place.mkdir()
            source = kind.make(played.events.without(gone), place)
            outcomes[gone] = count_once(count_function, source, {**played.arguments, **kind.options})
            shutil.rmtree(place)
            seen.counts += 1
        return outcomes[gone]

    for gone, more in played.pairs():
        (user,) = set(more) - set(gone)
        rows = played.events.removable[user]
        larger = played.events.without(gone)
        try:
            how: dict[str, bool] = {"header": kind.header, "placed": kind.placed}
            how["exact"] = kind.faithful and not damaged
            seen.add(compare(outcome(gone), outcome(more), larger, rows, played.arguments, **how))
        except Exception as error:
            reason = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            raise AssertionError(_reproduction(name, seed, damaged, played, larger, rows, reason)) from error
    return seen


def _reproduction(
    name: str, seed: int, damaged: bool, played: Game, larger: Events, rows: frozenset[int], reason: str
) -> str:
    arguments = ", ".join(f"{key}={value!r}" for key, value in played.arguments.items())
    order = larger.order
    gone = "\n".join(f"  row {order.index(at) + 1}: {larger.rows[at]}" for at in sorted(rows))
    left = [f"  row {number}: {larger.rows[at]}" for number, at in enumerate(order, 1) if at not in rows]
    others = "\n".join(left[:12] + ([f"  and {len(left) - 12} more"] if len(left) > 12 else []))
    return (
        f"{reason}\nas check({name!r}, {seed}, folder{', damaged=True' if damaged else ''}): count(…, {arguments})\n"
        f"columns {', '.join(larger.columns)}; the rows that are gone:\n{gone}\nthe rows that stay:\n{others}"
    )
