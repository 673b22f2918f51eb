"""What there is to compare with when a person has many keys: dense noise, which answers for every
key of a domain that is listed, and sparse histograms, which publish the noisy counts above a
threshold.

Both with two-sided geometric noise and with continuous Gaussian noise, computed from the law of the
noise and not measured.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..privacy.composition import gaussian_delta, most_revealed
from .judging import Figures, Floats, Integers, Questions


def dense_error(counts: Integers, scale: float) -> Floats:
    """E|max(c + η, 0) − c| for each count c, with two-sided geometric noise, P[η = j] ∝ a^|j| and a
    = exp(−1/scale).

    Noise on every count of the domain, clamped at 0, which is what a sparse release with this noise
    cannot beat. Above c the error is η, below it is min(−η, c): a/(1 − a²) and a (1 − a^c)/(1 −
    a²), because P[η ≤ −j] = a^j/(1 + a).
    """
    a = math.exp(-1 / scale)
    error: Floats = a * (2 - np.power(a, counts.astype(np.float64))) / (1 - a * a)
    return error


def dense_errors(asked: Questions, scale: float) -> Figures:
    """The error of dense noise in each group, exactly."""
    return _in_groups(asked, lambda counts: dense_error(counts, scale))


def _in_groups(asked: Questions, error: Callable[[Integers], Floats]) -> Figures:
    distinct, places = np.unique(asked.truth, return_inverse=True)
    each = error(distinct)[places]
    return {name: float(each[own].mean()) for name, own in asked.groups.items()}


def dense_gaussian_error(counts: Integers, spread: float) -> Floats:
    """The same with continuous Gaussian noise of this standard deviation."""
    c = counts / spread
    tail = np.array([math.erfc(one / math.sqrt(2)) / 2 for one in c.tolist()])
    error: Floats = spread * ((2 - np.exp(-(c**2) / 2)) / math.sqrt(2 * math.pi) + c * tail)
    return error


def dense_gaussian_errors(asked: Questions, keys: int, epsilon: float, delta: float) -> Figures:
    """The error in each group, exactly, with the least noise for ε and δ (Balle and Wang 2018)."""
    spread = _least_spread(keys, epsilon, delta)
    return _in_groups(asked, lambda counts: dense_gaussian_error(counts, spread))


def _least_spread(keys: int, epsilon: float, delta: float) -> float:
    return math.sqrt(keys) / most_revealed(epsilon, delta)


@dataclass(frozen=True)
class Dense:
    """Noise on every key for users with at most so many keys, of the kind that errs less: what no
    answers to all keys can beat.
    """

    keys: int
    epsilon: float
    delta: float

    @property
    def spread(self) -> float | None:
        """The standard deviation of Gaussian noise, if it errs less."""
        if self.delta == 0:
            return None
        spread = _least_spread(self.keys, self.epsilon, self.delta)
        return spread if spread * math.sqrt(2 / math.pi) < self.keys / self.epsilon else None

    @property
    def name(self) -> str:
        """What the noise is."""
        return f"dense {'geometric' if self.spread is None else 'Gaussian'} noise, clamped at 0"

    def errors(self, asked: Questions) -> Figures:
        """The error in each group, exactly."""
        if self.spread is None:
            return dense_errors(asked, self.keys / self.epsilon)
        return dense_gaussian_errors(asked, self.keys, self.epsilon, self.delta)

    def names(self, counts: Integers) -> float:
        """How many keys the sparse histogram with Gaussian noise names, in expectation."""
        return SparseGaussian.best(self.keys, self.epsilon, self.delta, counts).names(counts)


class Sparse(ABC):
    """Noisy counts from a threshold on, and 0 for all other keys; keys that do not occur are never
    published.
    """

    def names(self, counts: Integers) -> float:
        """How many of these keys are published, in expectation."""
        distinct, numbers = np.unique(counts, return_counts=True)
        return float(numbers @ self.published(distinct))

    def errors(self, asked: Questions) -> Figures:
        """The error in each group, exactly."""
        return _in_groups(asked, self.error)

    def error(self, counts: Integers) -> Floats:
        """E|answer − c| for each count c: the noise where it is published, and c where it is not."""
        missed = counts * (1 - self.published(counts))
        error: Floats = np.where(counts > 0, self.noise(counts) + missed, 0.0)
        return error

    @abstractmethod
    def published(self, counts: Integers) -> Floats:
        """The chance that each of these counts is published."""

    @abstractmethod
    def noise(self, counts: Integers) -> Floats:
        """E[|η|; c + η ≥ threshold] for each count c."""


@dataclass(frozen=True)
class SparseGeometric(Sparse):
    """With the geometric noise of dense answers (Korolova et al. 2009).

    Each of the m keys of a user that nobody else has is published with the chance P[1 + η ≥
    threshold], and all of them together with δ at most.
    """

    scale: float
    threshold: int

    @classmethod
    def least(cls, keys: int, epsilon: float, delta: float) -> SparseGeometric:
        """With the least threshold for δ."""
        scale = keys / epsilon
        each = -math.expm1(math.log1p(-delta) / keys)
        missing = math.ceil(-scale * math.log(each * (1 + math.exp(-1 / scale))))
        return cls(scale, 1 + max(1, missing))

    def published(self, counts: Integers) -> Floats:
        missing, a = self._missing(counts)
        tail: Floats = np.where(missing > 0, a**missing, 1 + a - a ** (1 - missing)) / (1 + a)
        return tail

    def noise(self, counts: Integers) -> Floats:
        missing, a = self._missing(counts)

        def from_on(j: Floats) -> Floats:  # E[η; η ≥ j] for j ≥ 0
            beyond: Floats = a**j * (j + a / (1 - a)) / (1 + a)
            return beyond

        everything = 2 * a / (1 - a * a)
        noise: Floats = np.where(
            missing > 0, from_on(np.maximum(missing, 0)), everything - from_on(np.maximum(1 - missing, 0))
        )
        return noise

    def _missing(self, counts: Integers) -> tuple[Floats, float]:
        return np.asarray(self.threshold - counts, np.float64), math.exp(-1 / self.scale)


@dataclass(frozen=True)
class SparseGaussian(Sparse):
    """With continuous Gaussian noise (Wilkins et al. 2024)."""

    spread: float
    threshold: float

    @classmethod
    def best(cls, keys: int, epsilon: float, delta: float, counts: Integers) -> SparseGaussian:
        """With the noise and the threshold that name most of these counts."""
        least = _least_spread(keys, epsilon, delta)
        found = []
        for spread in (least * factor for factor in np.linspace(1.0, 1.06, 13).tolist()):
            low, high = 1.0, 1 + 12 * spread
            if _naming_delta(keys, epsilon, spread, high) > delta:
                continue
            for _ in range(60):
                middle = (low + high) / 2
                fits = _naming_delta(keys, epsilon, spread, middle) <= delta
                low, high = (low, middle) if fits else (middle, high)
            found.append(cls(spread, high))
        return max(found, key=lambda one: one.names(counts))

    def published(self, counts: Integers) -> Floats:
        missing = (self.threshold - counts) / self.spread
        return np.array([math.erfc(one / math.sqrt(2)) / 2 for one in missing.tolist()])

    def noise(self, counts: Integers) -> Floats:
        missing = (self.threshold - counts) / self.spread
        beyond = self.spread * np.exp(-(missing**2) / 2) / math.sqrt(2 * math.pi)
        everything = 2 * self.spread / math.sqrt(2 * math.pi)
        noise: Floats = np.where(missing > 0, beyond, everything - beyond)
        return noise


def _naming_delta(keys: int, epsilon: float, spread: float, threshold: float) -> float:
    """The worst δ over all numbers of shared keys."""
    hidden = math.log1p(-math.erfc((threshold - 1) / spread / math.sqrt(2)) / 2)
    worst = 0.0
    for shared in sorted({*range(0, keys + 1, max(1, keys // 50)), keys}):
        log_a, revealed = (keys - shared) * hidden, math.sqrt(shared) / spread
        added = -math.expm1(log_a) + math.exp(log_a) * gaussian_delta(epsilon - log_a, revealed)
        worst = max(worst, added, gaussian_delta(epsilon + log_a, revealed))
    return worst
