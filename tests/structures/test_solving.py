"""The solver of the sparse system at a size where it peels in many rounds and in several threads."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from sparsedp import _native
from sparsedp.privacy.randomness import ReproducibleRandomness, Words
from sparsedp.structures.linear_system import SLOTS_PER_KEY
from systems import solve as solve_in_place

KEYS = 30_000
IDS = np.sort(ReproducibleRandomness(1).words(KEYS))
VALUES = ReproducibleRandomness(2).words(KEYS)


def solve(slots: int, width: int, segment: int, ids: Words, values: Words) -> tuple[bool, Words]:
    """Whether there is a solution, and its slots as words."""
    z = ReproducibleRandomness(3).words(slots * segment * width // 8 + 1).view(np.uint8)[: slots * segment * width]
    solved = solve_in_place(z, width, (5, 6), slots, segment, ids, values)
    words = np.zeros((slots * segment, 8), np.uint8)
    words[:, :width] = z.reshape(-1, width)
    return solved, words.view(np.uint64).ravel()


@pytest.mark.parametrize(("slots", "width"), [(3, 5), (4, 8), (5, 1), (6, 3), (7, 6), (8, 7), (3, 2), (4, 4)])
def test_every_equation_holds_in_any_number_of_threads(slots: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = int(SLOTS_PER_KEY[slots] * KEYS / slots) + 1
    rows = _native.slots_of(5, 6, slots, segment, IDS).reshape(-1, slots)
    mask = np.uint64((1 << 8 * width) - 1)
    solutions = []
    for threads in ("1", "2", "3", "7"):
        monkeypatch.setenv("SPARSEDP_THREADS", threads)
        solved, z = solve(slots, width, segment, IDS, VALUES)
        assert solved
        assert np.array_equal(np.bitwise_xor.reduce(z[rows], axis=1), VALUES & mask)
        solutions.append(z)
    assert all(np.array_equal(z, solutions[0]) for z in solutions)


@pytest.mark.parametrize("load", [0.85, 0.9])
def test_what_peeling_leaves_is_eliminated(load: float) -> None:
    # Beyond 0.818 keys per slot, three slots no longer peel; up to 0.917, rows are still
    # independent.
    keys = 3000
    segment = int(keys / load / 3)
    rows = _native.slots_of(5, 6, 3, segment, IDS[:keys]).reshape(-1, 3)
    solved, z = solve(3, 6, segment, IDS[:keys], VALUES[:keys])
    assert solved
    mask = np.uint64((1 << 48) - 1)
    assert np.array_equal(np.bitwise_xor.reduce(z[rows], axis=1), VALUES[:keys] & mask)


def core_of(rows: np.ndarray) -> set[int]:
    """The keys that peeling leaves."""
    left = set(range(len(rows)))
    while True:
        degree = Counter(int(slot) for key in left for slot in rows[key])
        alone = {key for key in left if any(degree[int(slot)] == 1 for slot in rows[key])}
        if not alone:
            return left
        left -= alone


def test_every_solution_of_a_system_with_a_core_is_equally_likely() -> None:
    # All uniform arrays of one-bit slots; catches an elimination that sets free slots to zero.
    random = np.random.default_rng(5)
    systems = 0
    while systems < 12:
        slots, segment = ((3, 3), (4, 2), (5, 2))[int(random.integers(3))]
        size = slots * segment
        keys = int(random.integers(4, size - slots + 2))
        ids = np.sort(random.choice(1 << 40, keys, replace=False)).astype(np.uint64)
        seed = (int(random.integers(1 << 62)), int(random.integers(1 << 62)))
        rows = _native.slots_of(*seed, slots, segment, ids).reshape(-1, slots)
        values = random.integers(0, 2, keys).astype(np.uint64)
        arguments: tuple[Any, ...] = (1, seed, slots, segment, ids, values)
        if not core_of(rows) or not solve_in_place(np.zeros(size, np.uint8), *arguments):
            continue
        found: Counter[bytes] = Counter()
        for bits in range(1 << size):
            z = np.array([bits >> i & 1 for i in range(size)], np.uint8)
            assert solve_in_place(z, *arguments)
            found[z.tobytes()] += 1
        for solution in found:
            assert (np.bitwise_xor.reduce(np.frombuffer(solution, np.uint8)[rows], axis=1) == values).all()
        assert len(found) == 1 << (size - keys)
        assert set(found.values()) == {1 << keys}
        systems += 1


def test_no_answer_depends_on_values() -> None:
    same = np.append(IDS[:50], IDS[7])  # one row twice
    for values in (np.zeros(51, np.uint64), VALUES[:51], np.append(VALUES[:50], VALUES[7])):
        assert not solve(3, 8, 40, same, values)[0]


def test_slots_that_no_equation_needs_keep_their_bytes() -> None:
    segment = KEYS
    before = ReproducibleRandomness(3).words(3 * segment)
    rows = _native.slots_of(5, 6, 3, segment, IDS).reshape(-1, 3)
    solved, after = solve(3, 8, segment, IDS, VALUES)
    assert solved
    assert (before != after).sum() <= KEYS
    untouched = np.setdiff1d(np.arange(3 * segment), rows)
    assert np.array_equal(before[untouched], after[untouched])


@pytest.mark.parametrize("crowd", [30, 31, 32, 33, 34, 35])
def test_a_slot_may_have_more_keys_than_a_small_word_counts(crowd: int) -> None:
    # Sums of 32 bits count up to 31 keys. Without a second attempt in 64 bits, 33 keys would look
    # like one.
    slots, segment = 3, 60
    rows = _native.slots_of(5, 6, slots, segment, IDS).reshape(-1, slots)
    together = np.flatnonzero(rows[:, 0] == 7)[:crowd]
    assert len(together) == crowd
    solved, z = solve(slots, 8, segment, IDS[together], VALUES[together])
    assert solved
    assert np.array_equal(np.bitwise_xor.reduce(z[rows[together]], axis=1), VALUES[together])


def test_sizes_are_checked() -> None:
    z = np.zeros(24, np.uint8)
    with pytest.raises(ValueError, match="slots x segment x width"):
        solve_in_place(z, 4, (1, 2), 3, 1, IDS[:1], VALUES[:1])
    with pytest.raises(ValueError, match=r"1\.\.8 bytes"):
        solve_in_place(z, 9, (1, 2), 3, 1, IDS[:1], VALUES[:1])
    with pytest.raises(ValueError, match="one value for each id"):
        solve_in_place(z, 8, (1, 2), 3, 1, IDS[:2], VALUES[:1])
