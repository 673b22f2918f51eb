"""Sums of one key are exact and cut to ±2^61, whatever their order, and cut where neighbours stay
neighbours.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sparsedp
from sparsedp.mechanisms import DivisiblePlan
from sparsedp.privacy.neighbours import Neighbours
from sparsedp.privacy.randomness import Randomness, ReproducibleRandomness, Words
from sparsedp.releasing.cells import Sums
from sparsedp.releasing.inputs import Pairs
from sparsedp.structures.rounding import round_sums_to_grid
from sparsedp.structures.table import LARGEST_COUNT
from summing import to_cells

WORD = 1 << 64


class Prepared(Randomness):
    """A stream that repeats one word."""

    def __init__(self, word: int) -> None:
        self.word = word
        super().__init__()

    def words(self, count: int) -> Words:
        return np.full(count, self.word, np.uint64)


def rounded(terms: list[float], word: int, step: Fraction = Fraction(1)) -> int:
    """The cell of a sum of terms for this word."""
    cells = round_sums_to_grid(np.array(terms, np.float64), np.zeros(1, np.int64), step, Prepared(word))
    return int(cells[0])


def law(terms: list[float]) -> dict[int, Fraction]:
    """The law of the cell, every word of the coin being equally likely: it goes down where words
    grow.
    """
    up, down = rounded(terms, 0), rounded(terms, WORD - 1)
    if up == down:
        return {up: Fraction(1)}
    low, high = 0, WORD - 1  # the first word that gives `down`
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if rounded(terms, middle) == down else (middle + 1, high)
    return {up: Fraction(low, WORD), down: 1 - Fraction(low, WORD)}


OFFSETS = [-3.0, -1.5, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 3.0]


@pytest.mark.parametrize("end", [-LARGEST_COUNT, 0, LARGEST_COUNT])
@pytest.mark.parametrize("odds", [Fraction(9, 8), Fraction(3), Fraction(30)])
def test_neighbouring_sums_stay_neighbours_where_they_are_cut(end: int, odds: Fraction) -> None:
    # A mechanism whose outputs change by a factor of at most `odds` per cell, for all that the coin
    # may give: Lemma 2 bounds the loss of two sums by (odds - 1) · distance. Were they cut before
    # the coin, -2^61 - 1.5 would toss a coin between two cells, while -2^61 - 1 and -2^61 - 2 would
    # not.
    outputs = range(end - 5, end + 6)
    densities = []
    for offset in OFFSETS:
        cells = law([float(end), offset])
        assert sum(cells.values()) == 1
        assert all(abs(cell) <= LARGEST_COUNT for cell in cells)
        densities.append([sum(p * odds ** -abs(z - cell) for cell, p in cells.items()) for z in outputs])
    for here, left in zip(OFFSETS, densities, strict=True):
        for there, right in zip(OFFSETS, densities, strict=True):
            loss = max(abs(math.log(a / b)) for a, b in zip(left, right, strict=True))
            assert loss <= (odds - 1) * abs(Fraction(here) - Fraction(there)) + Fraction(1, 10**9)


def saturated(value: int) -> int:
    return max(-LARGEST_COUNT, min(LARGEST_COUNT, value))


# Multiples of 2^-30 that are doubles: their sums are exact, and so are their halves.
TERMS = st.builds(lambda m, e: m * 2.0**e, st.integers(-(1 << 53) + 1, (1 << 53) - 1), st.integers(-29, 9))


@settings(deadline=None)
@given(
    terms=st.lists(TERMS, min_size=1, max_size=30),
    word=st.integers(0, WORD - 1),
    step=st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(8)]),
    order=st.randoms(),
)
@example(terms=[2.0**62 - 512] * 30, word=0, step=Fraction(1), order=None)
@example(terms=[-(2.0**62) + 512] * 30, word=0, step=Fraction(1, 2), order=None)
@example(terms=[2.0**61, 2.0**61, -(2.0**61), 0.5], word=1, step=Fraction(1), order=None)  # cut at the end only
def test_sums_of_reals_are_those_of_exact_arithmetic(terms: list[float], word: int, step: Fraction, order: Any) -> None:
    position = sum(map(Fraction, terms)) / step
    floor = math.floor(position)
    expected = saturated(floor + (word < (position - floor) * WORD))
    assert rounded(terms, word, step) == expected
    if order is not None:
        order.shuffle(terms)
    halves = [half for term in terms for half in (term / 2, term / 2)]
    assert rounded(halves, word, step) == expected


@settings(deadline=None, max_examples=50)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(1 - (1 << 63), (1 << 63) - 1)), max_size=30),
    order=st.randoms(),
    unsigned=st.booleans(),
)
def test_sums_of_integers_do_not_depend_on_order_or_parts(
    pairs: list[tuple[int, int]], order: Any, unsigned: bool
) -> None:
    if unsigned:
        pairs = [(key, abs(value)) for key, value in pairs]
    exact: dict[int, int] = {}
    for key, value in pairs:
        exact[key] = exact.get(key, 0) + value
    expected = {key: saturated(total) for key, total in exact.items() if total}
    order.shuffle(pairs)
    ids = np.array([key for key, _ in pairs], np.uint64)
    values = np.array([value for _, value in pairs], np.uint64 if unsigned else np.int64).astype(np.int64)
    sorted_ids, cells = to_cells(ids, Pairs(None, values), Neighbours(), ReproducibleRandomness(0))
    found = dict(zip(sorted_ids.tolist(), cells.tolist(), strict=True))
    assert {key: cell for key, cell in found.items() if cell} == expected

    plan = sparsedp.plan(1.0, nonzero=10, domain=6, mechanism="tight-alp", parts=3, signed=True)
    assert isinstance(plan, DivisiblePlan)
    partition = plan.draw_partition(plan.problem, ReproducibleRandomness(1))
    by_parts: dict[int, int] = {}
    for part in range(3):
        own = partition.part_of(ids) == part
        sums = Sums.of(ids[own], values[own], Fraction(1))
        share = sums.cells(sums.counts(Neighbours(), ReproducibleRandomness(2)), None)
        by_parts.update(zip(share.ids.tolist(), share.counts.tolist(), strict=True))
    assert by_parts == expected


def test_a_long_run_of_large_values_saturates() -> None:
    run = np.full(100_000, 2.0**62)
    starts = np.zeros(1, np.int64)
    assert round_sums_to_grid(run, starts, Fraction(1), Prepared(0)).tolist() == [LARGEST_COUNT]
    assert round_sums_to_grid(-run, starts, Fraction(1), Prepared(0)).tolist() == [-LARGEST_COUNT]
    fractions = np.full(100_000, 1 - 2.0**-53)
    assert round_sums_to_grid(fractions, starts, Fraction(1), Prepared(WORD - 1)).tolist() == [99_999]
