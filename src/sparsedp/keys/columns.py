"""A caller's column from any library, as a list, a plain NumPy array or an Arrow column.

Only this place handles the containers of other libraries; keys and values are both read through it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .arrow import as_chunked_array, has_mixed_categories, pandas_to_numpy, refuse_missing
from .containers import has, is_a, is_numpy_inside, is_pandas, is_table, is_time, speaks_arrow, unmasked


def as_column(thing: Any, what: str) -> Any:
    """The column as a list or tuple, a plain NumPy array, or a pyarrow ChunkedArray.

    Anything that is not a column (one key, a table, a number) is returned as it is, for the caller
    to refuse. `what` is "key" or "value": in a pandas column, keys may be strings, and values are
    numbers.
    """
    if isinstance(thing, (str, bytes, list, tuple)) or is_arrow(thing) or is_table(thing):
        return thing
    if what == "key" and is_time(thing):
        thing = as_chunked_array(thing)
    elif is_numpy_inside(thing):
        thing = np.asarray(thing.to_numpy())
    elif is_pandas(thing):
        refuse_missing(thing, what)
        # Strings, bytes, categories; numbers are NumPy arrays except for their nulls.
        strings = what == "key" and thing.dtype.kind in "OU" and not has_mixed_categories(thing)
        thing = as_chunked_array(thing) if strings else pandas_to_numpy(thing)
    elif speaks_arrow(thing):
        thing = as_chunked_array(thing)
    elif what == "key" and has(thing, "to_numpy"):  # it may round values to give them one type
        thing = np.asarray(thing.to_numpy())
    elif isinstance(thing, Iterable) and not isinstance(thing, np.ndarray):
        return list(thing)
    return unmasked(thing, what) if isinstance(thing, np.ndarray) else thing


def is_arrow(column: object) -> bool:
    """Whether this is an Arrow column."""
    return is_a(column, "pyarrow", "ChunkedArray")
