"""Lookups against the speed of memory, and opening files against opening small ones."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import sparsedp

from .measuring import Row, seconds, side_by_side, threads

MANY = 10**7
BATCH = 10**6
SERIES = np.datetime64("2024-01-01") + 1000


def random_counts(keys: int, seed: int = 1) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distinct-looking integer keys with Zipf-like counts."""
    random = np.random.default_rng(seed)
    ranks = random.permutation(keys) + 1.0
    counts = np.maximum(1, np.round(2 * keys / ranks**1.05)).astype(np.int64)
    return random.integers(0, 1 << 62, keys), counts


def half_present(keys: npt.NDArray[np.int64], asked: int) -> npt.NDArray[np.int64]:
    """Random keys, every other one of the data."""
    random = np.random.default_rng(2)
    present = random.choice(keys, asked)
    return np.where(random.random(asked) < 0.5, present, random.integers(0, 1 << 62, asked))


def gather(nbytes: int, asked: int) -> partial[npt.NDArray[np.uint64]]:
    """NumPy reads one random cache line for each key, from an array of the given size."""
    lines = np.ones((nbytes // 64, 8), np.uint64)
    at = np.random.default_rng(3).integers(0, len(lines), asked)
    return partial(lambda array, rows: array[rows, 0], lines, at)


# The mechanisms with their δ, and how much longer than a gather a lookup may take.
LIMITS = (("tight-alp", 0.0, 2.2), ("retrieval", 1e-9, 4.0))


def memory_rows() -> Iterator[Row]:
    """10⁷ lookups in a release of 10⁷ keys, against a gather; one thread against two."""
    keys, counts = random_counts(MANY)
    asked = half_present(keys, MANY)
    for mechanism, delta, most in LIMITS:
        release = sparsedp.release((keys, counts), epsilon=1.0, delta=delta, mechanism=mechanism, nonzero=MANY)
        yield _against_gather(f"{mechanism}: 10⁷ lookups in 10⁷ keys, one thread", release, asked, most)
        if mechanism == "tight-alp":
            two, one = side_by_side(partial(_in_threads, 2, release, asked), partial(_in_threads, 1, release, asked), 8)
            yield Row("tight-alp: two threads", "one thread", two, one, least=1.8)
            yield from disk_rows(release, asked[:BATCH])


def user_rows() -> Iterator[Row]:
    """The same for keys of the data alone, where a user has 20 keys, so that noise is wide."""
    keys, counts = random_counts(MANY)
    asked = np.random.default_rng(4).permutation(keys)
    for mechanism, delta, most in LIMITS:
        release = sparsedp.release(
            (keys, counts), epsilon=1.0, delta=delta, mechanism=mechanism, nonzero=MANY, max_keys_per_user=20
        )
        yield _against_gather(f"{mechanism}: 10⁷ present keys, 20 per user", release, asked, most)


def _against_gather(name: str, release: sparsedp.Release, asked: npt.NDArray[np.int64], most: float) -> Row:
    release.lookup(asked[:1000])
    with threads(1):
        ours, theirs = side_by_side(partial(release.lookup, asked), gather(release.nbytes, len(asked)))
    each = {"ns per lookup": ours / len(asked) * 1e9, "ns per gather": theirs / len(asked) * 1e9}
    return Row(name, "gather of random cache lines", ours, theirs, most=most, figures=each)


def _in_threads(count: int, release: sparsedp.Release, asked: npt.NDArray[np.int64]) -> None:
    with threads(count):
        release.lookup(asked)


def disk_rows(release: sparsedp.Release, asked: npt.NDArray[np.int64]) -> Iterator[Row]:
    """Lookups in a mapped file, with and without its pages in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sparsedp"
        release.save(path)
        warm, memory = side_by_side(partial(sparsedp.load(path).lookup, asked), partial(release.lookup, asked))
        cold = []
        for _ in range(3):
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            cold.append(seconds(lambda: sparsedp.load(path).lookup(asked), 1))
    yield Row("10⁶ lookups in a file, warm", "the same in memory", warm, memory)
    yield Row("open a file that is not cached, 10⁶ lookups", "the same in memory", min(cold), memory)


def string_rows() -> Iterator[Row]:
    """10⁶ strings in an Arrow column against 10⁶ integers."""
    keys, counts = random_counts(BATCH)
    release = sparsedp.release((keys, counts), epsilon=1.0, nonzero=BATCH)
    texts = pa.array([f"https://example.org/p/{key % 10**8:08}" for key in keys.tolist()])
    named = sparsedp.release((texts, counts), epsilon=1.0, nonzero=BATCH)
    with threads(1):
        ours, theirs = side_by_side(partial(named.lookup, texts), partial(release.lookup, keys))
    yield Row("10⁶ strings of 30 letters (Arrow)", "10⁶ integers", ours, theirs, most=1.5)
    asked = [texts[0].as_py()] * 10**5
    single = seconds(lambda: list(map(named.__getitem__, asked))) / len(asked)
    yield Row("single release[text]", "half a microsecond", single, 5e-7, most=1.0)


def opening_rows() -> Iterator[Row]:
    """Opening a file of 1 GB against one of 1 MB."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for nonzero in (80_000, 88_000_000):
            path = paths[nonzero] = Path(folder) / f"{nonzero}.sparsedp"
            sparsedp.release({"a": 3}, epsilon=1.0, delta=1e-9, mechanism="retrieval", nonzero=nonzero).save(path)
        small, large = (paths[nonzero] for nonzero in sorted(paths))
        sizes = {"bytes, large": float(large.stat().st_size), "bytes, small": float(small.stat().st_size)}
        ours, theirs = side_by_side(partial(sparsedp.load, large), partial(sparsedp.load, small), 20)
    yield Row("opening a file of 1 GB", "of 1 MB", ours, theirs, most=3.0, figures=sizes)


def series_rows() -> Iterator[Row]:
    """Opening 1,000 files of a series against a second."""
    with tempfile.TemporaryDirectory() as folder:
        for day in np.arange("2024-01-01", SERIES, dtype="datetime64[D]"):
            sparsedp.release({"a": 3}, epsilon=1.0, nonzero=1000).save(Path(folder) / f"{day}.sparsedp")
        took = seconds(partial(sparsedp.series, f"{folder}/*.sparsedp"))
    yield Row("opening 1,000 files of a series", "a second", took, 1.0, most=1.0)
