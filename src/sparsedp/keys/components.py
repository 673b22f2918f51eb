"""One column of a composite key, from any container, as an Arrow column of its kind.

Values keep their kind: nothing is parsed, rounded or cut. A timestamp in another unit is converted
if that is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, KeyTypeError
from .arrow import refuse_nulls
from .columns import as_column, is_arrow
from .containers import has
from .encoding import NO_TIME
from .kinds import UNITS, ColumnKind, in_words, is_column_kind, is_instant, timestamps, unit_of

if TYPE_CHECKING:
    import pyarrow as pa

_MOST = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_CLASSES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "bytes": (bytes,),
    "integer": (int, np.integer),
    "boolean": (bool, np.bool_),
    "date": (date, np.datetime64),
}
_TIMES = (datetime, np.datetime64)


def read_component(thing: Any, wanted: ColumnKind | None, what: str) -> tuple[pa.ChunkedArray, ColumnKind | None]:
    """The column in Arrow, and its kind, which is None if there are no values and no type.

    `KeyTypeError` if it is not of the `wanted` kind; `what` names the column in messages.
    """
    column = as_column(thing, "key")
    if isinstance(column, np.ndarray) and column.dtype.kind in "OTUS" and column.ndim == 1:
        column = column.tolist()
    if isinstance(column, (list, tuple)):
        return _of_objects(list(column), wanted, what)
    floating = isinstance(column, np.ndarray)  # NumPy's times have no time zone, and fit either kind of timestamps
    if isinstance(column, np.ndarray):
        column = _of_numpy(column, what)
    if not is_arrow(column):
        raise KeyTypeError(f"{what} must be a column of values, got {type(thing).__name__}")
    refuse_nulls(column, what)
    column, kind = _plain(column)
    if kind is None:
        if len(column):
            raise KeyTypeError(
                f"{what} must be text, bytes, integers, truth values, dates or timestamps, got {column.type}"
            )
        return column, None
    if wanted is not None and wanted != kind:
        column = _converted(column, kind, wanted, floating, what)
    elif unit_of(kind) is not None:
        _refuse_at(_integers(column) == NO_TIME, what, "is not a time")
    return column, wanted or kind


def _plain(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, ColumnKind | None]:
    """The column in one of the types that are encoded, and its kind; None for a type of no keys."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = _decoded(column)
    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind):
        return column, "text"
    if types.is_binary(kind) or types.is_large_binary(kind):
        return column, "bytes"
    if types.is_string_view(kind):
        return column.cast(pa.large_string()), "text"
    if types.is_binary_view(kind):
        return column.cast(pa.large_binary()), "bytes"
    if types.is_integer(kind):
        return column if kind in (pa.int64(), pa.uint64()) else column.cast(pa.int64()), "integer"
    if types.is_boolean(kind):
        return column, "boolean"
    if types.is_date(kind):
        try:
            return column.cast(pa.date32()), "date"
        except pa.ArrowInvalid:
            raise InputError("a column of dates has times of the day, or is out of range; cast it to date32") from None
    if types.is_timestamp(kind):
        zone = None if kind.tz is None else "UTC"
        return column.cast(pa.timestamp(kind.unit, zone)), timestamps(kind.unit, zone is not None)
    return column, None


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of a column of a dictionary type."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type.value_type
    if not types.is_string_view(kind) and not types.is_binary_view(kind):
        return column.cast(kind)
    # Arrow cannot cast these, nor take rows of views.
    kind = pa.large_string() if types.is_string_view(kind) else pa.large_binary()
    return pa.chunked_array([chunk.dictionary.cast(kind).take(chunk.indices) for chunk in column.chunks], kind)


def _of_numpy(array: npt.NDArray[Any], what: str) -> Any:
    import pyarrow as pa

    if array.ndim != 1:
        raise KeyTypeError(f"{what} must be one-dimensional, got {array.ndim} dimensions")
    if array.dtype.kind == "M":
        unit = _unit(array.dtype)
        if unit is None:
            raise KeyTypeError(
                f"{what} must be in days, s, ms, us or ns, got {array.dtype}; use .astype('datetime64[s]')"
            )
        if unit == "D":
            _refuse_far_days(array, what)
    elif array.dtype.kind not in "iub" and len(array):
        raise KeyTypeError(
            f"{what} must be text, bytes, integers, truth values, dates or timestamps, got an array of {array.dtype}"
        )
    return pa.chunked_array([pa.array(array.astype(array.dtype.newbyteorder("="), copy=False))])


def _unit(dtype: np.dtype[Any]) -> str | None:
    """The unit of NumPy's times, `D` for dates; None for any other, such as weeks or 25 s."""
    unit, multiple = np.datetime_data(dtype)
    return unit if multiple == 1 and unit in ("D", *UNITS) else None


def _refuse_far_days(days: npt.NDArray[Any], what: str) -> None:
    """`InputError` for dates that 32 bits do not hold: Arrow would take others for them."""
    numbers = days.astype(np.int64)
    far = (numbers < -(1 << 31)) | (numbers >= 1 << 31)
    _refuse_at(far & ~np.isnat(days), what, "must be within 2^31 days of 1970")


