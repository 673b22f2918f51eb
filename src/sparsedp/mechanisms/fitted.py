"""The prior fitted to a release: what tables and symbols show about the counts of keys.

It is a law for keys that occur, with an atom at zero for those that do not: see `ZERO_SHARE`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from .._util.lazy import cached_property
from ..privacy.cut_laws import CutLaw
from ..privacy.randomness import Words
from ..structures.buckets import NoiseBuckets
from ..structures.decoding import Decoder
from ..structures.fitting import (
    Cells,
    Evidence,
    Floats,
    Integers,
    Size,
    Stored,
    count_grid,
    fit_keys,
    quantiles,
    tilted,
)
from ..structures.ladder import Level
from ..structures.table import LARGEST_COUNT
from ..structures.thresholds import PureStage, StableStage, Stage
from .leftover import not_stored
from .problem import Problem

# The prior is about keys that occur. Some keys that are looked up do not, and a law without zeros
# would have no answer for them when all keys are large. A tenth costs keys that occur nothing; with
# a fifth, counts of 1 would be answered 0 if a third of the keys have them. Counts rounded at
# random to a grid are mostly zero, though their key occurs.
ZERO_SHARE, ROUNDED_ZERO_SHARE = 0.1, 0.75

# Standard deviations of the logarithm of a number of keys: a counted number, the size of a plan,
# any other bound.
KNOWN_SPREAD, STATED_SPREAD, BOUND_SPREAD = 0.3, 1.5, 3.0
# Without symbols only the table shows the tail. With fewer values than this it could be any tail,
# and a prior would mistake keys of several noise scales for flukes.
LEAST_STORED = 5
_FINE = 8  # counts of the grid per noise scale
_UNSTORED_SCALES = 6  # a key this many noise scales above the threshold is stored


@dataclass(frozen=True)
class CutStage:
    """Noise from a table of integers, and a threshold: how `retrieval` stores."""

    law: CutLaw
    threshold: int


def _rate(stage: Stage | CutStage) -> float:
    """One over the scale of the noise."""
    return 1 / stage.law.mean_size if isinstance(stage, CutStage) else float(stage.noise.rate)


def _not_stored(stage: Stage | CutStage, counts: Integers) -> Floats:
    if isinstance(stage, CutStage):
        return 1 - stage.law.chance_at_least(stage.threshold - counts)
    return not_stored(stage, counts)


class Symbols(NamedTuple):
    """How many cells of a level show each symbol."""

    level: Level
    cells: int
    seen: Words


@dataclass(frozen=True)
class Fit:
    """A prior for keys that are not stored, on a grid of counts."""

    grid: Integers
    law: Floats
    unstored: Floats  # P[not stored | count]


def zero_share(problem: Problem) -> float:
    """The share of zeros in the prior."""
    share = ROUNDED_ZERO_SHARE if problem.neighbours.real else ZERO_SHARE
    return (1 + share) / 2 if problem.signed else share  # half of the keys have the other sign


@dataclass(frozen=True)
class Keys:
    """How many keys have each count of a grid from 1 on, as far as a release shows it."""

    counts: Integers
    numbers: Floats
    unstored: Floats  # P[not stored | count]

    def above(self, heights: Integers) -> Floats:
        """How many keys that are not stored are above each height; heights ascend."""
        higher = np.append(np.cumsum((self.numbers * self.unstored)[::-1])[::-1], 0.0)
        number: Floats = higher[np.searchsorted(self.counts, heights, side="right")]
        return number

    def unstored_on(self, grid: Integers) -> Floats:
        """How many keys that are not stored have each count of a grid, or the ones before it."""
        at = np.minimum(np.searchsorted(grid, self.counts), len(grid) - 1)
        number: Floats = np.bincount(at, self.numbers * self.unstored, len(grid)).astype(np.float64)
        return number


def fit_numbers(
    problem: Problem,
    stage: Stage | CutStage,
    values: Integers,
    symbols: Sequence[Symbols] = (),
    keys: float | None = None,
) -> Keys:
    """The numbers of keys that follow from stored values, and from the symbols of all cells, if
    there are any.

    `keys` is the number of keys, if it is known better than from the size that the problem states.
    """
    counts = _grid(problem, stage, values)[1:]
    unstored = _not_stored(stage, counts)
    evidence: list[Evidence] = [_stored(stage, values, counts)]
    evidence += [Cells.count(*of_level, counts, unstored) for of_level in symbols]
    size = _size(problem, counts) if keys is None else Size(max(keys, 1.0), KNOWN_SPREAD, np.ones(len(counts)))
    return Keys(counts, fit_keys(counts, size, evidence), unstored)


def fit_prior(
    problem: Problem,
    stage: Stage | CutStage,
    values: Integers,
    symbols: Sequence[Symbols] = (),
    keys: float | None = None,
) -> Fit:
    """The prior with these numbers of keys, and with zeros."""
    fitted = fit_numbers(problem, stage, values, symbols, keys)
    grid, zeros = np.append(0, fitted.counts), zero_share(problem)
    unstored = _not_stored(stage, grid)
    law = np.concatenate([[zeros], (1 - zeros) * fitted.numbers / fitted.numbers.sum()])
    inside = grid <= max(1, _top(stage))
    return Fit(grid[inside], law[inside], unstored[inside])


def _grid(problem: Problem, stage: Stage | CutStage, values: Integers) -> Integers:
    """Counts from 0 to beyond the largest stored value, or to the largest possible count."""
    top = _top(stage)
    largest = 2 * max(top, _largest(values))
    if problem.upper_cells is not None:
        top, largest = min(top, problem.upper_cells), min(largest, problem.upper_cells)
    return count_grid(1 / (_FINE * _rate(stage)), top, largest)


def _size(problem: Problem, counts: Integers) -> Size:
    """What the size of a problem says: an estimated size is Σ min(count, cap)/cap, with noise and a
    margin.
    """
    entries, whole = float(problem.entries or 1), np.ones(len(counts))
    if problem.sizing_noise is None:
        stated = problem.nonzero is not None and not problem.sizing_loss
        return Size(entries, STATED_SPREAD if stated else BOUND_SPREAD, whole)
    if problem.sizing_keys is not None:  # the keys were counted
        return Size(entries, KNOWN_SPREAD + problem.sizing_spread / entries, whole)
    cap = math.ceil(1 / problem.neighbours.step_budget(problem.epsilon))
    noise = problem.sizing_spread / cap
    keys = max(entries - 4 * noise, noise)
    return Size(keys, KNOWN_SPREAD + noise / keys, np.minimum(counts / cap, 1.0))


def _largest(values: Integers) -> int:
    """The largest stored value; larger ones, which only a damaged file has, are cut."""
    return min(int(values.max(initial=0)), LARGEST_COUNT)


def _top(stage: Stage | CutStage) -> int:
    return stage.threshold + math.ceil(_UNSTORED_SCALES / _rate(stage))


def _stored(stage: Stage | CutStage, values: Integers, counts: Integers) -> Stored:
    """The table: intervals from T on, the first as wide as half the noise and each later one twice
    as wide.
    """
    rate, largest = _rate(stage), _largest(values)
    edges, width = [stage.threshold], math.ceil(0.5 / rate)
    while edges[-1] < largest:
        edges.append(edges[-1] + width)
        width *= 2
    zeros = np.zeros(len(edges))
    if isinstance(stage, PureStage):
        beyond = np.array(edges, np.float64) - stage.threshold
        zeros = float(stage.passing.chance[1] * stage.domain) * np.exp(-rate * beyond)
    reach = np.array([1 - _not_stored(replace(stage, threshold=edge), counts) for edge in edges])
    return Stored.count(values, np.array(edges, np.float64), reach, zeros)


@dataclass(frozen=True)
class Posterior:
    """What outcomes show about a count. Answers favour frequent keys (`tilted`)."""

    grid: Integers
    joint: Floats  # P[outcome, not stored | count], a row for each count
    law: Floats
    rate: float  # of the noise

    @cached_property
    def _tilted(self) -> Floats:
        return tilted(self.grid, self.joint, self.law, self.rate)

    @cached_property
    def medians(self) -> Floats:
        """The answer for each outcome."""
        return quantiles(self.grid, self.joint, self._tilted, 0.5)


@dataclass(frozen=True)
class FittedDecoder(Decoder):
    """Answers for patterns."""

    @cached_property
    def _posterior_of_keys(self) -> Posterior:
        return Posterior(self.grid, self.likelihood * self.unstored[:, None], self.fitted, self.rate)

    def estimates(self, estimator: str, prior: str) -> Floats:
        return self._posterior_of_keys.medians if estimator == "median" else super().estimates(estimator, prior)


def posterior_of_noisy(
    problem: Problem, buckets: NoiseBuckets | CutLaw, values: Integers, keys: float | None
) -> Posterior:
    """Answers for noisy values below a threshold T, from the stored values and the number of keys
    alone.

    Without a number of keys, the size that the problem states is used. Outcomes are the values 0..T
    - 1; 0 also stands for all lower values, which give the same information.
    """
    if isinstance(buckets, CutLaw):
        stage: Stage | CutStage = CutStage(buckets, buckets.threshold)
    else:  # stores a count from 1 on if it reaches T
        stage = StableStage(buckets.noise, buckets.threshold, 1, Fraction(1))
    fit = fit_prior(problem, stage, values, keys=keys)
    apart = np.arange(buckets.threshold) - fit.grid[:, None]
    if isinstance(buckets, CutLaw):
        joint = buckets.probability_of(apart)
        joint[:, 0] = 1 - buckets.chance_at_least(1 - fit.grid)
    else:
        rate = float(buckets.noise.rate)
        ratio = math.exp(-rate)
        joint = (1 - ratio) / (1 + ratio) * np.exp(-rate * np.abs(apart.astype(float)))
        joint[:, 0] /= 1 - ratio
    return Posterior(fit.grid, joint, fit.law, _rate(stage))
