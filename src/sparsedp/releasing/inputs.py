"""The caller's input: dicts, pairs, pandas, polars, Arrow, SciPy rows → ids and integer counts.

All of the data is checked before any noise is drawn; only the public hash seed comes earlier.
Values are taken exactly or refused; messages name a position, and show no cell. A key that occurs
several times counts with the sum of its values, as in a sparse matrix. Values become integer cells
of the grid here, so no later room handles floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._util.progress import task
from ..errors import InputError, KeyTypeError, ParameterError
from ..keys.arrow import as_keys_and_values, check_counted_columns, values_to_numpy
from ..keys.columns import as_column, is_arrow
from ..keys.composite import KeyTable
from ..keys.containers import has, is_table, is_unread
from ..keys.hashing import KeySpace
from ..keys.kinds import ColumnKind, columns_in_words, is_simple, stated_kinds
from ..keys.rows import told_apart
from ..privacy.contributions import as_bounded
from ..privacy.randomness import Words
from ..structures.table import Counts

if TYPE_CHECKING:
    pass

# A Mapping, (keys, values), a pandas Series, a table of keys and values (pandas, polars, Arrow), or a
# SciPy sparse row.
CountsLike: TypeAlias = Any

_NO_DOUBLE = ("must be exactly a 64-bit float", "convert it to int or float first")


@dataclass(frozen=True)
class Pairs:
    """Keys as the caller passed them, and checked values."""

    keys: object
    values: npt.NDArray[np.float64] | Counts
    unit: Fraction = Fraction(1)  # what an integer value stands for


def read_pairs(counts: CountsLike, signed: bool, step: Fraction | None) -> Pairs:
    """Keys and checked values of any supported container, reals if there is a step; no randomness
    is drawn yet.
    """
    if (bounded := as_bounded(counts)) is not None:  # already checked, and sums of whole units
        return Pairs(bounded.keys, bounded.units, unit=bounded.unit)
    keys, values = _split(counts)
    return Pairs(keys, check_values(values, signed, step))


def check_row(counts: CountsLike, domain: int | None) -> None:
    """`ParameterError` for a sparse row without a stated domain: the domain is published.

    The row's own length is not a substitute: SciPy takes it from the largest index, which is data.
    """
    if domain is None and has(counts, "tocoo"):
        raise ParameterError(
            "domain must be given with a sparse row: its length may come from its largest index, and a domain is "
            "published; pass domain=, the number of possible keys"
        )


def _split(counts: CountsLike) -> tuple[object, object]:
    if isinstance(counts, Mapping):
        return list(counts.keys()), list(counts.values())
    if isinstance(counts, tuple):
        if len(counts) != 2:
            raise InputError(f"counts must be a mapping or a pair (keys, values), got a tuple of {len(counts)}")
        return counts[0], counts[1]
    if has(counts, "tocoo"):
        row = counts.tocoo()
        if len(row.shape) > 1 and row.shape[0] != 1:
            raise InputError(f"a sparse matrix must have one row, got {row.shape[0]}")
        return np.asarray(row.coords[-1]), row.data
    if has(counts, "iloc"):  # pandas: a Series, or a DataFrame, which has columns
        if not has(counts, "columns"):
            return counts.index, counts
        check_counted_columns(counts.columns)
        single = len(counts.columns) == 2
        return counts.iloc[:, 0] if single else counts.iloc[:, :-1], counts.iloc[:, -1]
    if has(counts, "__arrow_c_stream__") or is_unread(counts):
        return as_keys_and_values(counts)
    kinds = "a mapping, (keys, values), a Series, a table of keys and values or a sparse row"
    raise InputError(f"counts must be {kinds}, got {type(counts).__name__}")


def check_values(values: object, signed: bool, step: Fraction | None) -> npt.NDArray[np.float64] | Counts:
    """The values as int64, or as float64 if there is a step; `InputError` with the position of a
    bad value.
    """
    array = _as_numpy(values)
    if array.ndim != 1:
        raise InputError(f"values must be one-dimensional, got {array.ndim} dimensions")
    if array.dtype.kind == "O":
        array = _from_objects(array.tolist())
    if array.dtype.kind not in "iuf":
        raise InputError(f"values must be numbers, got {array.dtype}")
    if array.dtype.kind == "f":
        _refuse(~np.isfinite(array), "must be finite", "drop or fix it")
        array = _as_doubles(array)
        if step is None:
            _refuse(array != np.floor(array), "must be a whole number", "pass step= for real values")
    if not signed:
        _refuse(array < 0, "must not be negative", "pass signed=True to allow negative values")
    _refuse(_beyond_63_bits(array), "must be below 2^63", "use a larger unit")
    if step is None:
        return array.astype(np.int64, copy=False)
    if array.dtype.kind != "f":
        inexact = (array > 1 << 53) | (array < -(1 << 53))
        _refuse(inexact, "must be at most 2^53 when step= is given", "pass it as a float")
    reals = array.astype(np.float64, copy=False)
    _refuse(np.abs(reals) > _largest_real(step), "must be below 2^63 steps", "use a larger step")
    return reals


def _as_doubles(array: np.ndarray) -> npt.NDArray[np.float64]:
    """Finite floats of any width as doubles, if that is exact: rounding could turn one count into
    two.
    """
    if array.dtype.itemsize <= 8:
        return array.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):  # a value that overflows is not equal, and is refused
        doubles = array.astype(np.float64, copy=False)
    _refuse(doubles != array, *_NO_DOUBLE)
    return doubles


def _beyond_63_bits(array: np.ndarray) -> npt.NDArray[np.bool_]:
    # Integers are compared as integers: as a float, 2^63 - 1 would be rounded first.
    beyond: npt.NDArray[np.bool_]
    if array.dtype.kind == "f":
        beyond = np.abs(array) >= 2.0**63
    elif array.dtype.kind == "u":
        beyond = array > np.uint64((1 << 63) - 1)
    else:
        beyond = array == np.iinfo(np.int64).min
    return beyond


def _largest_real(step: Fraction) -> float:
    """The largest float that rounds to at most 2^63 - 1 steps, in either direction."""
    exact = ((1 << 63) - 1) * step
    nearest = float(exact)
    return nearest if nearest <= exact else math.nextafter(nearest, 0)


def _as_numpy(values: Any) -> np.ndarray:
    column = as_column(values, "value")
    if isinstance(column, np.ndarray):
        return column
    if is_arrow(column):
        return values_to_numpy(column)
    if is_table(column):
        raise InputError(f"values must be one column, got a table ({type(values).__name__}); pass one of its columns")
    if not isinstance(column, (list, tuple)):
        raise InputError(f"values must be a sequence of numbers, got {type(values).__name__}")
    # NumPy would force a mixture into one type: large integers into floats, True into 1, or
    # everything into strings.
    values = list(column)
    kinds = set(map(type, values))
    if kinds == {float}:
        return np.array(values)
    if kinds == {int}:
        with suppress(OverflowError):  # the offending value is named below
            return np.array(values, np.int64)
    return _from_objects(values)


def _from_objects(values: list[Any]) -> np.ndarray:
    """Python numbers as int64, or as float64 if one of them is a float; `InputError` with the
    position of a bad one.
    """
    numbers = [_number(value, position) for position, value in enumerate(values)]
    if not any(isinstance(number, float) for number in numbers):
        _refuse_beyond(numbers, (1 << 63) - 1, "must be below 2^63; use a larger unit")
        return np.array(numbers, np.int64)
    _refuse_beyond(numbers, 1 << 53, "must be at most 2^53 beside floats; use one type")
    return np.array(numbers, np.float64)


def _number(value: Any, position: int) -> int | float:
    """The same number as a Python int if it is an integer, otherwise as a float."""
    if isinstance(value, (bool, np.timedelta64)):  # both count as integers to Python and NumPy
        pass
    elif isinstance(value, (int, np.integer)):
        return int(value)
    elif isinstance(value, (float, np.floating)):  # of any width
        double = float(value)
        if double == value or not np.isfinite(value):
            return double
        raise InputError(f"value at position {position} {'; '.join(_NO_DOUBLE)}")
    elif isinstance(value, (Decimal, Fraction)):
        number = _rational(value)
        if number is not None:
            return number
        raise InputError(f"value at position {position} {'; '.join(_NO_DOUBLE)}")
    raise InputError(f"value at position {position} must be a number, got {type(value).__name__}")


def _rational(value: Decimal | Fraction) -> int | float | None:
    """The same number as an int or a float, if that is exact. What cannot be a count becomes a huge
    number or NaN.
    """
    if isinstance(value, Decimal) and not value.is_finite():
        return math.nan
    large = 1 << 64  # checked before any integer as large as 10 ** exponent is computed
    if not -large < value < large:
        return large if value > 0 else -large
    if int(value) == value:
        return int(value)
    double = float(value)
    return double if type(value)(double) == value else None


def _refuse_beyond(numbers: list[int | float], largest: int, must: str) -> None:
    for position, number in enumerate(numbers):
        if isinstance(number, int) and abs(number) > largest:
            raise InputError(f"value at position {position} {must}")


def _refuse(bad: npt.NDArray[np.bool_], must: str, fix: str) -> None:
    if bad.any():
        raise InputError(f"value at position {int(np.argmax(bad))} {must}; {fix}")


def key_ids(pairs: Pairs, space: KeySpace, stated: tuple[ColumnKind, ...] = ()) -> tuple[Words, KeySpace]:
    """The ids of the keys, one for each value, and the key space with their kind or columns."""
    with task("Reading keys", len(pairs.values)) as advance:
        keys = told_apart(pairs.keys, stated)
        ids, space = _composite_ids(keys, space) if isinstance(keys, KeyTable) else _simple_ids(keys, space, stated)
        advance(len(ids))
    if len(ids) != len(pairs.values):
        raise InputError(f"there must be as many keys as values, got {len(ids)} keys and {len(pairs.values)} values")
    return ids, space


def _simple_ids(keys: Any, space: KeySpace, stated: tuple[ColumnKind, ...]) -> tuple[Words, KeySpace]:
    ids, kind = space.read(keys)
    wanted = space.kind or (stated[0] if stated and is_simple(stated[0]) else None)
    if wanted is not None and kind not in (wanted, None):
        raise KeyTypeError(f"keys must be of the stated kind, {wanted}, got {kind} keys; convert them, or state theirs")
    return ids, replace(space, kind=wanted or kind or "text")


def _composite_ids(keys: KeyTable, space: KeySpace) -> tuple[Words, KeySpace]:
    if space.seed is None:
        raise KeyTypeError(
            f"keys must be integers in [0, {space.domain}), got the columns {columns_in_words(keys.columns)}; "
            "omit domain= to hash them"
        )
    if [column.kind for column in keys.columns] == ["boolean"]:
        raise KeyTypeError("a key must not be a truth value alone; use text or integers")
    return keys.ids(space.seed), replace(space, columns=keys.columns)


def check_key_type(key_type: Any, hashed: bool) -> tuple[ColumnKind, ...]:
    """The requested kinds of the key's columns, or `ParameterError`; none if nothing is stated."""
    if key_type is None:
        return ()
    kinds = stated_kinds(key_type)
    if not hashed and kinds != ("integer",):
        raise ParameterError(f"key_type must be 'integer' with domain=, got {key_type!r}")
    if kinds == ("boolean",):
        raise ParameterError("key_type must not be 'boolean' for keys of one column; use text or integers")
    return kinds
