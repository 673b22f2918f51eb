"""The original stored keys beside their fingerprints: the two arrays that name the keys of a table.

`keys.bytes` has the canonical bytes of the keys (see `encoding`) one after the other, in the order
of the table; `keys.offsets` has the start of each. For why stored keys may be published, see
docs/privacy.md, "Kept keys".
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import compress, pairwise

import numpy as np

from ..errors import FormatError
from ..privacy.randomness import Words
from .encoding import original, original_row
from .hashing import KeySpace
from .kinds import Key, KeyColumn

OFFSETS, BYTES = "keys.offsets", "keys.bytes"


def keep(arrays: dict[str, np.ndarray], ids: Words, names: Iterable[bytes]) -> dict[str, np.ndarray]:
    """The arrays of a release whose table holds these keys, plus the keys, whose canonical bytes are
    read one after the other. Ids shared by several keys are left out.
    """
    same = np.zeros(len(ids) + 1, np.bool_)
    np.equal(ids[1:], ids[:-1], out=same[1:-1])
    alone = ~(same[1:] | same[:-1])
    content, ends = bytearray(), array("q", [0])  # not a list: objects would take far more than their bytes
    for name in compress(names, alone):
        content += name
        ends.append(len(content))
    table = {name: one[alone] for name, one in arrays.items() if name.startswith("table.")}
    kept: dict[str, np.ndarray] = {
        OFFSETS: np.frombuffer(ends, np.int64),
        BYTES: np.frombuffer(content, np.uint8),
    }
    return table | kept | _without(arrays, table)


def _without(arrays: dict[str, np.ndarray], names: Container[str]) -> dict[str, np.ndarray]:
    return {name: one for name, one in arrays.items() if name not in names}


def kept_keys(arrays: Mapping[str, np.ndarray], columns: Sequence[KeyColumn] = ()) -> list[Key]:
    """The keys of a table, in its order; `FormatError` if the arrays are damaged."""
    offsets, content = arrays[OFFSETS], arrays[BYTES]
    if len(offsets) != len(arrays["table.ids"]) + 1 or offsets[0] != 0 or offsets[-1] != len(content):
        raise FormatError("the kept keys are damaged: there must be one for each stored id")
    if (offsets[1:] <= offsets[:-1]).any():
        raise FormatError("the kept keys are damaged: their offsets must ascend")
    data = content.tobytes()
    each = (data[begin:end] for begin, end in pairwise(offsets.tolist()))
    return [original_row(name, columns) if columns else original(name) for name in each]


def wrong_keys(tables: Sequence[Mapping[str, np.ndarray]], space: KeySpace) -> Iterator[str]:
    """What is wrong with the kept keys of all tables of a release, if anything."""
    kept = [kept_keys(arrays, space.columns) for arrays in tables]
    together = [key for keys in kept for key in keys]
    if not space.columns and len(set(map(type, together))) > 1:
        yield "kept keys must be of one type"
        return
    if len(set(together)) < len(together):
        yield "a key must be kept once"
    if any(not np.array_equal(space.ids(keys), arrays["table.ids"]) for keys, arrays in zip(kept, tables, strict=True)):
        yield "kept keys must be those of table.ids"
