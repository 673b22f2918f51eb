"""Patterns of noisy symbols → values whose expectation is the count, for sums.

A posterior mean is pulled towards its prior, and the pulls of many keys add up. Here every pattern
p gets a value f(p) such that, over the noise, a key of count c is answered with c on average,

    P[stored | c] E[c + η | stored] + P[not stored | c] Σ_p P[p | c] f(p) = c      for every c,

and of all such f one with little variance. If there are more counts than symbols, this cannot hold
for all of them: it does for zero, and nearly so for others. The bias that is left, up to some
hundredths of a noise scale, adds up over keys too, so every pattern also has a value that bounds it
on average. Where the published symbols allow several laws P, patterns cannot tell by how much a
count is missed, and there is a bound for every key. Such an answer is a poor one for a single key,
and may be negative. Everything here reads only what is published, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..privacy.bounds import geometric_variance
from .decoding import Decoder, Floats

# Less ridge leaves less bias and more variance. Where cells are roomy the least costs nothing; where
# they are crowded it would double the variance.
_RIDGES, _MOST_SPREAD = (1e-5, 3e-5, 1e-4, 3e-4), 1.1
_HIDDEN = 8  # noise scales: keys above this show, whatever else is in their cells
_ZERO_WEIGHT = 0.35  # the bias of zero is then about half that of small counts: most keys of a sum are near zero


@dataclass(frozen=True)
class Summands:
    """What each pattern adds to a sum, to its variance and to the bound on its bias."""

    values: Floats
    variances: Floats  # right on average, but not for each pattern: some are negative
    biases: Floats  # on average the largest bias of the counts from half that of the key to it
    hidden: float  # by how much this is too little for a key that others hide, at most
    least_variance: float  # of any count
    largest_bias: float  # of any count


def summands(
    decoder: Decoder, rate: float, threshold: int, others: Sequence[Floats] = (), keys: Floats | None = None
) -> Summands:
    """The summands of keys that are not stored, if noise of this rate decides whether they are;
    `others` are likelihoods that may be the true one, and `keys` how many keys have each count of the
    grid, if that is known.
    """
    first, second = stored_moments(decoder.grid, rate, threshold)
    seen = decoder.unstored[:, None] * decoder.likelihood
    solve = _least_ridge(seen, decoder.grid, decoder.grid - first)
    values = solve(decoder.grid - first)
    mean = seen @ values + first
    variance = np.maximum(seen @ values**2 + second - mean**2, 0.0)
    noise = geometric_variance(rate)
    variances = solve(variance - (1 - decoder.unstored) * noise)
    bias = np.abs(mean - decoder.grid)
    biases = solve(_up_to(decoder.grid, bias) * decoder.unstored)
    # Like all that patterns tell, biases vary slowly with the count. Where other keys hide many keys
    # far below the noise, a bias that counts of one to four have is larger than what patterns say on
    # average; and where a release is overfull, that of larger counts too.
    small, told = decoder.grid * rate <= _HIDDEN, seen @ biases
    hidden, largest = max(0.0, float((bias * decoder.unstored - told)[small].max())), float(bias.max())
    for other in others:  # what absent keys read is known, so that all loads agree there
        own = decoder.unstored * (other @ values) + first
        bias = np.abs(own - own[0] - decoder.grid)
        more = (bias * decoder.unstored - told)[small]
        # Most keys of a sum have the counts that most keys have.
        hidden = max(hidden, float(more.max() if keys is None else keys[small] @ more / keys[small].sum()))
        largest = max(largest, float(bias.max()))
    return Summands(values, variances, biases, hidden, float(min(variance.min(), noise)), largest)


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


def _up_to(grid: npt.NDArray[np.int64], bias: Floats) -> Floats:
    """The largest bias of the counts from half of each to it: keys of a sum have various counts."""
    begins = np.searchsorted(grid, grid / 2)
    largest: Floats = np.array([bias[begin : i + 1].max() for i, begin in enumerate(begins.tolist())])
    return largest


@dataclass(frozen=True)
class _Inverse:
    """The f with seen @ f = target of least second moment: f = M⁻¹ Sᵀ (S M⁻¹ Sᵀ)⁻¹ target, M the
    patterns' law. It is exact for zero, the count of most keys of large sums, and nearly so for
    others.
    """

    scaled: Floats
    gram: Floats
    roots: Floats
    law_roots: Floats
    ridge: float

    @classmethod
    def of(cls, seen: Floats, weights: Floats, ridge: float) -> _Inverse:
        roots, law_roots = np.sqrt(weights), np.sqrt(np.maximum(weights @ seen, 1e-300))
        scaled = roots[:, None] * seen / law_roots
        return cls(scaled, scaled @ scaled.T, roots, law_roots, ridge)

    def __call__(self, target: Floats) -> Floats:
        ridges = np.diag(np.append(0.0, np.full(len(self.gram) - 1, self.ridge)))
        solved = np.linalg.solve(self.gram + ridges, self.roots * target)
        values: Floats = (self.scaled.T @ solved) / self.law_roots
        return values


def _least_ridge(seen: Floats, grid: npt.NDArray[np.int64], target: Floats) -> _Inverse:
    """The least ridge with which absent keys still have about the standard error of the largest."""
    first = _Inverse.of(seen, _spread(grid), _RIDGES[0])
    *others, largest = (replace(first, ridge=ridge) for ridge in _RIDGES)
    limit = _MOST_SPREAD**2 * float(seen[0] @ largest(target) ** 2)
    return next((own for own in others if float(seen[0] @ own(target) ** 2) <= limit), largest)
