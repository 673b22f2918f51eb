"""Cache-line blocks: the kernels against plain NumPy, and the law of whole arrays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from sparsedp import _native
from sparsedp.keys.hashing import Partition
from sparsedp.privacy.randomness import Randomness, ReproducibleRandomness, Words
from sparsedp.structures import embedding
from sparsedp.structures.embedding import Blocks
from sparsedp.structures.ladder import Ladder, Level
from sparsedp.structures.table import Table
from statistics_helpers import LEVEL, chi_square_p

LADDER = Ladder.climb([1.0] * 37, (4, 5))
ROWS = (60, 40)
MASK = (1 << 64) - 1


def mix(x: int) -> int:
    """MurmurHash3's finaliser."""
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & MASK
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & MASK
    return x ^ x >> 33


def cells_of(blocks: Blocks, seeds: list[int], key: int) -> list[tuple[int, int]]:
    """(block, row) of a key at each level, in plain Python."""
    placed = key if blocks.hashed else mix((mix(key ^ seeds[0]) + seeds[1]) & MASK)
    choice = mix((placed + seeds[2]) & MASK)
    block = placed * blocks.blocks >> 64
    return [(block, (choice >> (16 * j) & 0xFFFF) * rows >> 16) for j, rows in enumerate(blocks.rows)]


def unpack(blocks: Blocks, array: npt.NDArray[np.uint64]) -> list[npt.NDArray[np.int64]]:
    """The symbols of each level as a blocks × rows matrix."""
    bits = np.unpackbits(array.view(np.uint8), bitorder="little").reshape(blocks.blocks, 512)
    symbols, at = [], 0
    for level, rows in zip(blocks.ladder.levels, blocks.rows, strict=True):
        cells = bits[:, at : at + rows * level.bits].reshape(blocks.blocks, rows, level.bits)
        symbols.append(cells @ (1 << np.arange(level.bits)))
        at += rows * level.bits
    return symbols


def build(
    blocks: Blocks, ids: Words, counts: npt.NDArray[np.int64], randomness: ReproducibleRandomness
) -> tuple[Words, Words]:
    """The blocks of a release of one part, and their seeds."""
    first, second, row = randomness.words(3).tolist()
    partition = Partition(1, blocks.hashed, (first, second, row))
    return blocks.build(ids, counts, randomness, partition), np.array(partition.seeds, np.uint64)


def read(
    blocks: Blocks, array: Words, seeds: Words, values: npt.NDArray[np.float64], ids: Words
) -> npt.NDArray[np.float64]:
    """The values of the patterns of the ids, if nothing is stored."""
    nothing = Table(np.empty(0, np.uint64), np.empty(0, np.int64))
    return blocks.reader([nothing.index], [array], seeds, values).read(ids)


@pytest.mark.parametrize("hashed", [True, False])
def test_a_lookup_reads_the_cells_of_the_key(hashed: bool) -> None:
    blocks = Blocks(LADDER, ROWS, 37, hashed)
    random = np.random.default_rng(1)
    ids = random.integers(0, MASK, 50, np.uint64, endpoint=True)
    array, seeds = build(blocks, ids, random.integers(1, 30, 50), ReproducibleRandomness(1))
    symbols = unpack(blocks, array)
    patterns = read(blocks, array, seeds, np.arange(512.0), ids)
    for key, pattern in zip(ids.tolist(), patterns.tolist(), strict=True):
        (block, first), (same, second) = cells_of(blocks, seeds.tolist(), key)
        assert block == same
        assert pattern == symbols[0][block, first] + 16 * symbols[1][block, second]


