"""What keys read that share blocks with others: the law of patterns is that of the array."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from sparsedp.structures import sharing
from sparsedp.structures.decoding import Decoder
from sparsedp.structures.embedding import Blocks
from sparsedp.structures.ladder import Ladder
from sparsedp.structures.sharing import Patterns, SharingDecoder
from sparsedp.structures.table import Table

TWO = Blocks(Ladder.climb([1.0] * 20, (3, 2)), (100, 106), 40, hashed=True)
THREE = Blocks(Ladder.climb([1.0] * 20, (2, 2, 3)), (90, 80, 57), 5, hashed=True)
GRID = np.arange(26)


def random_array(blocks: Blocks) -> npt.NDArray[np.uint64]:
    """Blocks that are unlike each other: some have many ones, others few."""
    draw = np.random.default_rng(3)
    bits = draw.random((blocks.blocks, 512)) < draw.beta(1, 3, (blocks.blocks, 1))
    return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64).ravel()


def symbols_of(blocks: Blocks, array: npt.NDArray[np.uint64]) -> list[npt.NDArray[np.uint64]]:
    ends = np.cumsum([level.symbols for level in blocks.ladder.levels])[:-1]
    return np.split(blocks.count_symbols(array), ends)


def patterns_of(blocks: Blocks, looked: int | None = None) -> Patterns:
    array = random_array(blocks)
    return Patterns.read(blocks, [array[: looked and 8 * looked]], symbols_of(blocks, array))


@pytest.mark.parametrize("blocks", [TWO, THREE], ids=["two levels", "three levels"])
def test_the_law_of_patterns_is_that_of_all_rows_of_all_blocks(blocks: Blocks) -> None:
    # Mutant: the product of what each level shows, which is off by up to 0.1.
    counts = np.zeros(1 << blocks.ladder.bits)
    for block in random_array(blocks).reshape(-1, 8):
        bits, first, shares = int.from_bytes(block.astype("<u8").tobytes(), "little"), 0, []
        for level, rows in zip(blocks.ladder.levels, blocks.rows, strict=True):
            cells = [bits >> first + row * level.bits & (1 << level.bits) - 1 for row in range(rows)]
            shares.append(np.bincount(cells, minlength=level.symbols) / rows)
            first += rows * level.bits
        for pattern, chosen in enumerate(itertools.product(*map(range, map(len, reversed(shares))))):
            counts[pattern] += np.prod([own[s] for own, s in zip(shares, reversed(chosen), strict=True)])
    law = patterns_of(blocks).law
    np.testing.assert_allclose(law, counts / blocks.blocks, atol=1e-12)
    product = np.ones(1)
    for own in patterns_of(blocks).levels:
        product = np.outer(own, product).ravel()
    assert np.abs(law - product).max() > 0.02


def test_keys_that_do_not_occur_read_this_law() -> None:
    # Two million keys through the kernel of lookups: five standard errors of a share are 0.0018.
    array, seeds = random_array(TWO), np.array([1, 2, 3], np.uint64)
    empty = Table(np.empty(0, np.uint64), np.empty(0, np.int64)).index
    reader = TWO.reader([empty], [array], seeds, np.arange(32.0), 0.0)
    ids = np.random.default_rng(5).integers(0, 1 << 64, 2_000_000, np.uint64)
    shares = np.bincount(reader.read(ids).astype(int), minlength=32) / len(ids)
    assert np.abs(shares - patterns_of(TWO).law).max() < 0.0025


def test_some_blocks_tell_nearly_as_much_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    # The symbols of each level are known of all blocks, and the stated error is that of the rest, or
    # somewhat more if blocks are as different as here. Mutants: no raking (a mean square of 12); no
    # stated error.
    monkeypatch.setattr(sharing, "_AT_ONCE", 64)
    blocks = replace(TWO, blocks=4000)
    array, values = random_array(blocks), np.random.default_rng(6).normal(size=32)
    symbols, rows = symbols_of(blocks, array), array.reshape(-1, 8)
    truth = Patterns.read(blocks, [array], symbols)
    assert truth.error_of_mean(values) == 0.0
    errors = []
    for first in range(0, 4000, 200):
        some = Patterns.read(
            blocks, [rows[first : first + 100].ravel(), rows[first + 100 : first + 200].ravel()], symbols
        )
        for axis, own in enumerate(some.levels):
            law = some.law.reshape(4, 8).sum(axis=axis)
            np.testing.assert_allclose(law, own, atol=1e-9)
        errors.append(((some.law - truth.law) @ values, some.error_of_mean(values)))
    deviations = [error / stated for error, stated in errors]
    assert 0.05 < np.mean(np.square(deviations)) < 1.5


def decoder(blocks: Blocks, patterns: Patterns) -> SharingDecoder:
    loads = [np.ones(level.height + 1) / (level.height + 1) for level in blocks.ladder.levels]
    unstored = np.ones(len(GRID))
    return SharingDecoder(blocks.ladder, loads, GRID, unstored, rate=1.0, patterns=patterns, cells=blocks.cells)


@pytest.mark.parametrize("blocks", [TWO, THREE], ids=["two levels", "three levels"])
def test_patterns_of_every_count_have_a_law(blocks: Blocks) -> None:
    own = decoder(blocks, patterns_of(blocks))
    assert np.allclose(own.likelihood.sum(axis=1), 1)
    assert (own.likelihood >= 0).all()
    assert np.array_equal(own.likelihood[0], patterns_of(blocks).law)
    for other in own.others:
        assert np.allclose(other.sum(axis=1), 1)


def test_a_key_meets_what_the_higher_level_shows() -> None:
    # The blocks are of two kinds: one is full, and the other empty. A count of one in a full one
    # reads what is there; in an empty one its own symbol. Mutants: levels are independent; the
    # levels change places.
    ladder = Ladder.climb([3.0] * 6, (2, 2))
    first, second = ladder.levels
    full = np.outer(second.law[-1], first.law[-1]).ravel()
    empty = np.outer(second.law[0], first.law[0]).ravel()
    law = 0.5 * full + 0.5 * empty
    levels = law.reshape(4, 4).sum(axis=0), law.reshape(4, 4).sum(axis=1)
    loads = [np.ones(level.height + 1) / (level.height + 1) for level in ladder.levels]
    many = (10**8, 10**8)
    own = SharingDecoder(
        ladder, loads, np.arange(7), np.ones(7), rate=1.0, patterns=Patterns(law, levels), cells=many
    ).likelihood
    for count in range(1, first.height + 1):
        expected = 0.5 * full + 0.5 * np.outer(second.law[0], first.law[count]).ravel()
        assert np.abs(own[count] - expected).max() < 1e-3
    for count in range(first.height, 7):
        upper = 0.5 * second.law[-1] + 0.5 * second.law[count - first.height]
        assert np.abs(own[count] - np.outer(upper, first.law[-1]).ravel()).max() < 1e-3


def test_without_dependence_it_is_the_usual_decoder() -> None:
    ladder = Ladder.climb([1.0] * 20, (3, 2))
    loads = []
    for level in ladder.levels:
        load = np.full(level.height + 1, 0.1 / level.height)
        load[0] = 0.9
        loads.append(load)
    usual = Decoder(ladder, loads, GRID, np.ones(len(GRID))).likelihood
    levels = tuple(load @ level.law for load, level in zip(loads, ladder.levels, strict=True))
    own = SharingDecoder(
        ladder, loads, GRID, np.ones(len(GRID)), rate=1.0, patterns=Patterns(usual[0], levels), cells=(10**9, 10**9)
    )
    assert np.abs(own.likelihood - usual).max() < 1e-5
