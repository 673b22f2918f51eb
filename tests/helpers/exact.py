"""Exact arithmetic on finite distributions: outcome → probability, all rational."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from itertools import product
from typing import TypeVar

import numpy as np

from sparsedp.privacy.laws import precise
from sparsedp.privacy.randomness import Randomness, Words

Outcome = TypeVar("Outcome", bound=Hashable)


def exp_up(loss: Decimal, steps: int = 1) -> Fraction:
    """A rational number just above e^(steps · loss)."""
    with precise(ROUND_CEILING):
        return Fraction((steps * loss).exp() * (1 + Decimal("1e-45")))


def worst_ratio(p: Mapping[Outcome, Fraction], q: Mapping[Outcome, Fraction]) -> Fraction:
    """The largest p/q or q/p over all outcomes; an outcome that only one can have is an error."""
    outcomes = {outcome for outcome in (*p, *q) if p.get(outcome) or q.get(outcome)}
    most, least = 0, 1  # whole numbers, as fractions would spend their time on common divisors
    for o in outcomes:
        up, down = p[o].numerator * q[o].denominator, q[o].numerator * p[o].denominator
        if max(up, down) * least > most * min(up, down):
            most, least = max(up, down), min(up, down)
    return Fraction(most, least)


def hockey_stick(p: Mapping[Outcome, Fraction], q: Mapping[Outcome, Fraction], factor: Fraction) -> Fraction:
    """The smallest δ with p(S) <= factor · q(S) + δ for every set of outcomes S."""
    total = zero = Fraction(0)
    for outcome, mass in p.items():
        other = q.get(outcome, zero)
        # Whole numbers are compared first: fractions would spend their time on common divisors.
        above = mass.numerator * other.denominator * factor.denominator
        if above > other.numerator * mass.denominator * factor.numerator:
            total += mass - factor * other
    return total


def independent(*laws: Mapping[Outcome, Fraction]) -> dict[tuple[Outcome, ...], Fraction]:
    """The joint law of independent variables."""
    joint = {}
    for outcomes in product(*laws):
        mass = Fraction(1)
        for law, outcome in zip(laws, outcomes, strict=True):
            mass *= law[outcome]
        joint[outcomes] = mass
    return joint


class OutOfWordsError(Exception):
    """A sampler asked for more words than were prepared."""


class PreparedWords(Randomness):
    """A stream of given words, for feeding a sampler every possible string."""

    def __init__(self, words: Iterable[int]) -> None:
        self._left = list(words)

    def words(self, count: int) -> Words:
        if count > len(self._left):
            raise OutOfWordsError
        taken, self._left = self._left[:count], self._left[count:]
        return np.array(taken, np.uint64)


def law_of_sampler(
    draw: Callable[[Randomness], Outcome], word_bits: int, length: int
) -> tuple[dict[Outcome, Fraction], Fraction]:
    """The law of draw(randomness) over every string of `length` words, and the mass of strings that
    are too short.
    """
    law: dict[Outcome, Fraction] = {}
    short = Fraction(0)
    each = Fraction(1, 1 << (word_bits * length))
    for words in product(range(1 << word_bits), repeat=length):
        try:
            outcome = draw(PreparedWords(words))
        except OutOfWordsError:
            short += each
        else:
            law[outcome] = law.get(outcome, Fraction(0)) + each
    return law, short
