"""The largest estimates of a release, and answers as a DataFrame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import MissingDependencyError
from ..keys.columns import is_arrow
from ..keys.composite import KeyTable
from ..keys.containers import is_a
from ..keys.kinds import Key, KeyColumn, labels
from ..mechanisms import notebook
from ..privacy.randomness import Words

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


MOST_SHOWN = 30  # rows in a notebook


@dataclass(frozen=True)
class Fingerprint:
    """The hash of a key whose name a release does not know. It is not a key, and lookups refuse it."""

    id: int

    def __str__(self) -> str:
        return f"{self.id:016x}"

    __repr__ = __str__


class _Ranked(NamedTuple):
    keys: list[Key | Fingerprint]
    estimates: Floats
    low: Floats
    high: Floats


class Ranking(_Ranked):
    """Keys in descending order of their estimates, and an interval for each: keys, estimates, low,
    high.
    """

    columns: tuple[KeyColumn, ...] = ()  # of composite keys

    @classmethod
    def of(
        cls, keys: list[Key | Fingerprint], estimates: Floats, low: Floats, high: Floats, columns: tuple[KeyColumn, ...]
    ) -> Ranking:
        """The ranking of keys that have these columns; none if they are simple."""
        made = cls(keys, estimates, low, high)
        made.columns = columns
        return made

    def _repr_html_(self) -> str:
        shown = slice(MOST_SHOWN)
        rows: list[list[str] | str] = [
            [*map(_number, answer)]
            for answer in zip(self.estimates[shown], self.low[shown], self.high[shown], strict=True)
        ]
        names = [", ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in self.keys[shown]]
        left = len(self.keys) - len(names)
        note = f"and {left:,} more; to_pandas() has all" if left else ""
        return notebook.grid(["key", "estimate", "low", "high"], names, rows, note)

    def to_pandas(self) -> Any:
        """A DataFrame with the columns key (or those of the key, if it has several), estimate, low
        and high.
        """
        named = self.columns and not any(isinstance(key, Fingerprint) for key in self.keys)
        keys = KeyTable.read(self.keys, self.columns) if named else self.keys
        return as_frame(keys, self.estimates, self.low, self.high)


def _number(value: float) -> str:
    """A count for people to read; an infinite bound is no bound."""
    return f"{value:,.1f}".removesuffix(".0") if np.isfinite(value) else "∞" if value > 0 else "-∞"


def largest(ids: Words, estimates: Floats, count: int) -> Rows:
    """The rows of the largest estimates, descending, each id once; among equal estimates the first
    wins.
    """
    order = np.argsort(-estimates, kind="stable")
    _, first = np.unique(ids[order], return_index=True)
    return order[np.sort(first)[:count]]


def as_frame(keys: Any, estimates: Floats, low: Floats, high: Floats) -> Any:
    """Keys, estimates and intervals as a pandas DataFrame."""
    try:
        import pandas
    except ImportError:
        raise MissingDependencyError("a DataFrame needs pandas: pip install pandas") from None
    answers = {"estimate": estimates, "low": low, "high": high}
    if isinstance(keys, KeyTable):
        names = labels(keys.columns, list(answers))
        columns = {name: _as_series(column) for name, column in zip(names, keys.table.columns, strict=True)}
        return pandas.DataFrame({**columns, **answers})
    if is_arrow(keys):
        keys = keys.to_pylist() if is_a(keys.type, "pyarrow", "DictionaryType") else keys.to_pandas()
    if isinstance(keys, (list, tuple)):
        # By default pandas turns integers from both ends of 64 bits into floats.
        keys = pandas.Series(list(keys), dtype=object).infer_objects()
    return pandas.DataFrame({"key": keys, **answers})


def _as_series(column: Any) -> Any:
    """A column of a key in pandas; dates are `datetime.date`, unless there are years that it lacks."""
    if is_a(column.type, "pyarrow", "Decimal128Type"):  # integers from both ends of 64 bits
        return list(map(int, column.to_pylist()))
    try:
        return column.to_pandas()
    except ValueError:
        return column.to_pandas(date_as_object=False)
