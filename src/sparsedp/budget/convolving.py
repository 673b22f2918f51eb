"""Measures of losses on one grid, and their products: convolutions by fast transforms, whose rounding
errors are bounded and charged.

Proof: docs/privacy.md, "Accounting over releases". Exact test: tests/budget/test_accounting.py, which
compares with `dp-accounting` too. (Importing that takes seconds, and a decision milliseconds.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.fft import irfft, rfft

from ..privacy.composition import GUARD
from .losses import NUDGE, Floats, Gaussian, Pure, cut_tails, on_grid

# A transform of N numbers has at most this many roundings for each halving of N, per output.
_ROUNDINGS, _UNIT = 10, 2.0**-53
_LENGTHS = sorted(short << bits for short in (4, 5, 6) for bits in range(40))  # which are quick
_CLOSE = 1e-12  # of an ε that is searched for


@dataclass(frozen=True)
class Composed:
    """Masses at multiples of a step, from `lower` on, and at infinity; the true masses differ by at
    most `error` in all.
    """

    step: float
    lower: int
    masses: Floats
    infinite: float
    error: float
    mass: float  # of all, at least 1
    norm: float  # the root of the sum of their squares

    @classmethod
    def made(cls, step: float, lower: int, masses: Floats, infinite: float, error: float = 0.0) -> Composed:
        """With the sums of these masses, rounded up."""
        mass, norm = float(masses.sum()), math.sqrt(float(masses @ masses))
        return cls(step, lower, masses, infinite, error, max(1.0, GUARD * mass), GUARD * norm)

    @classmethod
    def of(cls, group: Pure | Gaussian, step: float, tail: float) -> Composed:
        """The measure of a group."""
        losses, masses, missing = group.losses()
        lower, placed, above = on_grid(losses, masses, step, tail)
        return cls.made(step, lower, placed, GUARD * (above + missing))

    @classmethod
    def product(cls, parts: Sequence[Composed], tail: float) -> Composed:
        """All together. The error is that of the transforms (Higham 2002, Theorem 24.2); masses below
        0 are among the errors, and 0 is nearer to the truth.
        """
        size = sum(len(part.masses) - 1 for part in parts) + 1
        length = next(length for length in _LENGTHS if length >= size)
        spectrum = rfft(parts[0].masses, length)
        for part in parts[1:]:
            spectrum *= rfft(part.masses, length)
        masses = np.maximum(irfft(spectrum, length)[:size], 0.0)
        most = [part.mass + part.infinite + part.error for part in parts]
        others = [GUARD * math.prod(most) / own for own in most]  # of each part
        norms = [part.norm * mass for part, mass in zip(parts, others, strict=True)]
        made = math.sqrt(length) * _ROUNDINGS * _UNIT * (math.log2(length) + 1) * (sum(norms) + min(norms))
        error = sum(part.error * mass for part, mass in zip(parts, others, strict=True)) + made
        first, masses, above = cut_tails(masses, tail)
        infinite = sum(part.infinite * mass for part, mass in zip(parts, others, strict=True)) + above
        lower = sum(part.lower for part in parts) + first
        return cls.made(parts[0].step, lower, masses, GUARD * infinite, GUARD * error)

    def delta_at(self, epsilon: float) -> float:
        """The δ at this ε, rounded up: E[(1 - e^(ε - l))₊], and what is at infinity."""
        below = epsilon * (1 - NUDGE)  # a float may be above the decimal that it stands for
        end = self.lower + len(self.masses)
        first = max(0, math.floor(min(below / self.step, end)) + 1 - self.lower)
        losses = np.arange(self.lower + first, end) * self.step
        inside = float((-np.expm1(below - losses) * self.masses[first:]).sum())
        return GUARD * (inside + self.infinite + self.error)

    def epsilon_at(self, delta: float) -> float:
        """An ε whose δ is at most this; infinite if there is none."""
        low, high = 0.0, 1.001 * max(0.0, (self.lower + len(self.masses)) * self.step)
        if self.delta_at(high) > delta:
            return math.inf
        if self.delta_at(low) <= delta:
            return low
        while high - low > _CLOSE * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta_at(middle) > delta else (low, middle)
        return high
