"""Section 6 of the paper: the error of ALP1-estimator on worst-case collisions (β = 5000, x uniform in [0, β])."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from .. import _native

BETA = 5000.0
_BITS_AT_ONCE = 1 << 25


def simulate_errors(alpha: float, collision: float, runs: int, seed: int) -> npt.NDArray[np.float64]:
    """Estimate - x for `runs` keys: rounding, collisions with probability `collision` at every level, flips."""
    return np.concatenate(list(_batches(alpha, collision, runs, np.random.default_rng(seed))))


def _batches(
    alpha: float, collision: float, runs: int, random: np.random.Generator
) -> Iterator[npt.NDArray[np.float64]]:
    levels = math.ceil(BETA / alpha)
    flip = 1 / (alpha + 2)
    batch = max(1, _BITS_AT_ONCE // levels)
    for start in range(0, runs, batch):
        size = min(batch, runs - start)
        x = random.uniform(0, BETA, size)
        heights = np.floor(x / alpha + random.random(size))
        ones = np.arange(levels) < heights[:, None]
        # P[bit is 1]: below the height 1 - p; above it p, or 1 - p after a collision.
        chance = np.where(ones, 1 - flip, flip + collision * (1 - 2 * flip)).astype(np.float32)
        bits = random.random(ones.shape, np.float32) < chance
        yield _native.estimate_bits(bits.view(np.uint8)) * alpha - x
