"""Sparse systems, peeled and solved in one go."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sparsedp import _native
from sparsedp.privacy.randomness import Words


def solve(
    z: npt.NDArray[np.uint8],
    width: int,
    seed: tuple[int, int],
    slots: int,
    segment: int,
    ids: Words,
    values: Words,
) -> bool:
    """Whether the rows of the ids are independent; then `z` becomes a solution."""
    return _native.SparseSystem(*seed, slots, segment, ids).solve(z, width, values)