def _converted(
    column: pa.ChunkedArray, kind: ColumnKind, wanted: ColumnKind, floating: bool, what: str
) -> pa.ChunkedArray:
    """The column in another unit; any other conversion is refused."""
    import pyarrow as pa

    unit, other = unit_of(wanted), unit_of(kind)
    if unit is None or other is None or (is_instant(wanted) != is_instant(kind) and not floating):
        raise wrong_component(wanted, kind, what)
    moved = _rescaled(_integers(column), other, unit, what)
    return pa.chunked_array([pa.array(moved).cast(pa.timestamp(unit, "UTC" if is_instant(wanted) else None))])


def _integers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    import pyarrow as pa

    found: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    return found


def _rescaled(numbers: npt.NDArray[np.int64], unit: str, wanted: str, what: str) -> npt.NDArray[np.int64]:
    """Whole numbers of a unit in another one; `InputError` with the position of what does not fit."""
    have, need = UNITS[unit], UNITS[wanted]
    _refuse_at(numbers == NO_TIME, what, "is not a time")
    if need < have:
        factor = have // need
        _refuse_at(numbers % factor != 0, what, f"must be a whole number of {wanted}; cut it to that unit")
        return numbers // factor
    factor = need // have
    _refuse_at(np.abs(numbers) > _MOST // factor, what, f"must be within the range of 64-bit {wanted}")
    return numbers * factor


def _of_objects(values: list[Any], wanted: ColumnKind | None, what: str) -> tuple[pa.ChunkedArray, ColumnKind | None]:
    """Python values, all of the kind that is wanted, or else of the kind of the first."""
    import pyarrow as pa

    if not values:
        return pa.chunked_array([pa.array([], pa.null())]), wanted
    kind = wanted or kind_of_value(values[0])
    if kind is None:
        _refuse_null(values[0], f"{what} at position 0")
        raise KeyTypeError(
            f"{what} at position 0 must be str, bytes, int, bool, datetime.date or datetime, "
            f"got {type(values[0]).__name__}"
        )
    _check_classes(values, kind, what)
    if wanted is None and unit_of(kind) is not None:
        _check_units(values, kind, what)
    return pa.chunked_array([_READERS.get(kind, _times)(values, kind, what)]), kind


def _check_classes(values: list[Any], kind: ColumnKind, what: str) -> None:
    """`KeyTypeError` with the position of the first value that is not of the kind."""
    classes = _CLASSES.get(kind, _TIMES)
    wrong = {
        own
        for own in set(map(type, values))
        if not issubclass(own, classes)
        or (kind == "integer" and issubclass(own, (bool, np.timedelta64)))
        or (kind == "date" and issubclass(own, datetime))
    }
    if not wrong:
        return
    at = next(at for at, value in enumerate(values) if type(value) in wrong)
    _refuse_null(values[at], f"{what} at position {at}")
    other = kind_of_value(values[at])
    if at == 0 or other is None:
        raise wrong_component(kind, other or type(values[at]).__name__, f"{what} at position {at}")
    raise KeyTypeError(
        f"{what} must be of one type, got {type(values[0]).__name__} at position 0 and {type(values[at]).__name__} at "
        f"position {at}; convert them to one"
    )


def _refuse_null(value: Any, what: str) -> None:
    if value is None or (isinstance(value, np.datetime64) and np.isnat(value)):
        raise InputError(f"{what} is null; drop or fill missing rows first")


def _check_units(values: list[Any], kind: ColumnKind, what: str) -> None:
    """`KeyTypeError` for times in several units: the first would decide about the others."""
    for at, value in enumerate(values):
        if value == value and kind_of_value(value) != kind:
            raise KeyTypeError(
                f"{what} must have one unit and all time zones or none, got another at position {at} than {kind}; "
                "convert them to one, or pass key_type="
            )


def kind_of_value(value: Any) -> ColumnKind | None:
    """The kind of a column with this value; None if it is no value of a key."""
    if isinstance(value, np.datetime64):
        unit = _unit(value.dtype)
        return None if unit is None else "date" if unit == "D" else timestamps(unit, False)
    if isinstance(value, datetime):
        return timestamps("us", _has_offset(value))  # the unit of a pandas Timestamp may depend on its value
    kinds: list[tuple[tuple[type, ...], ColumnKind]] = [
        ((str,), "text"),
        ((bytes,), "bytes"),
        ((bool, np.bool_), "boolean"),
        ((int, np.integer), "integer"),
        ((date,), "date"),
    ]
    if isinstance(value, np.timedelta64):  # NumPy counts it among the integers
        return None
    return next((kind for classes, kind in kinds if isinstance(value, classes)), None)


def _has_offset(value: datetime) -> bool:
    """Whether this is an instant. A time zone may not know its offset, and NaT of pandas has no
    `utcoffset`.
    """
    return value.tzinfo is not None and value.utcoffset() is not None


def _texts(values: list[Any], _: ColumnKind, what: str) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values, pa.large_string())
    except UnicodeEncodeError:
        at = next(at for at, value in enumerate(values) if any("\ud800" <= letter <= "\udfff" for letter in value))
        raise InputError(f"{what} at position {at} must be valid Unicode, got a lone surrogate; use bytes") from None


