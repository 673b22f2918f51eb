"""Keys that are read twice, for their ids and for their names: as a list, a NumPy array or an Arrow column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from . import arrow
from .containers import has, is_a, is_numpy_inside, is_pandas, is_table, speaks_arrow, unmasked
from .hashing import Key


def rereadable_keys(keys: Any) -> Any:
    """The keys as a list, a plain NumPy array or an Arrow column; what are no keys is refused when ids are made."""
    if isinstance(keys, (str, bytes, list, tuple)) or is_table(keys):
        return keys
    if is_numpy_inside(keys):
        keys = keys.to_numpy()
    elif is_pandas(keys):
        arrow.refuse_missing(keys, "key")
        keys = arrow.as_chunked_array(keys) if keys.dtype.kind in "OU" else arrow.pandas_to_numpy(keys)
    elif speaks_arrow(keys):
        keys = arrow.as_chunked_array(keys)
    elif has(keys, "to_numpy"):
        keys = np.asarray(keys.to_numpy())
    elif not isinstance(keys, np.ndarray) and isinstance(keys, Iterable):
        return list(keys)
    if isinstance(keys, np.ndarray):
        keys = unmasked(keys, "key")
        return keys.tolist() if keys.dtype.kind == "O" and keys.ndim == 1 else keys
    if is_a(keys, "pyarrow", "ChunkedArray"):
        try:
            keys.validate(full=True)
        except ValueError:  # whose text may show what is in the column
            raise InputError("a column of keys is damaged: it breaks the rules of Arrow; write it anew") from None
    return keys


def take(keys: Any, rows: npt.NDArray[np.int64]) -> list[Key]:
    """The keys of some rows of a list, an array or a column."""
    if isinstance(keys, (list, tuple)):
        return [keys[row] for row in rows.tolist()]
    if isinstance(keys, np.ndarray):
        taken: list[Key] = keys[rows].tolist()
        return taken
    return [keys[row].as_py() for row in rows.tolist()]  # Arrow's take has no views, and may overflow its offsets