@pytest.mark.parametrize("chunk", [1, 7, 2048])
def test_the_array_does_not_depend_on_how_it_is_cut_into_chunks(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class OneStream(ReproducibleRandomness):
        """All chunks draw from one stream, in one thread: in the order of the blocks."""

        def branches(self, count: int) -> Iterator[Randomness]:
            return iter([self] * count)

    monkeypatch.setenv("SPARSEDP_THREADS", "1")
    blocks = Blocks(LADDER, ROWS, 60, hashed=False)
    ids = np.arange(500, dtype=np.uint64)
    counts = np.arange(500) % 40
    monkeypatch.setattr(embedding, "_CHUNK_BLOCKS", 60)
    whole, seeds = build(blocks, ids, counts, OneStream(2))
    monkeypatch.setattr(embedding, "_CHUNK_BLOCKS", chunk)
    again, same = build(blocks, ids[::-1], counts[::-1], OneStream(2))
    assert np.array_equal(seeds, same)
    assert np.array_equal(whole, again)


def test_a_cell_holds_a_symbol_of_its_tallest_key() -> None:
    # With the word 2^63 every cell shows the median symbol of its height: noise without randomness.
    blocks = Blocks(LADDER, ROWS, 3, hashed=True)
    random = np.random.default_rng(3)
    placed = np.sort(random.integers(0, MASK, 200, np.uint64, endpoint=True))
    counts = random.integers(1, 38, 200)
    heights = np.stack([np.clip(counts, 0, 15), np.clip(counts - 15, 0, 22)], axis=1).astype(np.uint32)
    thresholds = np.concatenate([np.append(np.uint64(len(v.masses)), v.thresholds.ravel()) for v in LADDER.levels])
    array = np.zeros(24, np.uint64)
    words = np.full(3 * sum(ROWS), 1 << 63, np.uint64)
    shape = np.array([[4, 60], [5, 40]], np.uint32)
    _native.build_blocks(array, shape, 3, 0, 3, placed, 99, heights, thresholds, words)
    symbols = unpack(blocks, array)
    for j, level in enumerate(LADDER.levels):
        tallest = np.zeros((3, ROWS[j]), int)
        for key, height in zip(placed.tolist(), heights[:, j].tolist(), strict=True):
            block, row = cells_of(blocks, [0, 0, 99], key)[j]
            tallest[block, row] = max(tallest[block, row], height)
        medians = (level.thresholds <= np.uint64(1 << 63)).sum(axis=1)
        assert np.array_equal(symbols[j], medians[tallest])


def test_empty_cells_follow_the_law_of_height_zero() -> None:
    blocks = Blocks(LADDER, ROWS, 5000, hashed=True)
    nobody = np.empty(0, np.uint64)
    array, _ = build(blocks, nobody, np.empty(0, np.int64), ReproducibleRandomness(4))
    counts = blocks.count_symbols(array)
    for at, level, rows in ((0, LADDER.levels[0], 60), (16, LADDER.levels[1], 40)):
        seen = counts[at : at + level.symbols]
        assert seen.sum() == 5000 * rows
        assert chi_square_p(seen, level.law[0] * seen.sum()) > LEVEL


@pytest.mark.parametrize("height", [0, 1, 7, 15])
def test_a_full_level_follows_the_law_of_its_height(height: int) -> None:
    blocks = Blocks(LADDER, (1, 1), 20_000, hashed=True)  # one cell per block and level
    ids = np.array([-(-(b << 64) // 20_000) for b in range(20_000)], np.uint64)  # one key per block
    array, _ = build(blocks, ids, np.full(20_000, height), ReproducibleRandomness(5 + height))
    seen = blocks.count_symbols(array)[:16]
    assert chi_square_p(seen, LADDER.levels[0].law[height] * 20_000) > LEVEL


def test_blocks_and_rows_are_used_evenly() -> None:
    blocks = Blocks(LADDER, ROWS, 64, hashed=False)
    seeds = ReproducibleRandomness(6).words(3).tolist()
    cells = [cells_of(blocks, seeds, key) for key in range(20_000)]
    assert chi_square_p(np.bincount([c[0][0] for c in cells], minlength=64), np.full(64, 20_000 / 64)) > LEVEL
    assert chi_square_p(np.bincount([c[1][1] for c in cells], minlength=40), np.full(40, 20_000 / 40)) > LEVEL


def test_kernels_refuse_what_does_not_fit() -> None:
    blocks = Blocks(LADDER, ROWS, 2, hashed=True)
    array, seeds = build(blocks, np.empty(0, np.uint64), np.empty(0, np.int64), ReproducibleRandomness(7))
    with pytest.raises(ValueError, match="one value for each pattern"):
        read(blocks, array, seeds, np.zeros(511), np.zeros(1, np.uint64))
    with pytest.raises(ValueError, match="fit in a block"):
        Blocks(LADDER, (100, 100), 2, hashed=True).count_symbols(array)
    with pytest.raises(ValueError, match="hold the blocks"):
        Blocks(LADDER, ROWS, 3, hashed=True).count_symbols(array)


def test_heights_beyond_sixteen_bits_keep_their_law() -> None:
    low, high = ((1 << 64) - 4096, 4096), (4096, (1 << 64) - 4096)
    level = Level(0, 1, tuple(high if height else low for height in range(70_001)))
    blocks = Blocks(Ladder((level,)), (512,), 1, hashed=True)
    for count in (1, 65_535, 65_536, 70_000, 1 << 40):
        array, seeds = build(blocks, np.zeros(1, np.uint64), np.array([count]), ReproducibleRandomness(1))
        assert read(blocks, array, seeds, np.arange(2.0), np.zeros(1, np.uint64))[0] == 1
