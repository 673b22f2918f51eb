"""What callers hand in: dicts, pairs, pandas, polars, Arrow, SciPy rows → ids and integer counts.

All of the data is checked before any noise is drawn; only the public hash seed comes earlier. A key that occurs
several times counts with the sum of its values, as in a sparse matrix. Values become integer cells of the grid
here, so nothing to the right knows floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _native
from .arrow import (
    as_chunked_array,
    as_two_columns,
    check_two_columns,
    is_pandas,
    pandas_to_numpy,
    refuse_missing,
    refuse_nulls,
)
from .contributions import BoundedCounts
from .errors import InputError, KeyTypeError, ParameterError
from .hashing import KEY_KINDS, KeyKind, KeySpace, aligned
from .privacy import Neighbours
from .progress import stage
from .randomness import Randomness, Words
from .rounding import round_integers, round_sums_to_grid, round_to_grid
from .table import LARGEST_COUNT, Counts

if TYPE_CHECKING:
    from typing_extensions import Self

# A Mapping, (keys, values), a pandas Series, a two-column table that speaks Arrow, or a SciPy sparse row.
CountsLike: TypeAlias = Any


@dataclass(frozen=True)
class Cells:
    """Ids, ascending, and their counts on the grid, none of them zero."""

    ids: Words
    counts: Counts

    def __getitem__(self, which: slice | npt.NDArray[Any]) -> Self:
        return replace(self, ids=self.ids[which], counts=self.counts[which])

    def negated(self) -> Self:
        """The same ids with their counts negated."""
        return replace(self, counts=-self.counts)


@dataclass(frozen=True)
class Pairs:
    """Keys and values as they came, and the domain that their container implies (a sparse row's length)."""

    keys: object
    values: npt.NDArray[np.float64] | Counts
    domain: int | None = None
    unit: Fraction = Fraction(1)  # what an integer value stands for


def read_pairs(counts: CountsLike, signed: bool, step: Fraction | None) -> Pairs:
    """Keys and checked values of any supported container, reals if there is a step; nothing is drawn yet."""
    if type(counts) is BoundedCounts:  # checked when they were counted, and sums of whole units
        return Pairs(counts.keys, counts.units, unit=counts.unit)
    keys, values, domain = _split(counts)
    return Pairs(keys, check_values(values, signed, step), domain)


def _split(counts: CountsLike) -> tuple[object, object, int | None]:
    if isinstance(counts, Mapping):
        return list(counts.keys()), list(counts.values()), None
    if isinstance(counts, tuple):
        if len(counts) != 2:
            raise InputError(f"counts must be a mapping or a pair (keys, values), got a tuple of {len(counts)}")
        return counts[0], counts[1], None
    if hasattr(counts, "tocoo"):
        row = counts.tocoo()
        if len(row.shape) > 1 and row.shape[0] != 1:
            raise InputError(f"a sparse matrix must have one row, got shape {row.shape}")
        return np.asarray(row.coords[-1]), row.data, int(row.shape[-1])
    if hasattr(counts, "iloc"):  # pandas: a Series, or a DataFrame, which has columns
        if not hasattr(counts, "columns"):
            return counts.index, counts, None
        check_two_columns(counts.columns)
        return counts.iloc[:, 0], counts.iloc[:, 1], None
    if hasattr(counts, "__arrow_c_stream__"):
        return *as_two_columns(counts), None
    kinds = "a mapping, (keys, values), a Series, a two-column table or a sparse row"
    raise InputError(f"counts must be {kinds}, got {type(counts).__name__}")


def check_values(values: object, signed: bool, step: Fraction | None) -> npt.NDArray[np.float64] | Counts:
    """The values as int64, or as float64 if there is a step; `InputError` with the position of a bad one."""
    array = _as_numpy(values)
    if array.ndim != 1:
        raise InputError(f"values must be one-dimensional, got {array.ndim} dimensions")
    if array.dtype.kind == "O":
        array = _from_objects(array.tolist())
    if array.dtype.kind not in "iuf":
        raise InputError(f"values must be numbers, got {array.dtype}")
    if array.dtype.kind == "f":
        array = array.astype(np.float64, copy=False)
        _refuse(~np.isfinite(array), array, "must be finite", "drop or fix it")
        if step is None:
            _refuse(array != np.floor(array), array, "must be a whole number", "pass step= for real values")
    if not signed:
        _refuse(array < 0, array, "must not be negative", "pass signed=True to allow negative values")
    _refuse(_beyond_63_bits(array), array, "must be below 2^63", "use a larger unit")
    if step is None:
        return array.astype(np.int64, copy=False)
    if array.dtype.kind != "f":
        inexact = (array > 1 << 53) | (array < -(1 << 53))
        _refuse(inexact, array, "must be at most 2^53 when step= is given", "pass it as a float")
    reals = array.astype(np.float64, copy=False)
    _refuse(np.abs(reals) > _largest_real(step), array, "must be below 2^63 steps", "use a larger step")
    return reals


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
    """The largest float that rounds to at most 2^63 - 1 steps, whichever way it goes."""
    exact = ((1 << 63) - 1) * step
    nearest = float(exact)
    return nearest if nearest <= exact else math.nextafter(nearest, 0)


def _as_numpy(values: Any) -> np.ndarray:
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "to_numpy") and isinstance(getattr(values, "dtype", None), np.dtype):
        return np.asarray(values.to_numpy())  # a pandas column that is a NumPy array
    if is_pandas(values):
        refuse_missing(values, "value")
        return pandas_to_numpy(values)
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        column = as_chunked_array(values)
        refuse_nulls(column, "value")
        return np.asarray(column.to_numpy())
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise InputError(f"values must be a sequence of numbers, got {type(values).__name__}")
    # NumPy would make one type of a mixture: floats of large integers, ones of True, strings of everything.
    values = list(values)
    kinds = set(map(type, values))
    if kinds == {float}:
        return np.array(values)
    if kinds == {int}:
        with suppress(OverflowError):  # then one of them is named below
            return np.array(values, np.int64)
    return _from_objects(values)


