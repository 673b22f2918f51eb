"""The paper's experiment: one key, with collisions at every level (β = 5000, x uniform in [0, β], ε
= 1).

Flips and estimator are those of the mechanism `alp`; rounding is the paper's for real x. All other
keys are assumed to be as large as β, so a collision sets the bit: the worst case.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from .. import _native
from ..privacy.randomness import Randomness, ReproducibleRandomness, Words, flip
from ..structures.embedding import dyadic_flip_probability

BETA = 5000.0
_WORDS_AT_ONCE = 1 << 19
_COLLISION_DIGITS = 16

Floats = npt.NDArray[np.float64]


def simulate_errors(alpha: float, collision: float, runs: int, seed: int) -> Floats:
    """Estimate - x for `runs` keys: rounding, collisions with probability `collision` at every
    level, flips.
    """
    randomness = ReproducibleRandomness(seed)
    batch = max(1, _WORDS_AT_ONCE * 64 // math.ceil(BETA / alpha))
    return np.concatenate(
        [_simulate(alpha, collision, min(batch, runs - start), randomness) for start in range(0, runs, batch)]
    )


def _simulate(alpha: float, collision: float, runs: int, randomness: Randomness) -> Floats:
    levels = math.ceil(BETA / alpha)
    x, up = _uniform(randomness, runs) * BETA, _uniform(randomness, runs)
    bits = unary_words(np.floor(x / alpha + up).astype(np.int64), levels)
    if collision:
        collisions = np.zeros_like(bits)
        chance = round(collision * (1 << _COLLISION_DIGITS))
        flip(randomness, collisions.reshape(-1), chance, _COLLISION_DIGITS)
        bits |= collisions
    p = dyadic_flip_probability(alpha)
    flip(randomness, bits.reshape(-1), p.numerator, p.denominator.bit_length() - 1)
    return _native.estimate_rows(bits, levels) * alpha - x


def unary_words(heights: npt.NDArray[np.int64], levels: int) -> Words:
    """A row of words for each height: its lowest `height` bits are ones."""
    starts = 64 * np.arange(-(-levels // 64))
    inside = np.clip(np.minimum(heights, levels)[:, None] - starts, 0, 64).astype(np.uint64)
    full = np.uint64((1 << 64) - 1)
    return np.where(inside == 64, full, (np.uint64(1) << (inside % 64)) - np.uint64(1))


def _uniform(randomness: Randomness, count: int) -> Floats:
    return (randomness.words(count) >> np.uint64(11)).astype(np.float64) / (1 << 53)
