"""The losses of many equal releases as masses on a grid: an upper bound, computed in closed form.

A *measure of losses* ν bounds a release if E[(1 - e^(t - l))₊] over ν, and what is at infinity, is at
least the δ of the release at every real t. Bounds of releases are composed by adding losses up
(docs/privacy.md, "Accounting over releases"). Masses may exceed what they bound, and may be moved to
larger losses, so every rounding here goes up: masses by `GUARD`, losses to the grid.

- n pure releases of ε are n randomised responses: binomial masses at (n - 2j)·ε.
- n Gaussian releases are n times as many draws: `SumLosses` has masses for all whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._util.lazy import cached_property
from ..privacy.composition import GUARD, SumLosses
from ..privacy.events import GaussianEvent

Floats = npt.NDArray[np.float64]

NUDGE = 1e-12  # of a loss: more than its float can be too small
MOST_MASS = 1e-2  # above 1: laws whose bound has more are too coarse for it
_MOST_TERMS = 1 << 18
_NEGLIGIBLE = 700.0  # e^-700 of the largest mass is left out, and counted at infinity


class Spread(NamedTuple):
    """How far losses reach: the mean, the variance, and the largest; at least, about."""

    mean: float
    variance: float
    largest: float


NONE = Spread(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Pure:
    """`times` pure releases of ε."""

    epsilon: float
    times: int

    @property
    def spread(self) -> Spread:
        mean = self.times * self.epsilon * math.tanh(self.epsilon / 2)
        return Spread(mean, self.times * self.epsilon**2, self.times * self.epsilon)

    def losses(self) -> tuple[Floats, Floats, float]:
        """Losses, the smallest first, masses, and the mass at infinity."""
        n = self.times
        epsilon = self.epsilon * (1 + NUDGE)  # a float may be below the decimal that it stands for
        # Each mass from the one before it, both ways from the largest:
        # P[j + 1]/P[j] = e^-ε·(n - j)/(j + 1).
        mode = min(n, int((n + 1) / (1 + math.exp(min(epsilon, _NEGLIGIBLE)))))
        up, down = np.arange(mode, n, dtype=np.float64), np.arange(mode, 0, -1, dtype=np.float64)
        above = np.cumprod(np.exp(-epsilon) * (n - up) / (up + 1)) if n > mode else up
        below = np.cumprod(np.exp(epsilon) * down / (n - down + 1)) if mode else down
        masses = np.concatenate([below[::-1], [1.0], above])
        # n steps, of four roundings each, and as many in their sum
        masses *= (1 + 16 * (n + 4) * 2.0**-53) / masses.sum()
        return (2 * np.arange(n + 1.0) - n) * epsilon, masses[::-1], (n + 1) * math.exp(-_NEGLIGIBLE)


@dataclass(frozen=True)
class Gaussian:
    """`times` releases with the same Gaussian noise; what else they lose is in the plain δ's."""

    event: GaussianEvent
    times: int

    @cached_property
    def sums(self) -> SumLosses:
        """The draws of all releases together."""
        return SumLosses.of([replace(move, draws=move.draws * self.times) for move in self.event.moves])

    @property
    def is_fine(self) -> bool:
        """Whether the bound has hardly more mass than there is."""
        return self.sums.log_constant + math.log(2 * math.pi * self.sums.variance) / 2 < MOST_MASS

    @property
    def plain(self) -> float:
        """The δ that adds up whatever else is released, rounded up."""
        return GUARD * (self.sums.rounding + self.times * self.event.delta)

    @property
    def spread(self) -> Spread:
        sums = self.sums
        return Spread(float(sums.centre), float(2 * sums.centre), math.inf)

    def losses(self) -> tuple[Floats, Floats, float]:
        """Losses, the smallest first, masses, and the mass at infinity."""
        sums = self.sums
        variance, slope, constant = float(sums.variance), float(sums.slope), math.exp(sums.log_constant)
        end = math.ceil(math.sqrt(2 * _NEGLIGIBLE * variance))
        each = -(-(2 * end + 1) // _MOST_TERMS)  # of so many masses the largest, at the largest loss
        low = np.arange(-end, end + 1, each, dtype=np.float64)
        high = low + (each - 1)
        nearest = np.where(low > 0, low, np.where(high < 0, high, 0.0))
        masses = each * constant * np.exp(-(nearest**2) / (2 * variance)) * GUARD
        beside = self.times * self.event.loss + float(sums.centre)
        missing = 4 * constant * (1 + math.sqrt(variance)) * math.exp(-_NEGLIGIBLE)
        return high * slope + beside, masses, missing


def on_grid(losses: Floats, masses: Floats, step: float, tail: float) -> tuple[int, Floats, float]:
    """Masses of increasing losses at multiples of a step, from the first multiple on; and what was
    cut off at the top.

    A loss between two multiples becomes a mass at both, such that neither E[1] nor E[e^-l] changes:
    no divergence is smaller then (Doroshenko et al. 2022, "Connect the Dots"). Of both tails, at most
    `tail` each is moved: up to the first multiple, and to infinity.
    """
    first, masses, above = cut_tails(masses, tail)
    losses = losses[first : first + len(masses)] + NUDGE * max(abs(losses[0]), abs(losses[-1]))
    below = np.floor(losses / step)  # exact: the step is a power of two
    upper = np.expm1(below * step - losses) / math.expm1(-step)
    upper = np.minimum(1.0, upper * (1 + NUDGE) + NUDGE)
    at = below.astype(np.int64)
    lower = int(at[0])
    size = int(at[-1]) - lower + 2
    placed: Floats = np.zeros(size)
    placed += np.bincount(at - lower, masses * (1 - upper), size)
    placed += np.bincount(at - lower + 1, masses * upper, size)
    return lower, placed * (1 + 1e-11), above * (1 + 1e-11)


def cut_tails(masses: Floats, tail: float) -> tuple[int, Floats, float]:
    """Masses without both tails, of at most `tail` each: where they begin, with the lower tail moved
    up to the first of them; and the upper tail, which is for infinity.
    """
    first = int(masses.cumsum().searchsorted(tail, "right"))
    last = len(masses) - int(masses[::-1].cumsum().searchsorted(tail, "right"))
    first = min(first, len(masses) - 1)
    last = max(last, first + 1)
    kept = masses[first:last].copy()
    kept[0] += masses[:first].sum()
    return first, kept, float(masses[last:].sum())