def _from_objects(values: list[Any]) -> np.ndarray:
    """Python numbers as int64, or as float64 when there is a float among them; or name the culprit."""
    whole = not any(isinstance(value, (float, np.floating)) for value in values)
    largest = (1 << 63) - 1 if whole else 1 << 53
    for position, value in enumerate(values):
        if isinstance(value, (float, np.floating)):
            continue
        if isinstance(value, (bool, np.timedelta64)) or not isinstance(value, (int, np.integer)):
            kind = type(value).__name__
            raise InputError(f"value {value!r} at position {position} must be a number, got {kind}")
        if abs(int(value)) > largest:
            fix = "below 2^63; use a larger unit" if whole else "at most 2^53 beside floats; use one type"
            raise InputError(f"value {value} at position {position} must be {fix}")
    return np.array(values, np.int64 if whole else np.float64)


def _refuse(bad: npt.NDArray[np.bool_], array: np.ndarray, must: str, fix: str) -> None:
    if bad.any():
        position = int(np.argmax(bad))
        raise InputError(f"value {array[position]} at position {position} {must}; {fix}")


def to_cells(ids: Words, pairs: Pairs, neighbours: Neighbours, randomness: Randomness) -> tuple[Words, Counts]:
    """Distinct ids, ascending, with the sum of their values on the grid, in arrays of their own.

    Sums are rounded, not their terms: what is released depends on the vector, not on how its entries were split up.
    """
    if pairs.values.dtype.kind == "i":
        ids, counts = _sorted(ids, aligned(pairs.values, np.int64))
        distinct = _native.sum_runs(ids, counts, LARGEST_COUNT)
        ids, counts = ids[:distinct], counts[:distinct]
        return ids, round_integers(counts, int(neighbours.step / pairs.unit), randomness) if neighbours.real else counts
    ids, carried = _sorted(ids, aligned(pairs.values, np.float64).view(np.int64))
    reals = carried.view(np.float64)
    first = np.ones(len(ids), np.bool_)
    np.not_equal(ids[1:], ids[:-1], out=first[1:])
    if first.all():
        return ids, round_to_grid(reals, neighbours.step, randomness)
    starts = np.flatnonzero(first)
    return ids[starts], round_sums_to_grid(reals, starts, neighbours.step, randomness)


def _sorted(ids: Words, values: Counts) -> tuple[Words, Counts]:
    with stage("Sorting keys", len(ids)) as advance:
        pairs = _native.sort_pairs(ids, values)
        advance(len(ids))
    return pairs


def key_ids(pairs: Pairs, space: KeySpace, stated: KeyKind | None = None) -> tuple[Words, KeySpace]:
    """The ids of the keys, one for each value, and the space that knows their kind."""
    with stage("Reading keys", len(pairs.values)) as advance:
        ids, kind = space.read(pairs.keys)
        advance(len(ids))
    if len(ids) != len(pairs.values):
        raise InputError(f"keys and values must be equally many, got {len(ids)} keys and {len(pairs.values)} values")
    wanted = space.kind or stated
    if wanted is not None and kind not in (wanted, None):
        raise KeyTypeError(f"keys must be of the stated kind, {wanted}, got {kind} keys; convert them, or state theirs")
    return ids, replace(space, kind=wanted or kind or "text")


def check_key_type(key_type: str | None, hashed: bool) -> KeyKind | None:
    """The kind of keys that was asked for, or `ParameterError`."""
    if key_type is None:
        return None
    if key_type not in KEY_KINDS:
        raise ParameterError(f"key_type must be one of {', '.join(map(repr, KEY_KINDS))}, got {key_type!r}")
    if not hashed and key_type != "integer":
        raise ParameterError(f"key_type must be 'integer' with domain=, got {key_type!r}")
    return key_type


def cut(ids: Words, cells: Counts, upper: int | None) -> tuple[Words, Counts]:
    """Cells cut to ±upper, and to ±2^61; zeros are gone. The arrays given are used up."""
    left = _native.cut_pairs(ids, cells, LARGEST_COUNT if upper is None else upper)
    return ids[:left], cells[:left]


def check_domain(domain: int | None, pairs: Pairs) -> int | None:
    """The domain of integer keys: the given one, or the length of a sparse row."""
    if pairs.domain is None or domain is None:
        return domain if pairs.domain is None else pairs.domain
    if domain < pairs.domain:
        raise ParameterError(f"domain must be at least the length {pairs.domain} of the sparse row, got {domain}")
    return domain
