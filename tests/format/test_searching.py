"""The search in a sorted column that is elsewhere finds what is there, in few rounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsedp.errors import FormatError
from sparsedp.format import searching
from sparsedp.format.searching import Positions, Words

WORDS = st.integers(0, (1 << 64) - 1)


class Column:
    """A column that shows only what was read."""

    def __init__(self, ids: Words) -> None:
        self.ids = ids
        self.rounds = self.elements = 0

    def read(self, begins: Positions, ends: Positions) -> Words:
        assert (begins < ends).all()
        assert (begins >= 0).all()
        assert (ends <= len(self.ids)).all()
        self.rounds += 1
        self.elements += int((ends - begins).sum())
        shown = np.full(len(self.ids), 0xDEADBEEF, np.uint64)
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            shown[begin:end] = self.ids[begin:end]
        return shown


def agrees(stored: Words, asked: Words) -> Column:
    column = Column(stored)
    found = searching.find(asked, len(stored), column.read)
    at = np.searchsorted(stored, asked)
    wanted = np.where(np.append(stored, 0)[at] == asked, at, -1) if len(stored) else np.full(len(asked), -1)
    wanted = np.where(at == len(stored), -1, wanted)
    assert np.array_equal(found, wanted)
    return column


@given(st.sets(WORDS | st.integers(0, 50), max_size=80), st.sets(WORDS | st.integers(0, 50), max_size=40))
def test_every_id_is_found_and_no_other(stored: set[int], asked: set[int]) -> None:
    ids = np.array(sorted(stored), np.uint64)
    agrees(ids, np.array(sorted(asked | set(sorted(stored)[::3])), np.uint64))


@pytest.mark.parametrize("asked", [1, 100, 3000])
def test_uniform_ids_take_few_rounds(asked: int) -> None:
    random = np.random.default_rng(asked)
    stored = np.unique(random.integers(0, 1 << 64, 200_000, dtype=np.uint64))
    some = np.concatenate([random.choice(stored, asked // 2), random.integers(0, 1 << 64, asked, dtype=np.uint64)])
    column = agrees(stored, np.unique(some))
    assert column.rounds <= 8
    assert column.elements <= 200 + 600 * asked


@pytest.mark.parametrize("shape", ["quadratic", "two ends", "one far away"])
def test_ids_that_lie_anyhow_take_as_many_rounds_as_bisection_twice(shape: str) -> None:
    places = np.arange(50_000, dtype=np.uint64)
    stored = {
        "quadratic": places * places * np.uint64(1 << 30),
        "two ends": np.concatenate([places, places + np.uint64((1 << 64) - 100_000)]),
        "one far away": np.append(places * 3, np.uint64((1 << 64) - 1)).astype(np.uint64),
    }[shape]
    some = np.unique(np.concatenate([stored[::701], stored[::501] + np.uint64(1)]))
    assert agrees(stored, some).rounds <= 2 * 17 + searching._GUESSING + 2


def test_a_column_that_does_not_ascend_is_refused() -> None:
    stored = np.sort(np.random.default_rng(1).integers(0, 1 << 64, 1000, dtype=np.uint64))
    asked = np.unique(np.random.default_rng(2).integers(0, 1 << 64, 50, dtype=np.uint64))
    for wrong in (stored[::-1].copy(), np.full(1000, 7, np.uint64), np.roll(stored, 1)):
        with pytest.raises(FormatError, match="the ids of a table must ascend"):
            searching.find(asked, len(wrong), Column(wrong).read)
