"""Keys that are read twice: for their ids, and then for the names of some of them."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .columns import as_column, is_arrow
from .composite import EncodedKeys, KeyTable, is_columns, is_composite, settled
from .encoding import canonical
from .kinds import ColumnKind, Key, KeyColumn, is_simple


def told_apart(keys: Any, kinds: tuple[ColumnKind, ...] = ()) -> Any:
    """Composite keys as a `KeyTable`, of the stated kinds if there are any; simple ones as a column.
    Anything that is no key is refused when ids are made.
    """
    keys = settled(keys)
    if len(kinds) < 2 and is_simple((*kinds, "text")[0]) and not is_composite(keys):
        return keys
    table = KeyTable.read(keys, kinds=kinds)
    return table if table.simple is None else table.simple


def is_one_key(keys: object, columns: int) -> bool:
    """Whether this is a key of so many columns, rather than several keys."""
    if isinstance(keys, tuple) and columns > 1:
        return not is_columns(keys) and not any(isinstance(key, tuple) for key in keys)
    return isinstance(keys, (str, bytes, int, date, np.generic))


def rereadable_keys(keys: Any, columns: tuple[KeyColumn, ...] = ()) -> Any:
    """Keys of a release, by its columns if they are composite, that can be read twice."""
    return checked_names(KeyTable.read(keys, columns) if columns else as_column(keys, "key"))


def checked_names(keys: Any) -> Any:
    """Keys that can be read twice, checked completely, so that names can be read from them."""
    if isinstance(keys, np.ndarray):
        return keys.tolist() if keys.dtype.kind == "O" and keys.ndim == 1 else keys
    if is_arrow(keys) or isinstance(keys, KeyTable):
        try:
            (keys.table if isinstance(keys, KeyTable) else keys).validate(full=True)
        except ValueError:  # its text may show what is in the column
            raise InputError("a column of keys is damaged: it is not valid Arrow data; write it again") from None
    return keys


def take(keys: Any, rows: npt.NDArray[np.int64]) -> list[Key]:
    """The keys of some rows of a list, an array, a column or a `KeyTable`."""
    if isinstance(keys, KeyTable):
        return keys.at(rows).keys()
    if isinstance(keys, (list, tuple)):
        return [keys[row] for row in rows.tolist()]
    if isinstance(keys, np.ndarray):
        taken: list[Key] = keys[rows].tolist()
        return taken
    return [keys[row].as_py() for row in rows.tolist()]  # Arrow's take lacks views, and may overflow its offsets


def names_of(keys: Any, rows: npt.NDArray[np.int64]) -> list[bytes]:
    """The canonical bytes of the keys of some rows."""
    if isinstance(keys, (KeyTable, EncodedKeys)):
        return keys.at(rows).names()
    return [canonical(key) for key in take(keys, rows)]
