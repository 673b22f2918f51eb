"""How many keys have which count, read off what a release publishes, and what that says about a
single key.

The density of keys over the logarithm of their count is a chain of straight lines between knots at
1, 2, 4, …, in logarithms too: a power law where the chain is straight. It is fitted by maximum
likelihood to everything published:

- the table: how many stored values lie above T, with the chance that each count has of getting
  there,
- the symbols of all cells, if there are any, which are mixtures over the largest height among the
  keys of a cell,
- the number of keys, as far as it is known,

with a penalty on bends. Symbols and tables say nothing about counts far below the noise; there the
penalty continues the line, as heavy tails do. Everything here reads only what is published, so it
costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .ladder import Level

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# What a median may lose over all keys to serve the frequent ones: a share of its lead over the best
# rival.
GIVEN_SHARE = 0.6
TILTS = tuple(i / 4 for i in range(13))

# Keys of count 1 for each one in a smooth law. If users are cut to a few keys, counts are thinned,
# and keys of many different rare counts end up at 1.
SINGLETONS = 2.0
BEND = 0.15  # standard deviation of a bend, the change of the slope from one factor of two to the next
USUAL_SLOPE, SLOPE_SPREAD = -0.7, 1.0  # of keys for each factor of two, if nothing else is known: Zipf's law
SHARP = 2.0  # standard deviations beyond which a bend costs its size, not its square
_STEPS = 60
_CONVERGED = 1e-6
_DECIMALS = 4  # of the fitted logarithms: answers must not hinge on the last bits of a machine's arithmetic
_MOST_LOG = 60.0


def count_grid(fine: float, top: int, largest: int) -> Integers:
    """Counts from 0: all small ones, then a sixteenth apart, up to `top` no further apart than
    `fine`.
    """
    grid = [0]
    while grid[-1] < max(top, 1):
        grid.append(min(grid[-1] + max(1, int(min(grid[-1] / 16, fine))), max(top, 1)))
    while grid[-1] < largest:
        grid.append(grid[-1] + max(1, grid[-1] // 16))
    return np.array(grid, np.int64)


class Evidence(Protocol):
    """Published numbers, and their expectations for given keys."""

    @property
    def seen(self) -> Floats:
        """The numbers."""

    def expected(self, keys: Floats) -> tuple[Floats, Floats]:
        """The expectations for this many keys of each count, and their derivatives, a row for each
        number.
        """


@dataclass(frozen=True)
class Stored:
    """How many stored values lie in each of some intervals."""

    seen: Floats
    reach: Floats  # P[stored with a value in the interval | count], a row for each interval
    others: Floats  # expected number of values in the interval from keys that do not occur

    @classmethod
    def count(cls, values: Integers, edges: Floats, reach: Floats, zeros: Floats) -> Stored:
        """From values, edges, P[stored with at least an edge | count], and the number of absent
        keys stored so.
        """
        seen = np.histogram(values, np.append(edges, np.inf))[0]
        return cls(seen.astype(np.float64), _between(reach), _between(zeros))

    def expected(self, keys: Floats) -> tuple[Floats, Floats]:
        return self.reach @ keys + self.others, self.reach


@dataclass(frozen=True)
class Cells:
    """How many cells of a level show each symbol."""

    seen: Floats
    cells: int
    changes: Floats  # how much P[symbol] falls between the heights of two neighbouring counts
    highest: Floats  # P[symbol | largest height]
    unstored: Floats  # P[not stored | count]

    @classmethod
    def count(
        cls, level: Level, cells: int, symbols: npt.NDArray[np.uint64], grid: Integers, unstored: Floats
    ) -> Cells:
        """From the frequencies of symbols; `unstored` is P[not stored | count] on the grid."""
        laws = level.law[np.clip(np.append(0, grid) - level.start, 0, level.height)]
        return cls(symbols.astype(np.float64), cells, laws[:-1] - laws[1:], laws[-1], unstored)

    def expected(self, keys: Floats) -> tuple[Floats, Floats]:
        """Keys fall into cells at random, so P[no key of a cell is higher] = exp(-higher keys /
        cells).
        """
        higher = np.cumsum((keys * self.unstored)[::-1])[::-1]
        at_most = np.exp(-higher / self.cells)
        falls = -at_most[:, None] * self.changes
        slopes = np.cumsum(falls, axis=0) * self.unstored[:, None]
        return self.cells * (self.highest + at_most @ self.changes), slopes.T


@dataclass(frozen=True)
class Size:
    """The number of keys, known up to a factor; a key may count for less than one."""

    keys: float
    spread: float  # standard deviation of its logarithm
    shares: Floats  # what a key of each count adds

    @property
    def seen(self) -> Floats:
        return np.array([self.spread**-2])

    def expected(self, keys: Floats) -> tuple[Floats, Floats]:
        """The expectation as that of a Poisson number so large that it has the stated spread."""
        each = self.shares * self.spread**-2 / self.keys
        return np.array([keys @ each]), each[None, :]


def fit_keys(counts: Integers, size: Size, evidence: Sequence[Evidence]) -> Floats:
    """The number of keys of each of these counts, which ascend from 1."""
    points = counts.astype(np.float64)
    logs = np.log2(points)
    knots = np.arange(max(2, math.ceil(logs[-1]) + 1), dtype=np.float64)
    hats = np.maximum(1 - np.abs(logs[:, None] - knots), 0.0)
    borders = np.sqrt(points[1:] * points[:-1])
    last = points[-1] ** 2 / borders[-1] if len(borders) else 2.0
    widths = np.diff(np.log2(np.concatenate([[2**-0.5], borders, [last]])))
    widths[0] *= SINGLETONS

    bends, slopes = np.diff(np.eye(len(knots)), 2, axis=0) / BEND, np.diff(np.eye(len(knots)), axis=0) / SLOPE_SPREAD
    slopes /= math.sqrt(len(slopes))  # together they count as one
    wanted = np.full(len(slopes), USUAL_SLOPE / SLOPE_SPREAD / math.sqrt(len(slopes)))

    def evaluate(density: Floats) -> tuple[float, Floats, Floats]:
        """The penalised log-likelihood of Poisson numbers, its gradient and its expected curvature."""
        keys = np.exp(np.clip(hats @ density, -_MOST_LOG, _MOST_LOG)) * widths
        bent, own = bends @ density, slopes @ density - wanted
        weights = 1 / np.sqrt(1 + (bent / SHARP) ** 2)
        value = -float((SHARP**2 * (1 / weights - 1)).sum() + 0.5 * own @ own)
        gradient = -bends.T @ (weights * bent) - slopes.T @ own
        curvature = bends.T @ (weights[:, None] * bends) + slopes.T @ slopes
        for source in (size, *evidence):
            expected, derivatives = source.expected(keys)
            expected = np.maximum(expected, 1e-9)
            inner = derivatives @ (keys[:, None] * hats)
            value += float((source.seen * np.log(expected) - expected).sum())
            gradient = gradient + inner.T @ (source.seen / expected - 1)
            curvature = curvature + inner.T @ (inner / expected[:, None])
        return value, gradient, curvature

    # Fisher scoring, with steps that are halved until they lose nothing.
    density = USUAL_SLOPE * knots
    density += math.log(size.keys / float(size.shares @ (np.exp(hats @ density) * widths)))
    value, gradient, curvature = evaluate(density)
    for _ in range(_STEPS):
        step = np.linalg.solve(curvature + 1e-9 * np.eye(len(knots)), gradient)
        step *= min(1.0, 3.0 / float(np.abs(step).max() + 1e-300))
        for _ in range(30):
            ahead = evaluate(density + step)
            if ahead[0] >= value - 1e-9 * abs(value):
                break
            step /= 2
        density, (value, gradient, curvature) = density + step, ahead
        if np.abs(step).max() < _CONVERGED:
            break
    fitted: Floats = np.exp(np.clip(hats @ np.round(density, _DECIMALS), -_MOST_LOG, _MOST_LOG)) * widths
    return fitted


def quantiles(grid: Integers, joint: Floats, weights: Floats, level: float) -> Floats:
    """The count at which the weights reach this share, for every outcome; joint is P[outcome |
    count], a row each.
    """
    cumulative = np.cumsum(joint * weights[:, None], axis=0)
    at = np.minimum((cumulative < level * cumulative[-1]).sum(axis=0), len(grid) - 1)
    found: Floats = grid[at].astype(np.float64)
    return found


def tilted(grid: Integers, joint: Floats, law: Floats, rate: float) -> Floats:
    """The weights whose medians err least on frequent keys, and over all keys less than any rival.

    The posterior median has the least error over all keys, and achieves it by answering almost
    nothing for all but the surest of the frequent ones: at four noise scales one key among many
    thousands may as well be a fluke. With the weight (1 + count/scale)^t errors on frequent keys
    count for more: t = 1 is a mean over keys and over rows. This takes the largest t that gives up
    no more than a share of the lead over dense noise and over a table alone.
    """
    unstored = joint.sum(axis=1)
    ratio = math.exp(-rate)
    dense = (2 * ratio - ratio ** (grid + 1.0)) / (1 - ratio**2)  # E|max(count + η, 0) - count|
    rival = min(float(law @ (unstored * grid)), float(law @ (unstored * dense)))
    best, limit = law, math.inf
    for tilt in TILTS:
        weights = law * (1 + rate * grid) ** tilt
        answers = quantiles(grid, joint, weights, 0.5)
        error = float(law @ (joint * np.abs(answers - grid[:, None])).sum(axis=1))
        if tilt == 0:
            limit = error + GIVEN_SHARE * max(rival - error, 0.0)
        elif error > limit:
            break
        best = weights
    return best


def _between(tails: Floats) -> Floats:
    """The amounts between neighbouring edges and beyond the last, from the amounts above each edge."""
    return np.concatenate([tails[:-1] - tails[1:], tails[-1:]])
