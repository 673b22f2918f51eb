"""Random words, and exact samplers on top of them.

Production words come from AES-256-CTR keyed by the operating system, with a fresh key for every
stream and again in every forked child. A stream that serves several threads has branches: ranges of
the counter under the same key that never meet. Samplers compare words with the integer thresholds of
`laws`; the number of words they consume depends at most on the noise (the rare high part of a
geometric variable), never on the data.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from .. import _native
from .._util.threads import in_threads
from .laws import WORD_BITS, Geometric, Passing, TwoSided

Words = npt.NDArray[np.uint64]

_CHUNK_BYTES = 1 << 20
_ZEROS = bytes(_CHUNK_BYTES)
_MAX_WORD = np.uint64((1 << 64) - 1)

# Draws are made in pieces of about this many words, so that they fit in a cache for any number of
# keys.
_PIECE_WORDS = 1 << 16

# Branch n of a stream has the counters n·2^64 to (n + 1)·2^64 - 1, of 16 bytes each; the stream
# itself is branch 0.
_BRANCH_BITS = 64


# How many forks lie between this process and its first ancestor. A child may have the process id of
# its parent: the first process of a container often has the same id as the process that made the
# container.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class Randomness:
    """A stream of uniform 64-bit words, safe to share between threads and after a fork."""

    reproducible = False

    def __init__(self) -> None:
        self._own: dict[tuple[int, int], _Keystream] = {}
        # Never begun anew: a branch that was made before a fork and one of the child have different
        # numbers.
        self._numbers = itertools.count(1)
        self._stream()

    def _key(self) -> bytes:
        return os.urandom(32)

    def _stream(self) -> _Keystream:
        """The keystream of this process and its lock: a child must not repeat its parent's, nor
        wait for its lock.

        A thread that holds the lock at the moment of a fork does not exist in the child: nothing
        would release it.
        """
        process = (os.getpid(), _forks)
        if process not in self._own:
            # A key is used for one stream only, so the counter may start at zero.
            self._own.setdefault(process, _Keystream.of(self._key(), 0))  # the first of several threads wins
        return self._own[process]

    def branches(self, count: int) -> Iterator[Randomness]:
        """`count` streams for as many threads, each different from all others; one is this stream
        itself.
        """
        return (self if count == 1 else self._branch() for _ in range(count))

    def _branch(self) -> Randomness:
        return _Branch(self, next(self._numbers))

    def part_streams(self) -> PartStreams:
        """Separate streams for the parts of a release."""
        return PartStreams(None, os.urandom(32))

    def words(self, count: int) -> Words:
        """The next `count` words of the stream."""
        out = np.empty(count, np.uint64)
        self.fill(out)
        return out

    def fill(self, out: Words) -> None:
        """Write the next words of the stream to an array."""
        view = memoryview(out.data).cast("B")
        keystream = self._stream()
        with keystream.lock:
            for at in range(0, len(view), _CHUNK_BYTES):
                piece = view[at : at + _CHUNK_BYTES]
                keystream.context.update_into(_ZEROS[: len(piece)], piece)

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound), by rejection."""
        bits = (bound - 1).bit_length()
        count = -(-bits // 64)
        while True:
            value = int.from_bytes(self.words(count).tobytes(), "little") >> (64 * count - bits)
            if value < bound:
                return value


class _Keystream(NamedTuple):
    """The keystream of one process from some counter on, and its lock."""

    lock: threading.Lock
    context: CipherContext
    key: bytes

    @classmethod
    def of(cls, key: bytes, counter: int) -> _Keystream:
        return cls(threading.Lock(), Cipher(AES(key), CTR(counter.to_bytes(16, "big"))).encryptor(), key)


class _Branch(Randomness):
    """One of many streams under the key of another stream, in each process under that of this
    process.
    """

    def __init__(self, trunk: Randomness, number: int) -> None:
        self._trunk, self._number = trunk, number
        self.reproducible = trunk.reproducible
        self._own = {}

    def _stream(self) -> _Keystream:
        process = (os.getpid(), _forks)
        if process not in self._own:
            key = self._trunk._stream().key
            self._own.setdefault(process, _Keystream.of(key, self._number << _BRANCH_BITS))
        return self._own[process]

    def _branch(self) -> Randomness:
        return self._trunk._branch()

    def part_streams(self) -> PartStreams:
        return self._trunk.part_streams()


class ReproducibleRandomness(Randomness):
    """A stream that repeats for the same seed. For tests and experiments only: it protects nobody."""

    reproducible = True

    def __init__(self, seed: int | str) -> None:
        self._seed = seed
        super().__init__()

    def part_streams(self) -> PartStreams:
        """Different ones each time: releases made with the same stream must not have the same
        noise.
        """
        seed = f"{self._seed}, release {self.words(1)[0]:016x}"
        return PartStreams(seed, hashlib.sha256(f"sparsedp reproducible coins {seed}".encode()).digest())

    def _key(self) -> bytes:
        return hashlib.sha256(f"sparsedp reproducible stream {self._seed}".encode()).digest()


class KeyedRandomness(Randomness):
    """A stream that can be repeated by anyone who has its key, which must be as secret as the data."""

    def __init__(self, key: bytes) -> None:
        self._secret = key
        super().__init__()

    def _key(self) -> bytes:
        return self._secret


@dataclass(frozen=True)
class PartStreams:
    """The randomness for the parts of a release: fresh where they are built, or from the seed of a
    test.
    """

    seed: object
    secret: bytes = field(repr=False)

    def noise(self, side: int, part: int) -> Randomness:
        """The stream of the noise of one part."""
        return self._stream(f"side {side}", part)

    def rounding(self, part: int) -> Randomness:
        """The stream that rounds the values of one part to the grid."""
        return self._stream("rounding", part)

    def sizing(self, part: int) -> Randomness:
        """The stream that rounds the values for the estimate of the size, which has its own coins."""
        return self._stream("sizing", part)

    def coins(self, part: int) -> Randomness:
        """The stream that rounds the values for both, with the same coins at each call."""
        return KeyedRandomness(hashlib.sha256(b"coins" + self.secret + part.to_bytes(8, "little")).digest())

    def _stream(self, name: str, part: int) -> Randomness:
        return Randomness() if self.seed is None else ReproducibleRandomness(f"{self.seed}, {name}, part {part}")


_override: ContextVar[Randomness | None] = ContextVar("sparsedp_randomness", default=None)


def fresh_randomness() -> Randomness:
    """A new secure stream, or the reproducible one inside `reproducible_for_tests`."""
    return _override.get() or Randomness()


@contextmanager
def reproducible_for_tests(seed: int) -> Iterator[ReproducibleRandomness]:
    """Everything released inside this block repeats for the same seed, and says so. Never for real
    data.
    """
    stream = ReproducibleRandomness(seed)
    token = _override.set(stream)
    try:
        yield stream
    finally:
        _override.reset(token)


def pieces(count: int, words_each: int = 1) -> Iterator[slice]:
    """Slices that cover `count` draws of `words_each` words."""
    size = max(1, _PIECE_WORDS // max(1, words_each))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def pieces_and_streams(randomness: Randomness, count: int, words_each: int = 1) -> Iterator[tuple[slice, Randomness]]:
    """The same slices, each with a stream of its own, for `in_threads`."""
    each = list(pieces(count, words_each))
    return zip(each, randomness.branches(len(each)), strict=True)


def words_in_threads(randomness: Randomness, count: int) -> Words:
    """`count` words that several threads draw."""
    out = np.empty(count, np.uint64)

    def fill(own: tuple[slice, Randomness]) -> None:
        piece, stream = own
        stream.fill(out[piece])

    for _ in in_threads(fill, pieces_and_streams(randomness, count)):
        pass
    return out


def bernoulli(randomness: Randomness, thresholds: Words) -> npt.NDArray[np.bool_]:
    """Independent events of probability thresholds[i] / 2^64."""
    return randomness.words(len(thresholds)) < thresholds


def geometric(randomness: Randomness, law: Geometric, count: int) -> Words:
    """`count` draws of a geometric law, saturating at 2^64 - 1."""
    digits = np.array(law.digits, np.uint64)
    out = np.zeros(count, np.uint64)
    if len(digits):
        for piece in pieces(count, len(digits)):
            length = piece.stop - piece.start
            out[piece] = _native.geometric(randomness.words(length * len(digits)), digits)
    step = np.uint64(law.period) if len(digits) < WORD_BITS else _MAX_WORD
    for alive in _high_part(randomness, law, count):
        room = _MAX_WORD - out[alive]
        out[alive] += np.minimum(step, room)
    return out


def two_sided(randomness: Randomness, law: TwoSided, count: int) -> npt.NDArray[np.int64]:
    """`count` draws of a two-sided geometric law, saturating at ±2^62."""
    digits = np.array(law.magnitude.digits, np.uint64)
    stride = len(digits) + 2
    out = np.empty(count, np.int64)
    for piece in pieces(count, stride):
        length = piece.stop - piece.start
        out[piece] = _native.two_sided(randomness.words(length * stride), law.zero, digits)
    limit = np.int64(1 << 62)
    step = np.int64(law.magnitude.period)
    for alive in _high_part(randomness, law.magnitude, count):
        grown = np.minimum(np.abs(out[alive]) + step, limit)
        out[alive] = np.sign(out[alive]) * grown  # zero stays zero: its high part is drawn but ignored
    return out


def _high_part(randomness: Randomness, law: Geometric, count: int) -> Iterator[npt.NDArray[np.int64]]:
    """Positions whose high part grows by one more step, round by round until none is left."""
    alive = np.arange(0)
    for piece in pieces(count):
        found = np.flatnonzero(randomness.words(piece.stop - piece.start) < np.uint64(law.tail))
        alive = np.concatenate([alive, found + piece.start])
    while len(alive):
        yield alive
        alive = alive[randomness.words(len(alive)) < np.uint64(law.tail)]


# A domain is visited in runs of this length, so that the end of a run differs from a gap that
# saturates at 2^64 - 1.
_RUN = 1 << 63


def passing_positions(randomness: Randomness, law: Passing, begin: int, end: int) -> Words:
    """The positions of [begin, end) that pass, ascending, in time proportional to their number, not
    to that of all.
    """
    return np.concatenate(
        [_passing_run(randomness, law, start, min(_RUN, end - start)) for start in range(begin, end, _RUN)]
    )


def _passing_run(randomness: Randomness, law: Passing, start: int, length: int) -> Words:
    found: list[Words] = []
    next_position = np.uint64(0)  # counted from the start of the run
    batch = 16
    while True:
        gaps = geometric(randomness, law.gap, batch)
        # The first position beyond the run is recognised by its gap or is below 2^64; later ones
        # may wrap around.
        positions = next_position + (np.cumsum(gaps + np.uint64(1)) - np.uint64(1))
        beyond = (gaps >= np.uint64(_RUN)) | (positions >= np.uint64(length))
        if beyond.any():
            found.append(positions[: int(np.argmax(beyond))])
            return np.uint64(start) + np.concatenate(found)
        found.append(positions)
        next_position = positions[-1] + np.uint64(1)
        batch = min(2 * batch, 1 << 16)


def flip(randomness: Randomness, array: Words, numerator: int, digits: int) -> None:
    """Flip every bit of the array independently with probability numerator / 2^digits, in place."""
    for piece in pieces(len(array), digits):
        part = array[piece]
        _native.flip(part, randomness.words(len(part) * digits), numerator, digits)
