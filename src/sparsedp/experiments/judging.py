"""How good answers are: questions about present and absent keys, errors and coverage over groups of
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..privacy.contributions import BoundedCounts

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Figures = dict[str, float]  # group of keys → figure

FREQUENT = 500
_SAMPLED = 2000  # of each group, where an answer takes long
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


def ask(counts: BoundedCounts, absent: int, seed: int = 0) -> Questions:
    """All present keys, and random strings that no identifier equals, because they begin with a
    digit.

    Sorted, because counting has no order, and which keys are frequent or summed together should
    repeat.
    """
    names, sizes = zip(*sorted(zip(counts.keys.to_pylist(), counts.units.tolist(), strict=True)), strict=True)
    drawn = np.random.default_rng(seed).integers(0, 2**63, absent).tolist()
    return questions(pa.array([*names, *(f"0x{one:x}" for one in drawn)], pa.string()), np.array(sizes), absent)


def sampled(asked: Questions, seed: int) -> list[int]:
    """Positions in every group, for those who answer slowly."""
    random = np.random.default_rng(seed)
    places = [random.permutation(group)[:_SAMPLED] for group in asked.groups.values()]
    return [int(place) for place in np.unique(np.concatenate(places))]


def dealt(counts: Integers, keys: int) -> tuple[Integers, Integers]:
    """Rows (user, position of the key) with these counts: no user has a key twice, or more than
    `keys` keys.

    They are dealt out in turn, like cards. So a library that bounds contributions itself drops none
    of them, and starts from the same bounded counts as the others.
    """
    places = np.repeat(np.arange(len(counts)), counts)
    users = max(int(counts.max()), -(-len(places) // keys))
    return np.arange(len(places)) % users, places


def published(asked: Questions, values: Mapping[int, float]) -> Floats:
    """What is published, and 0 for every other key."""
    estimates = np.zeros(len(asked.truth))
    estimates[list(values.keys())] = list(values.values())
    return estimates


def errors(asked: Questions, estimates: Floats) -> Figures:
    """The mean absolute error in each group. Where an estimate is NaN, that key was not asked for."""
    sizes = np.abs(estimates - asked.truth)
    return {name: float(np.nanmean(sizes[places])) for name, places in asked.groups.items()}


def coverage(asked: Questions, low: Floats, high: Floats) -> Figures:
    """The share of intervals that hold their true count, in each group."""
    slack = 1e-9 * asked.truth  # bounds are floats
    covered = (low <= asked.truth + slack) & (asked.truth <= high + slack)
    return {name: float(covered[places].mean()) for name, places in asked.groups.items()}


def means(figures: Sequence[Figures]) -> Figures:
    """The mean of each figure over several releases."""
    return {name: float(np.mean([one[name] for one in figures])) for name in figures[0]}


def stated_to_seen(deviations: Floats) -> float:
    """Stated standard errors as a multiple of the spread that was seen; deviations are errors by
    stated standard error.

    Above 1 what is stated is too large, below 1 too small.
    """
    return float(1 / math.sqrt(np.mean(np.square(deviations))))
