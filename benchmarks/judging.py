"""How good answers are: errors and coverage over groups of keys, next to the error of dense noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
    each = dense_error(asked.truth, scale)
    return {name: float(each[places].mean()) for name, places in asked.groups.items()}


def means(figures: Sequence[Figures]) -> Figures:
    """The mean of each figure over several releases."""
    return {name: float(np.mean([one[name] for one in figures])) for name in figures[0]}


def stated_to_seen(deviations: Floats) -> float:
    """Stated standard errors as a multiple of the spread that was seen; deviations are errors by
    stated standard error.

    Above 1 what is stated is too large, below 1 too small.
    """
    return float(1 / math.sqrt(np.mean(np.square(deviations))))
