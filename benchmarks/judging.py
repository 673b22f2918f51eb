"""How good answers are: errors and coverage over groups of keys, next to the error of dense noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsedp.privacy.composition import gaussian_delta, most_revealed

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Figures = dict[str, float]  # group of keys → figure

FREQUENT = 500
RANGES = {"1–9": (1, 9), "10–99": (10, 99), "100+": (100, math.inf)}


@dataclass(frozen=True)
class Questions:
    """Keys to look up, present ones and then absent ones, their true counts, and groups of their
    positions.
    """

    keys: Any  # a column of text
    truth: Integers
    groups: Mapping[str, Integers]

    @property
    def present(self) -> Integers:
        """The counts of the present keys, which come first."""
        return self.truth[self.groups["all"]]


def questions(keys: Any, counts: Integers, absent: int) -> Questions:
    """Ask for `keys`, the last `absent` of which are not in the data; the counts are those of the
    others.
    """
    truth = np.concatenate([counts, np.zeros(absent, np.int64)])
    groups = {
        "all": np.arange(len(counts)),
        "absent": np.arange(len(counts), len(truth)),
        "frequent": np.argsort(-counts, kind="stable")[:FREQUENT],
    }
    for name, (low, high) in RANGES.items():
        inside = np.flatnonzero((counts >= low) & (counts <= high))
        if len(inside):
            groups[name] = inside
    return Questions(keys, truth, groups)


def errors(asked: Questions, estimates: Floats) -> Figures:
    """The mean absolute error in each group. Where an estimate is NaN, that key was not asked for."""
    sizes = np.abs(estimates - asked.truth)
    return {name: float(np.nanmean(sizes[places])) for name, places in asked.groups.items()}


def coverage(asked: Questions, low: Floats, high: Floats) -> Figures:
    """The share of intervals that hold their true count, in each group."""
    slack = 1e-9 * asked.truth  # bounds are floats
    covered = (low <= asked.truth + slack) & (asked.truth <= high + slack)
    return {name: float(covered[places].mean()) for name, places in asked.groups.items()}


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
        """The standard deviation of Gaussian noise (Balle and Wang), if it errs less."""
        if self.delta == 0:
            return None
        spread = math.sqrt(self.keys) / most_revealed(self.epsilon, self.delta)
        return spread if spread * math.sqrt(2 / math.pi) < self.keys / self.epsilon else None

    @property
    def name(self) -> str:
        """What the noise is."""
        return f"dense {'geometric' if self.spread is None else 'Gaussian'} noise, clamped at 0"

    def errors(self, asked: Questions) -> Figures:
        """The error in each group, exactly."""
        spread = self.spread
        if spread is None:
            return dense_errors(asked, self.keys / self.epsilon)
        return _in_groups(asked, lambda counts: dense_gaussian_error(counts, spread))

    def names(self, counts: Integers) -> float:
        """How many keys a sparse histogram with continuous Gaussian noise names (Wilkins et al. 2024),
        with the best noise and threshold, in expectation.
        """
        least = math.sqrt(self.keys) / most_revealed(self.epsilon, self.delta)
        found = []
        for spread in (least * factor for factor in np.linspace(1.0, 1.06, 13).tolist()):
            low, high = 1.0, 1 + 12 * spread
            if self._naming_delta(spread, high) > self.delta:
                continue
            for _ in range(60):
                middle = (low + high) / 2
                fits = self._naming_delta(spread, middle) <= self.delta
                low, high = (low, middle) if fits else (middle, high)
            distinct, numbers = np.unique(counts, return_counts=True)
            tails = [math.erfc((high - c) / spread / math.sqrt(2)) / 2 for c in distinct.tolist()]
            found.append(float(numbers @ np.array(tails)))
        return max(found)

    def _naming_delta(self, spread: float, threshold: float) -> float:
        """The worst δ over all numbers of shared keys."""
        hidden = math.log1p(-math.erfc((threshold - 1) / spread / math.sqrt(2)) / 2)
        worst = 0.0
        for shared in sorted({*range(0, self.keys + 1, max(1, self.keys // 50)), self.keys}):
            log_a, revealed = (self.keys - shared) * hidden, math.sqrt(shared) / spread
            added = -math.expm1(log_a) + math.exp(log_a) * gaussian_delta(self.epsilon - log_a, revealed)
            worst = max(worst, added, gaussian_delta(self.epsilon + log_a, revealed))
        return worst


def means(figures: Sequence[Figures]) -> Figures:
    """The mean of each figure over several releases."""
    return {name: float(np.mean([one[name] for one in figures])) for name in figures[0]}


def stated_to_seen(deviations: Floats) -> float:
    """Stated standard errors as a multiple of the spread that was seen; deviations are errors by
    stated standard error.

    Above 1 what is stated is too large, below 1 too small.
    """
    return float(1 / math.sqrt(np.mean(np.square(deviations))))
