"""The paper's bounds on the error, both ways: probability from error and error from probability.

Lemma names are those of the paper. Errors are in units of 1/ε for the ALP1 bounds (the paper's ε =
1); callers scale. A bound that says nothing is infinite (or probability 1), never negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class AlpBounds:
    """Bounds of ALP1-estimator for parameter α and collision probability at most k/s."""

    alpha: float
    collision: float

    @property
    def gamma(self) -> float:
        """γ = (α + 2)/(1 + α k/s) - 2: a bit with collisions behaves as if α were γ."""
        return (self.alpha + 2) / (1 + self.alpha * self.collision) - 2

    @property
    def expected_error(self) -> float:
        """(½ + (4α + 4)/α² + (4γ + 4)/γ²) α, Lemmas ALP1errorroughbound and ALP1yibound."""
        if self.gamma <= 0:
            return math.inf
        walks = sum((4 * x + 4) / x**2 for x in (self.alpha, self.gamma))
        return (0.5 + walks) * self.alpha

    @property
    def _walk(self) -> tuple[float, float]:
        """4 p q and q - p of the random walk with p = 1/(γ + 2)."""
        p = 1 / (self.gamma + 2)
        return 4 * p * (1 - p), 1 - 2 * p

    def tail_probability(self, error: float) -> float:
        """P[|x - estimate| >= error], Lemma ALP1tailbounds; needs error >= α."""
        if self.gamma <= 0 or error < self.alpha:
            return 1.0
        base, drift = self._walk
        exponent = error / (2 * self.alpha) - 0.5
        return min(1.0, 2 * math.pow(base, exponent) / (math.sqrt(math.pi) * drift))

    def error_with_probability(self, failure: float) -> float:
        """An error that is exceeded with probability at most `failure` (ψ), Lemma ALP1tailbounds."""
        if self.gamma <= 0:
            return math.inf
        base, drift = self._walk
        inside = 2 / (failure * math.sqrt(math.pi) * drift)
        if inside <= 1:  # ψ at least 2/(√π (q - p)): the bound is vacuous
            return math.inf
        return (1 + 2 * math.log(inside) / math.log(1 / base)) * self.alpha


def geometric_mean_error(rate: float) -> float:
    """E|η| of two-sided geometric noise with decay rate λ: 2a/(1 - a²) = 1/sinh(λ)."""
    return 1 / math.sinh(rate) if rate < 700 else 0.0


def geometric_variance(rate: float) -> float:
    """Var η of two-sided geometric noise: 2a/(1 - a)² = 1/(cosh λ - 1)."""
    return 1 / (math.cosh(rate) - 1) if rate < 700 else 0.0


def geometric_tail_probability(rate: float, error: float) -> float:
    """P[|η| >= error] of two-sided geometric noise, for any real error."""
    whole = math.ceil(error)
    return 1.0 if whole <= 0 else 2 * math.exp(-rate * whole) / (1 + math.exp(-rate))


def geometric_error_with_probability(rate: float, failure: float) -> float:
    """The smallest whole error e with P[|η| > e] <= failure (Proposition laptail, for the geometric
    law).
    """
    tail = math.log(2 / (failure * (1 + math.exp(-rate)))) / rate
    return max(0.0, math.ceil(tail) - 1.0)


def expected_maximum(rate: float, draws: float) -> float:
    """A bound on the expected largest |η| of `draws` noises: (1 + ln draws)/λ."""
    return (1 + math.log(max(1.0, draws))) / rate


def failure_of(error_with: Callable[[float], float], error: float) -> float:
    """The failure probability at which a bound on the error, which falls with it, is this error."""
    low, high = -200.0, -1e-9  # its logarithm
    if error_with(math.exp(high)) > error:
        return 1.0
    if error_with(math.exp(low)) <= error:
        return math.exp(low)
    for _ in range(100):
        middle = (low + high) / 2
        if error_with(math.exp(middle)) <= error:
            high = middle
        else:
            low = middle
    return math.exp(high)
