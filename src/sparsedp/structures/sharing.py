"""What keys read that share cells and blocks with others, for sums.

All cells of a key lie in one block, and blocks hold more or fewer keys. So the symbols of a key are
not independent given its count: who finds much in a cell of one level is likely to find more in
that of the next. For one key that hardly matters, but a sum over many keys adds it up.

The law of what *absent* keys read needs no model. Such a key falls into any block, and there into
any cell of each level, independently; so it reads a pattern with the probability

    P₀[s₁, s₂, …] = average over blocks of Π_j (share of the block's cells of level j that show s_j),

given all that is published. For other counts the heights in the cells of a level are inferred
(`likely_load`) for each of the symbols that higher levels show in the same block. A key that
reaches into a level is as high as can be in all lower ones, where nobody hides it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from .._util.lazy import cached_property
from ..privacy.randomness import Words
from .decoding import Decoder, Floats
from .embedding import BLOCK_BITS, Blocks
from .loads import likely_load

BLOCK_WORDS = BLOCK_BITS // 64
MOST_BLOCKS = 1 << 16  # that are looked at: all of them for up to some million keys
_AT_ONCE = 1 << 13
_RAKES = 50

# What expected loads are worth, in cells whose heights are known: symbols overrule them as soon as
# they tell.
EXPECTED_CELLS = 30.0


@dataclass(frozen=True)
class Patterns:
    """The law of the patterns of absent keys."""

    law: Floats  # the first level lowest
    levels: tuple[Floats, ...] = ()  # the law of the symbols of each level
    shares: tuple[Floats, ...] = ()  # of each level: how often each symbol is in each block that was looked at
    blocks: int = 0  # of the release

    @classmethod
    def read(cls, blocks: Blocks, pieces: Iterable[Words], symbols: Sequence[Words]) -> Patterns:
        """From some of the blocks, and how often each symbol is in all of them."""
        levels = tuple(counts / counts.sum() for counts in symbols)
        if len(levels) == 1:  # where there is one symbol, it does not matter in which blocks it is
            return cls(levels[0], levels)
        step = _AT_ONCE * BLOCK_WORDS
        found = [_shares(blocks, piece[at : at + step]) for piece in pieces for at in range(0, len(piece), step)]
        shares = tuple(np.concatenate(own) for own in zip(*found, strict=True))
        return cls(_raked(_joint(shares), levels).reshape(-1), levels, shares, blocks.blocks)

    def error_of_mean(self, values: Floats) -> float:
        """The standard error of the mean of these values over absent keys, as not all blocks were
        looked at. How often each symbol is, is known of all of them.
        """
        if not self.shares or len(self.shares[0]) >= self.blocks:
            return 0.0
        looked, sizes = len(self.shares[0]), [own.shape[1] for own in self.shares]
        law, means = self.law.reshape(sizes[::-1]), np.zeros(looked)
        for at in range(0, looked, _AT_ONCE):
            first, *others = (own[at : at + _AT_ONCE] for own in self.shares)
            rest = first @ values.reshape(-1, sizes[0]).T
            for own in others:
                rest = np.einsum("bts,bs->bt", rest.reshape(len(own), -1, own.shape[1]), own)
            means[at : at + _AT_ONCE] = rest[:, 0]
        for own, given in zip(self.shares, _given(law, values), strict=True):
            means -= own @ given
        return float(means.std() * np.sqrt(1 / looked - 1 / self.blocks))

    def error_of_cells(self, values: Floats, cells: Sequence[int]) -> float:
        """The standard error that the noise of so many cells of each level gives to the mean of
        these values, which is zero: by as much all keys err that are present.
        """
        law = self.law.reshape([own.size for own in reversed(self.levels)])
        terms = zip(self.levels, _given(law, values), cells, strict=True)
        return math.sqrt(sum(float(own @ given**2 - (own @ given) ** 2) / many for own, given, many in terms))


def _given(law: Floats, values: Floats) -> list[Floats]:
    """The means of values given the symbol of each level."""
    found = []
    for axis in reversed(range(law.ndim)):
        others = tuple(i for i in range(law.ndim) if i != axis)
        found.append((law * values.reshape(law.shape)).sum(axis=others) / np.maximum(law.sum(axis=others), 1e-300))
    return found


def _shares(blocks: Blocks, words: Words) -> list[Floats]:
    """How often each symbol is among the cells of each block, for each level."""
    bits = np.unpackbits(words.astype("<u8").view(np.uint8).reshape(-1, BLOCK_BITS // 8), axis=1, bitorder="little")
    found, first, many = [], 0, len(bits)
    for level, rows in zip(blocks.ladder.levels, blocks.rows, strict=True):
        cells = bits[:, first : first + rows * level.bits].reshape(many, rows, level.bits)
        symbols = np.packbits(cells, axis=2, bitorder="little")[:, :, 0] + level.symbols * np.arange(many)[:, None]
        counts = np.bincount(symbols.ravel(), minlength=many * level.symbols)
        found.append(counts.reshape(many, level.symbols) / rows)
        first += rows * level.bits
    return found


def _joint(shares: Sequence[Floats]) -> Floats:
    """The average over blocks of the products of their shares, the last level first."""
    total: Floats = np.zeros([own.shape[1] for own in reversed(shares)])
    for at in range(0, len(shares[0]), _AT_ONCE):
        product = shares[-1][at : at + _AT_ONCE]
        for own in shares[-2:0:-1]:
            product = (product[:, :, None] * own[at : at + _AT_ONCE, None, :]).reshape(len(product), -1)
        total += (product.T @ shares[0][at : at + _AT_ONCE]).reshape(total.shape)
    return total / len(shares[0])


def _raked(joint: Floats, levels: Sequence[Floats]) -> Floats:
    """The joint law with the right law of each level, which is known of all blocks."""
    for _ in range(_RAKES):
        for axis, wanted in enumerate(reversed(levels)):
            others = tuple(i for i in range(joint.ndim) if i != axis)
            sums = joint.sum(axis=others, keepdims=True)
            joint = joint * (wanted.reshape(sums.shape) / np.maximum(sums, 1e-300))
    return joint


@dataclass(frozen=True)
class SharingDecoder(Decoder):
    """The decoder of sums. Its `loads` are those that are expected: symbols overrule them where they
    tell.
    """

    patterns: Patterns = field(default_factory=lambda: Patterns(np.ones(1)))
    cells: tuple[int, ...] = ()  # of each level

    @cached_property
    def _seen(self) -> list[Floats]:
        """For each level: P₀[its symbol, those of higher levels], a column for each of the latter."""
        found, law = [], self.patterns.law
        for level in self.ladder.levels:
            found.append(law.reshape(-1, level.symbols).T)
            law = law.reshape(-1, level.symbols).sum(axis=1)
        return found

    @cached_property
    def _heights(self) -> list[Floats]:
        """For each level: P[height in a cell, symbols of all higher levels]."""
        found = []
        for level, seen, load, cells in zip(self.ladder.levels, self._seen, self.loads, self.cells, strict=True):
            shares = seen.sum(axis=0)
            columns = [
                share * likely_load(level.law, own * cells, load, EXPECTED_CELLS * share) if share > 0 else 0 * load
                for own, share in zip(seen.T, shares.tolist(), strict=True)
            ]
            found.append(np.stack(columns, axis=1))
        return found

    @cached_property
    def likelihood(self) -> Floats:
        found = self._likelihood(self._heights)
        found[0] = self.patterns.law
        return found

    @cached_property
    def extremes(self) -> tuple[Floats, Floats]:
        """Loads of the first level with the most and with the fewest cells that are not free, of
        those that explain the symbols.

        Noise hides the difference between many keys of one and few keys of several. With the mean
        height of a noise scale's heights, cells are all as high as that, or all empty or as high as
        the noise scale; likely loads near these two are the extremes.
        """
        level, load = self.ladder.levels[0], self._heights[0].sum(axis=1)
        seen = self._seen[0].sum(axis=1) * self.cells[0]
        reach = min(math.ceil(1 / self.rate), level.height)
        low = load[: reach + 1]
        mean = min(float(np.arange(reach + 1) @ low / low.sum()), reach - 1e-9)
        most, fewest = (np.concatenate([np.zeros(reach + 1), load[reach + 1 :]]) for _ in range(2))
        below = int(mean)
        most[[below, below + 1]] = np.array([below + 1 - mean, mean - below]) * low.sum()
        fewest[[0, reach]] = np.array([reach - mean, mean]) / reach * low.sum()
        found = [likely_load(level.law, seen, own, EXPECTED_CELLS) for own in (most, fewest)]
        return found[0], found[1]

    @property
    def loads_of_first(self) -> tuple[Floats, ...]:
        """The loads of the first level that the symbols do not tell from each other."""
        return self._heights[0].sum(axis=1), *self.extremes

    @cached_property
    def others(self) -> list[Floats]:
        """Likelihoods that the symbols do not tell from the one above."""
        first, *rest = self._heights
        each = first / first.sum(axis=1, keepdims=True)
        return [self._likelihood([load[:, None] * each, *rest]) for load in self.extremes]

    def _likelihood(self, every: Sequence[Floats]) -> Floats:
        """P[pattern | count] for these heights in cells."""
        found = np.empty((len(self.grid), self.patterns.law.size))
        below, last = np.ones(1), self.ladder.levels[-1]
        for level, heights in zip(self.ladder.levels, every, strict=True):
            rows = (self.grid >= level.start) & ((level is last) | (self.grid < level.start + level.height))
            own = np.clip(self.grid[rows] - level.start, 0, level.height)
            at_most = np.cumsum(heights, axis=0)[own]
            above = np.zeros(
                (level.height + 2, heights.shape[1], level.symbols)
            )  # [h]: for other keys' heights from h on
            np.cumsum((heights[:, :, None] * level.law[:, None, :])[::-1], axis=0, out=above[-2::-1])
            law = at_most[:, :, None] * level.law[own][:, None, :] + above[own + 1]
            found[rows] = (law.reshape(len(own), -1, 1) * below).reshape(len(own), -1)
            below = np.outer(level.law[-1], below).reshape(-1)
        return found
