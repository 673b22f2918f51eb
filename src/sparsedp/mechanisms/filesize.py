"""How many bytes the files of a release will have, from its plan alone (docs/format.md).

Arrays of a fixed shape are exact. Tables are as long as the plan expects. Headers are what the plan
states, which is encoded for that, and about what the container adds to it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .stating import encode

if TYPE_CHECKING:
    from .base import ArrayShape, Plan

LINE = 64  # arrays and headers are padded to it
NAME_NBYTES = 16  # of a kept key, about: the plan does not know them
DIGEST_NBYTES = 32

# Of a header, about: what surrounds the plan in it, and what a part states instead; for each array
# its checksum and its place, besides its name in both, and the place of padding after it.
_RELEASE, _PART, _ARRAY, _PADDING = 430, 220, 134, 66


class Expected(NamedTuple):
    """An array: its bytes, and those of an element if its length is only expected, so that it may end
    anywhere in a line.
    """

    nbytes: int
    element: int | None

    @property
    def padding(self) -> float:
        """The bytes after it, or their mean."""
        return -self.nbytes % LINE if self.element is None else (LINE - self.element) / 2

    @property
    def is_padded(self) -> float:
        """The probability that there are any."""
        return float(self.padding > 0) if self.element is None else 1 - self.element / LINE


def expected_nbytes(plan: Plan) -> int | None:
    """Expected bytes of all files; None when they depend on an unknown size."""
    if plan.expected_stored is None:
        return None
    parts, sides = plan.problem.parts, plan.releases
    shared = _arrays(plan.shared_shapes, 0)
    stated = json.dumps(encode(plan, "plan", {}), separators=(",", ":"))
    header = _RELEASE + len(json.dumps(stated))  # it is text inside of the container's JSON
    # A table of a few keys may be empty, and then needs no padding.
    stored = plan.expected_stored / parts
    empty = math.exp(-stored)
    own = [_arrays(plan.array_shapes, keys) for keys in (0, math.ceil(stored / (1 - empty)) if stored else 0)]
    if parts == 1:
        rest, files = 0.0, [_file(header, arrays | shared, sides) for arrays in own]
    else:
        files = [_file(_PART, arrays, sides) for arrays in own]
        rest = _file(header + _ARRAY, shared, sides) + parts * DIGEST_NBYTES
    return round(rest + parts * (empty * files[0] + (1 - empty) * files[1]))


def _arrays(shapes: Mapping[str, ArrayShape], stored: int) -> dict[str, Expected]:
    """The bytes of each array, if so many keys are stored."""
    noisy = {"keys.offsets": stored + 1, "keys.bytes": NAME_NBYTES * stored}
    found = {}
    for name, (dtype, shape) in shapes.items():
        size = np.dtype(dtype).itemsize
        nbytes = size * math.prod(noisy.get(name, stored) if own is None else own for own in shape)
        found[name] = Expected(nbytes, size if stored and None in shape else None)
    return found


def _file(header: float, arrays: Mapping[str, Expected], sides: int) -> float:
    header += sides * sum(_ARRAY + 2 * len(name) + _PADDING * own.is_padded for name, own in arrays.items())
    return math.ceil(header / LINE) * LINE + sides * sum(own.nbytes + own.padding for own in arrays.values())
