"""Patterns of noisy symbols → estimates: likelihoods, priors, posterior medians, means and
intervals.

Everything here reads only what is published, so it costs no privacy. A key's symbols are
independent given its count and what other keys put into its cells, so the likelihood of a pattern
is taken for a product over levels (sums are more exact about the other keys: `sharing`) of

    P[symbol | count] = Σ_o load(o) · P[symbol | max(height of the count, o)],

where load is the law of the height that other keys leave in a cell. It is read off the published
symbols by deconvolution. If a key is not in the table, its noisy count was below the threshold,
which is information too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
import numpy.typing as npt

from .._util.lazy import cached_property
from ..errors import ParameterError
from .ladder import Ladder, Level

Floats = npt.NDArray[np.float64]
Loads = Sequence[Floats]

ESTIMATORS = ("median", "mean", "paper")
PRIORS = ("flat", "fitted")
_ROUNDS = 300


def poisson_load(cells: int, keys_above: Floats) -> Floats:
    """The law of the largest height in a cell, if keys_above[h] keys of this level are higher than
    h.
    """
    at_most = np.exp(-keys_above / cells)
    at_most[-1] = 1.0
    return np.diff(at_most, prepend=0.0)


def fit_load(level: Level, symbol_counts: npt.NDArray[np.uint64]) -> Floats:
    """A law of heights that explains the symbols of all cells, by rounds of expectation maximisation
    from a flat start.

    It has not converged if cells are roomy, and is the smoother for it. That does little to a single
    answer, and files that are there keep their answers; sums need a better one (`loads`).
    """
    seen = symbol_counts / symbol_counts.sum()
    law, load = level.law, np.full(level.height + 1, 1 / (level.height + 1))
    symbols, gain = np.empty(level.symbols), np.empty(level.height + 1)
    for _ in range(_ROUNDS):  # in place: arrays are small, and making new ones would take as long as the sums
        np.dot(load, law, out=symbols)
        np.divide(seen, symbols, out=symbols)
        np.dot(law, symbols, out=gain)
        load *= gain
    normalised: Floats = load / load.sum()
    return normalised


class FittedLoads(Sequence[Floats]):
    """The loads that the symbols of a release show, computed at first use: most lookups need none."""

    def __init__(self, levels: Sequence[Level], symbol_counts: Sequence[npt.NDArray[np.uint64]]) -> None:
        self._levels, self._counts = levels, symbol_counts

    @cached_property
    def _loads(self) -> tuple[Floats, ...]:
        return tuple(map(fit_load, self._levels, self._counts))

    def __len__(self) -> int:
        return len(self._levels)

    @overload
    def __getitem__(self, at: int) -> Floats: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Floats, ...]: ...
    def __getitem__(self, at: int | slice) -> Floats | tuple[Floats, ...]:
        return self._loads[at]


def keys_above(cells: int, load: Floats) -> Floats:
    """The inverse of `poisson_load`: how many keys are higher than each height, from the law of
    cells.
    """
    at_most = np.clip(np.cumsum(load), 1e-12, 1.0)
    return -np.log(at_most) * cells


@dataclass(frozen=True)
class Decoder:
    """Posterior of a count given its pattern, on a grid of counts."""

    ladder: Ladder
    loads: Loads
    grid: npt.NDArray[np.int64]
    unstored: Floats  # P[not stored | count], for each count of the grid
    fitted: Floats = field(default_factory=lambda: np.empty(0))  # weights of the counts of the grid, if fitted
    rate: float = math.inf  # of the noise: above the grid, "not stored" becomes rarer by e^(-rate) with each count
    largest: float = math.inf  # of all counts, if that is public

    @cached_property
    def likelihood(self) -> Floats:
        """P[pattern | count]: a row for each count of the grid, a column for each pattern, the
        first level lowest.
        """
        joint = np.ones((len(self.grid), 1))
        for level, load in zip(self.ladder.levels, self.loads, strict=True):
            heights = np.clip(self.grid - level.start, 0, level.height)
            at_most = np.cumsum(load)[heights, None]
            above = np.zeros((level.height + 2, level.symbols))  # [h]: for other keys' heights from h on
            np.cumsum((load[:, None] * level.law)[::-1], axis=0, out=above[-2::-1])
            own = at_most * level.law[heights] + above[heights + 1]
            joint = (own[:, :, None] * joint[:, None, :]).reshape(len(self.grid), -1)
        return joint

    def _posterior(self, prior: str) -> Floats:
        """P[count | pattern, not stored], cumulative: a row for each pattern."""
        if prior not in PRIORS:
            raise ParameterError(f"prior must be 'flat' or 'fitted', got {prior!r}")
        spacing = np.diff(self.grid, append=2 * self.grid[-1] - self.grid[-2] if len(self.grid) > 1 else 1)
        weight = self.unstored * (spacing if prior == "flat" else self.fitted)
        cumulative: Floats = np.cumsum(self.likelihood.T * weight, axis=1)
        cumulative /= cumulative[:, -1:]
        return cumulative

    def estimates(self, estimator: str, prior: str) -> Floats:
        """The estimate of every pattern."""
        if estimator == "paper":  # the average of all counts that maximise the likelihood
            weighted = self.likelihood.T * self.unstored
            best = weighted >= weighted.max(axis=1, keepdims=True) * (1 - 1e-9)
            average: Floats = (best * self.grid).sum(axis=1) / best.sum(axis=1)
            return average
        cumulative = self._posterior(prior)
        if estimator == "median":
            return self._quantile(cumulative, 0.5)
        if estimator == "mean":
            mean: Floats = np.diff(cumulative, prepend=0.0, axis=1) @ self.grid.astype(np.float64)
            return mean
        raise ParameterError(f"estimator must be one of {', '.join(ESTIMATORS)}, got {estimator!r}")

    def intervals(self, failure: float) -> tuple[Floats, Floats]:
        """Bounds of every pattern, each side missed with at most half of the failure probability.

        They contain the counts that the pattern does not reject, with patterns ordered by their
        posterior mean under the flat prior and below all values that are stored; this covers every
        count with the requested confidence, not only on average. The stored values of a count have
        their share of its failures, so its patterns have the rest: a law of patterns alone would
        miss counts near the threshold too often. Counts between those of the grid, or above it, are
        rejected by no pattern that the exact law would not reject: patterns rise with the count, and
        above the grid only "not stored" becomes rarer.
        """
        statistic = self.estimates("mean", "flat")
        order = np.argsort(statistic, kind="stable")
        _, first, size = np.unique(statistic[order], return_index=True, return_counts=True)
        law = np.add.reduceat(self.likelihood[:, order], first, axis=1) * self.unstored[:, None]
        at_most = np.cumsum(law, axis=1)
        accepted = (at_most > failure / 2) & (at_most - law < 1 - failure / 2)
        low = self.grid[np.argmax(accepted, axis=0)]
        high = self.grid[len(self.grid) - 1 - np.argmax(accepted[::-1], axis=0)].astype(np.float64)
        between = self.grid[-1] - self.grid[-2] - 1 if len(self.grid) > 1 else 0
        low, high = np.maximum(low - between, 0), high + between
        at_top = accepted[-1]
        high[at_top] += np.ceil(np.log(at_most[-1, at_top] * 2 / failure) / self.rate)
        high = np.minimum(high, self.largest)
        nothing = ~accepted.any(axis=0)  # a pattern too rare for every count: keep its posterior mean
        means = statistic[order][first]
        low, high = (np.where(nothing, means, bound) for bound in (low, high))
        spread_low, spread_high = np.empty(len(order)), np.empty(len(order))
        spread_low[order], spread_high[order] = np.repeat(low, size), np.repeat(high, size)
        return spread_low, spread_high

    def _quantile(self, cumulative: Floats, level: float) -> Floats:
        at = np.minimum((cumulative < level).sum(axis=1), len(self.grid) - 1)
        quantile: Floats = self.grid[at].astype(np.float64)
        return quantile
