"""What is published about small counts: the paper's noisy bits in columns, and noisy symbols in
cache-line blocks.

Privacy holds for every hash function that does not depend on the data, so the layout is chosen for
memory: `Columns` is the paper's, with one hash function and one memory access per level; `Blocks`
reads one cache line per lookup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .. import _native
from .._util.progress import task
from .._util.threads import in_threads
from ..keys.hashing import Partition, draw_row_functions
from ..privacy.laws import WORD_BITS
from ..privacy.randomness import Randomness, Words, flip
from .ladder import Ladder
from .rounding import MOST_LEVELS
from .scale import PLAIN, Scale

FLIP_DIGITS = 16
SMALLEST_ALPHA, LARGEST_ALPHA = 0.05, 1000.0


def dyadic_flip_probability(alpha: float) -> Fraction:
    """The paper's p = 1/(α + 2), rounded up to a multiple of 2^-16 so that flips are exact."""
    scale = 1 << FLIP_DIGITS
    return Fraction(-(-scale // (Fraction(alpha) + 2)), scale)


@dataclass(frozen=True)
class Columns:
    """The shape of the classic embedding: `rows` (s) bits for each of `levels` (m) levels."""

    rows: int
    levels: int
    flip_probability: Fraction

    @property
    def words_per_level(self) -> int:
        """64-bit words of one level."""
        return -(-self.rows // 64)

    @property
    def nbytes(self) -> int:
        """Bytes of the bit array and of its hash functions."""
        return 8 * self.levels * (self.words_per_level + 4)

    def project(self, ids: Words, heights: Words, randomness: Randomness) -> tuple[Words, Words]:
        """Steps (2) and (3) of ALP1-projection: fresh hash functions, unary bits, randomized
        response.
        """
        functions = draw_row_functions(randomness, self.levels)
        array = np.zeros(self.levels * self.words_per_level, np.uint64)
        _native.embed_columns(array, functions, self.rows, ids, heights)
        flip(randomness, array, *self._flip_digits())
        return array, functions

    def estimate(self, array: Words, functions: Words, ids: Words) -> npt.NDArray[np.float64]:
        """ALP1-estimator: for each id the average of all maximisers of the partial sums, in levels."""
        return _native.estimate_columns(array, functions, self.rows, ids)

    def words_of(self, functions: Words, ids: Words) -> npt.NDArray[np.int64]:
        """The positions in the array of all words that the estimates of ids read."""
        levels = (
            _native.rows_of(functions, self.rows, level, ids).astype(np.int64) // 64 + level * self.words_per_level
            for level in range(self.levels)
        )
        return np.concatenate([np.empty(0, np.int64), *levels])

    def _flip_digits(self) -> tuple[int, int]:
        # Fewer digits if the probability allows: p = 1/4 needs two random words per word, not
        # sixteen.
        denominator = self.flip_probability.denominator
        return self.flip_probability.numerator, denominator.bit_length() - 1

    def faults(self) -> Iterator[str]:
        """What is wrong with columns that were not planned here, if anything."""
        p = self.flip_probability
        if not 0 < p < Fraction(1, 2) or p.denominator.bit_length() > WORD_BITS or p.denominator & (p.denominator - 1):
            yield "the flip probability must be below one half, and a multiple of a power of two"
        if not 1 <= self.levels <= MOST_LEVELS or not 1 <= self.rows < 1 << 39:
            yield "rows must be in 1..2^39, and levels in 1..2^16"


def estimate_bits(bits: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """ALP1-estimator on explicit bits, one row for each estimate."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 64), np.bool_)
    padded[:, : bits.shape[1]] = bits
    return _native.estimate_rows(np.packbits(padded, axis=1, bitorder="little").view(np.uint64), bits.shape[1])


BLOCK_BITS = 512
_BLOCK_WORDS = BLOCK_BITS // 64
_CHUNK_BLOCKS = 2048


def zero_lines(lines: int) -> Words:
    """Zeros on whole cache lines, so that each block is one line."""
    room = np.zeros((lines + 1) * _BLOCK_WORDS, np.uint64)
    skip = -room.__array_interface__["data"][0] // 8 % _BLOCK_WORDS
    return room[skip : skip + lines * _BLOCK_WORDS]


@dataclass(frozen=True)
class Blocks:
    """Noisy symbols of a ladder in cache-line blocks: a key has one 512-bit block, and in it one
    cell per level.

    The block is the high part of placement × blocks, so a range of placements is a range of blocks.
    Level j has rows[j] cells in every block; two keys share a cell of level j with probability
    1/(blocks · rows[j]).
    """

    ladder: Ladder
    rows: tuple[int, ...]
    blocks: int
    hashed: bool  # ids are already uniform fingerprints

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks and of the three seeds."""
        return 8 * (self.blocks * _BLOCK_WORDS + 3)

    @property
    def cells(self) -> tuple[int, ...]:
        """The number of cells of each level."""
        return tuple(rows * self.blocks for rows in self.rows)

    @property
    def _shape(self) -> npt.NDArray[np.uint32]:
        return np.array(
            [(level.bits, rows) for level, rows in zip(self.ladder.levels, self.rows, strict=True)], np.uint32
        )

    def of_part(self, parts: int) -> Blocks:
        """The blocks of one of several parts."""
        return replace(self, blocks=self.blocks // parts)

    def build(
        self,
        ids: Words,
        counts: npt.NDArray[np.int64],
        randomness: Randomness,
        partition: Partition,
        part: int = 0,
    ) -> Words:
        """The blocks of a part: every cell is a noisy symbol of the largest height among its keys.
        Ids ascend.
        """
        first_seed, second_seed, row_seed = partition.seeds
        placed = ids
        if not self.hashed:
            placed, counts = _native.place_pairs(ids, counts, first_seed, second_seed)
        tops = np.array([[level.start, level.height] for level in self.ladder.levels])
        thresholds = np.concatenate(
            [np.append(np.uint64(len(level.masses)), level.thresholds.ravel()) for level in self.ladder.levels]
        )
        own = self.blocks // partition.parts
        begin_block, end_block = part * own, (part + 1) * own
        array = zero_lines(own)
        cells = sum(self.rows)

        def fill(own: tuple[int, int, slice, Randomness]) -> int:
            first, size, keys, stream = own
            heights = np.clip(counts[keys, None] - tops[:, 0], 0, tops[:, 1]).astype(np.uint32)
            at = (first - begin_block) * _BLOCK_WORDS
            piece = array[at : at + size * _BLOCK_WORDS]
            _native.build_blocks(
                piece,
                self._shape,
                self.blocks,
                first,
                size,
                placed[keys],
                row_seed,
                heights,
                thresholds,
                stream.words(size * cells),
            )
            return size * cells

        starts = list(range(begin_block, end_block, _CHUNK_BLOCKS))
        # Block b begins at placement ⌈b 2^64 / blocks⌉.
        borders = np.array([-(-(b << 64) // self.blocks) for b in starts], np.uint64)
        edges = [*np.searchsorted(placed, borders).tolist(), len(placed)]
        chunks = (
            (first, min(_CHUNK_BLOCKS, end_block - first), slice(begin, end), stream)
            for first, begin, end, stream in zip(
                starts, edges, edges[1:], randomness.branches(len(starts)), strict=False
            )
        )
        with task("Building", own * cells) as advance:
            for drawn in in_threads(fill, chunks):
                advance(drawn)
        return array

    def count_symbols(self, array: Words) -> Words:
        """How often each symbol of each level occurs in the array."""
        return _native.count_symbols(array, self._shape, self.blocks)

    def blocks_of(self, seeds: Words, ids: Words) -> npt.NDArray[np.int64]:
        """The positions in the array of the blocks of ids, in words."""
        first, second, _ = (int(seed) for seed in seeds)
        return _native.parts_of(ids, self.hashed, first, second, self.blocks).astype(np.int64) * _BLOCK_WORDS

    def reader(
        self,
        tables: list[_native.Table],
        parts: list[Words],
        seeds: Words,
        values: npt.NDArray[np.float64],
        factor: float = 1.0,
        offsets: Sequence[float] = (0.0,),
        scale: Scale = PLAIN,
    ) -> _native.BlockReader:
        """Answer keys: factor · value + offset if stored, on a scale; otherwise the value of the
        pattern, one of 2^bits. With several offsets, a key has as many answers, and each pattern a
        row of values.
        """
        first, second, row = (int(seed) for seed in seeds)
        rows, own = values.reshape(-1), (self._shape, self.blocks, self.hashed)
        return _native.BlockReader(tables, parts, *own, first, second, row, rows, factor, offsets, scale)

    def faults(self) -> Iterator[str]:
        """What is wrong with one that was not planned here, if anything."""
        used = sum(level.bits * rows for level, rows in zip(self.ladder.levels, self.rows, strict=False))
        if len(self.rows) != len(self.ladder.levels) or min(self.rows) < 1 or used > BLOCK_BITS:
            yield f"the rows of all levels must fit in {BLOCK_BITS} bits"
        if not 1 <= self.blocks < 1 << 48:
            yield "blocks must be in 1..2^48"