def _bytes(values: list[Any], _: ColumnKind, what: str) -> Any:
    import pyarrow as pa

    return pa.array(values, pa.large_binary())


def _whole_numbers(values: list[Any], _: ColumnKind, what: str) -> Any:
    import pyarrow as pa

    numbers = list(map(int, values))
    least, most = min(numbers), max(numbers)
    if least >= -(1 << 63) and most <= _MOST:
        return pa.array(numbers, pa.int64())
    for at, number in enumerate(numbers):
        if not -(1 << 63) <= number < 1 << 64:
            raise InputError(f"{what} at position {at} must be in [-2^63, 2^64); use str for larger integers")
    # No integer type of Arrow holds both ends, and other rows must not decide what is refused.
    return pa.array(numbers, pa.uint64() if least >= 0 else pa.decimal128(20, 0))


def _truths(values: list[Any], _: ColumnKind, what: str) -> Any:
    import pyarrow as pa

    return pa.array(list(map(bool, values)), pa.bool_())


def _dates(values: list[Any], _: ColumnKind, what: str) -> Any:
    import pyarrow as pa

    if set(map(type, values)) == {date}:
        return pa.array(values, pa.date32())
    for at, value in enumerate(values):
        _refuse_null(value, f"{what} at position {at}")
        if isinstance(value, np.datetime64) and _unit(value.dtype) != "D":
            raise KeyTypeError(
                f"{what} at position {at} must be a date, got {value.dtype}; use .astype('datetime64[D]')"
            )
    days = np.array(values, "datetime64[D]")
    _refuse_far_days(days, what)
    return pa.array(days)


def _times(values: list[Any], kind: ColumnKind, what: str) -> Any:
    import pyarrow as pa

    unit = unit_of(kind)
    assert unit is not None
    numbers = np.empty(len(values), np.int64)
    for at, value in enumerate(values):
        number, own = _time(value, kind, f"{what} at position {at}")
        scaled, rest = divmod(number * UNITS[unit], UNITS[own])
        if rest or not NO_TIME < scaled <= _MOST:
            raise InputError(
                f"{what} at position {at} must be a whole number of {unit} in 64 bits; cut it to that unit"
            )
        numbers[at] = scaled
    return pa.array(numbers).cast(pa.timestamp(unit, "UTC" if is_instant(kind) else None))


def _time(value: Any, kind: ColumnKind, what: str) -> tuple[int, str]:
    """A time as a number of units since 1970, and the unit."""
    if isinstance(value, np.datetime64):
        _refuse_null(value, what)
        unit = _unit(value.dtype)
        if unit not in UNITS:
            raise KeyTypeError(
                f"{what} must be a time in s, ms, us or ns, got {value.dtype}; use .astype('datetime64[s]')"
            )
        return int(value.astype(np.int64)), unit
    if value != value:  # NaT of pandas
        raise InputError(f"{what} is null; drop or fill missing rows first")
    instant = _has_offset(value)
    if instant != is_instant(kind):
        raise wrong_component(kind, timestamps("us", instant), what)
    if has(value, "asm8"):  # a Timestamp of pandas, in UTC if it has a zone
        return int(value.asm8.astype(np.int64)), value.unit
    return (value - _EPOCH_UTC if instant else value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND, "us"


_READERS: dict[str, Callable[[list[Any], ColumnKind, str], Any]] = {
    "text": _texts,
    "bytes": _bytes,
    "integer": _whole_numbers,
    "boolean": _truths,
    "date": _dates,
}

_FIXES: dict[tuple[str, str], str] = {
    ("text", "integer"): "use str(value)",
    ("text", "bytes"): "use value.decode()",
    ("text", "date"): "use value.isoformat()",
    ("bytes", "text"): "use value.encode()",
    ("integer", "text"): "use int(value)",
    ("boolean", "integer"): "use bool(value)",
    ("date", "text"): "use datetime.date.fromisoformat(value)",
    ("date", "timestamp"): "use value.date()",
    ("timestamp", "text"): "use datetime.datetime.fromisoformat(value)",
    ("timestamp", "date"): "use a datetime",
    ("timestamp", "timestamp"): "{}",
}


def wrong_component(wanted: ColumnKind, got: str, what: str) -> KeyTypeError:
    """The error for values of another kind, or of a class that no kind has."""
    family, other = ("timestamp" if unit_of(kind) else kind for kind in (wanted, got))
    fix = _FIXES.get((family, other), "use values of the type that was counted")
    zone = "give it a time zone" if is_instant(wanted) else "use local times, without a time zone"
    shown = in_words(got) if is_column_kind(got) else got
    return KeyTypeError(f"{what} must be {in_words(wanted)}, got {shown}; {fix.format(zone)}")


def _refuse_at(bad: npt.NDArray[np.bool_], what: str, must: str) -> None:
    if bad.any():
        raise InputError(f"{what} at position {int(np.argmax(bad))} {must}")
