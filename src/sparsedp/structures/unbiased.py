"""Patterns of noisy symbols → values whose expectation is the count, for sums.

A posterior mean is pulled towards its prior, and the pulls of many keys add up. Here every pattern
p gets a value f(p) such that, over the noise, a key of count c is answered with c on average,

    P[stored | c] E[c + η | stored] + P[not stored | c] Σ_p P[p | c] f(p) = c      for every c,

and of all such f one with little variance. If there are more counts than symbols, this cannot hold
for all of them, but nearly does. The bias that is left, up to some hundredths of a noise scale,
adds up over keys too, so every pattern also has a value that bounds it on average. Such an answer
is a poor one for a single key, and may be negative. Everything here reads only what is published,
so it costs no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..privacy.bounds import geometric_variance
from .decoding import Decoder, Floats

_RIDGE = 3e-4  # less would reduce the bias by thousandths of a noise scale at the price of much variance
_LITTLE_BIAS = 0.002  # noise scales
_ZERO_WEIGHT = 0.35  # the bias of zero is then about half that of small counts: most keys of a sum are near zero


@dataclass(frozen=True)
class Summands:
    """What each pattern adds to a sum, to its variance and to the bound on its bias."""

    values: Floats
    variances: Floats  # right on average, but not for each pattern: some are negative
    biases: Floats  # on average the largest bias of any count up to that of the key
    least_variance: float  # of any count
    largest_bias: float  # of any count


def summands(decoder: Decoder, rate: float, threshold: int) -> Summands:
    """The summands of keys that are not stored, if noise of this rate decides whether they are."""
    first, second = stored_moments(decoder.grid, rate, threshold)
    seen = decoder.unstored[:, None] * decoder.likelihood
    solve = _Inverse.of(seen, _spread(decoder.grid))
    values = solve(decoder.grid - first)
    mean = seen @ values + first
    variance = np.maximum(seen @ values**2 + second - mean**2, 0.0)
    noise = geometric_variance(rate)
    variances = solve(variance - (1 - decoder.unstored) * noise)
    bias = np.maximum.accumulate(np.abs(mean - decoder.grid))
    biases = solve(bias * decoder.unstored)
    # Like all that patterns tell, they vary slowly with the count. Where many keys are far below the
    # noise, a bias that counts of one to four have is larger than what they say on average.
    small = decoder.grid * rate <= 1
    missing = float((bias * decoder.unstored - seen @ biases)[small].max())
    biases += max(0.0, missing - _LITTLE_BIAS / rate)
    return Summands(values, variances, biases, float(min(variance.min(), noise)), float(bias[-1]))


def stored_moments(counts: npt.NDArray[np.int64], rate: float, threshold: int) -> tuple[Floats, Floats]:
    """E[v; v >= threshold] and E[v²; v >= threshold] of v = count + noise; a zero is never stored.

    Beyond any t >= 1, on either side, the noise is t plus a geometric variable, with probability
    a^t/(1 + a).
    """
    a = np.exp(-rate)
    mean, square = a / (1 - a), a * (1 + a) / (1 - a) ** 2
    above = counts < threshold
    away = np.where(above, threshold - counts, counts - threshold + 1)
    edge, sign = np.where(above, threshold, threshold - 1), np.where(above, 1, -1)
    tail = np.exp(-rate * away) / (1 + a)
    first = tail * (edge + sign * mean)
    second = tail * (edge**2.0 + 2 * edge * sign * mean + square)
    first = np.where(above, first, counts - first)
    second = np.where(above, second, counts**2.0 + geometric_variance(rate) - second)
    zero = counts == 0
    return np.where(zero, 0.0, first), np.where(zero, 0.0, second)


def _spread(grid: npt.NDArray[np.int64]) -> Floats:
    """More weight on small counts, which are the most common, so that the remaining bias is about
    equal everywhere.
    """
    weights = np.ones(len(grid)) / (1 + grid)
    weights *= (1 - _ZERO_WEIGHT) / max(weights[1:].sum(), 1e-300)
    weights[0] = _ZERO_WEIGHT
    return weights


@dataclass(frozen=True)
class _Inverse:
    """The f with seen @ f = target of least second moment: f = M⁻¹ Sᵀ (S M⁻¹ Sᵀ)⁻¹ target, M the
    patterns' law.
    """

    scaled: Floats
    gram: Floats
    roots: Floats
    law_roots: Floats

    @classmethod
    def of(cls, seen: Floats, weights: Floats) -> _Inverse:
        roots, law_roots = np.sqrt(weights), np.sqrt(np.maximum(weights @ seen, 1e-300))
        scaled = roots[:, None] * seen / law_roots
        gram = scaled @ scaled.T
        gram[np.diag_indices_from(gram)] += _RIDGE
        return cls(scaled, gram, roots, law_roots)

    def __call__(self, target: Floats) -> Floats:
        values: Floats = (self.scaled.T @ np.linalg.solve(self.gram, self.roots * target)) / self.law_roots
        return values
