"""`python -m benchmarks.suggestions`: how good the bounds are that `suggest` chooses.

For each workload, the *total error* of a release is the sum over all pairs of a user and a key of the
error of that key's answer, against the count without any bound; so a frequent key weighs as much as
it occurs. A suggestion is made several times, with its share of ε, and its bound is judged with what
is left; the best fixed bound has all of ε. Our randomness is reproducible, for tests only.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import sparsedp
from sparsedp.counting.suggesting import DEFAULT_SHARE, GRID
from sparsedp.experiments import identifiers
from sparsedp.privacy.randomness import reproducible_for_tests

EPSILON, DELTAS = 1.0, (0.0, 1e-9)
TARGET = 1.15
SUGGESTIONS, RELEASES = 5, 6

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Workload:
    """Distinct pairs of a user and a key, the pairs of a user in random order."""

    name: str
    users: Integers
    keys: Integers

    @property
    def ranks(self) -> Integers:
        """The position of each pair among those of its user."""
        starts = np.flatnonzero(np.append(True, self.users[1:] != self.users[:-1]))
        sizes = np.diff(np.append(starts, len(self.users)))
        return np.arange(len(self.users)) - np.repeat(starts, sizes)

    def write(self, path: Path) -> None:
        """The pairs as a table."""
        table = {"user": pa.array(self.users), "key": pa.array([f"k{key}" for key in self.keys.tolist()])}
        pq.write_table(pa.table(table), path)


@dataclass(frozen=True)
class Judged:
    """A workload at one δ."""

    workload: str
    delta: float
    best: int
    best_error: float
    suggested: tuple[int, ...]
    ratios: tuple[float, ...]  # of the errors of the suggested bounds to the best

    @property
    def mean(self) -> float:
        """The ratio of the error that is to be expected of a suggestion."""
        return float(np.mean(self.ratios))


def shuffled(name: str, users: Integers, keys: Integers) -> Workload:
    """The distinct pairs."""
    pairs = np.unique(users * np.int64(1 << 32) + keys)
    users, keys = pairs >> 32, pairs & ((1 << 32) - 1)
    order = np.lexsort((np.random.default_rng(1).random(len(users)), users))
    return Workload(name, users[order], keys[order])


def workloads(folder: Path) -> Iterator[Workload]:
    """Real ones, and two that are made up: users with similar numbers of keys, and with very
    different ones.
    """
    corpus = identifiers.write(identifiers.folders(), folder / identifiers.NAME)
    table = pq.read_table(corpus.path)
    yield shuffled("identifiers", *(_codes(table.column(name)) for name in ("user", "key")))
    random = np.random.default_rng(7)
    for name, sizes in {
        "similar users": np.maximum(1, random.lognormal(3.0, 0.5, 20_000)).astype(np.int64),
        "uneven users": np.minimum(5_000, np.maximum(1, random.lognormal(2.5, 1.0, 20_000))).astype(np.int64),
    }.items():
        rows = np.repeat(np.arange(len(sizes)), sizes)
        yield shuffled(name, rows, np.minimum(random.zipf(1.2, len(rows)), 10**6))


def _codes(column: pa.ChunkedArray) -> Integers:
    codes: Integers = column.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return codes.astype(np.int64)


def total_error(workload: Workload, ranks: Integers, bound: int, epsilon: float, delta: float) -> float:
    """The mean error over all pairs, of several releases with this bound."""
    true = np.bincount(workload.keys)
    counts = np.bincount(workload.keys[ranks < bound], minlength=len(true))
    present, counted = np.flatnonzero(true), np.flatnonzero(counts)
    found = []
    for seed in range(RELEASES):
        with reproducible_for_tests(seed):
            release = sparsedp.release(
                (counted, counts[counted]), epsilon=epsilon, delta=delta, max_keys_per_user=bound, key_type="integer"
            )
        errors = np.abs(release.lookup(present) - true[present])
        found.append(float(errors @ true[present] / true.sum()))
    return float(np.mean(found))


def judge(workload: Workload, delta: float, folder: Path) -> Judged:
    """Suggestions, and the errors of all bounds."""
    path, ranks = folder / "pairs.parquet", workload.ranks
    workload.write(path)
    fixed = {bound: total_error(workload, ranks, bound, EPSILON, delta) for bound in GRID}
    best = min(fixed, key=fixed.__getitem__)
    suggested, ratios = [], []
    for seed in range(SUGGESTIONS):
        with reproducible_for_tests(seed):
            own = sparsedp.suggest(str(path), key="key", user="user", epsilon=EPSILON, delta=delta)
        left = total_error(workload, ranks, own.max_keys_per_user, own.left, delta)
        suggested.append(own.max_keys_per_user)
        ratios.append(left / fixed[best])
    return Judged(workload.name, delta, best, fixed[best], tuple(suggested), tuple(ratios))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = [judge(workload, delta, Path(folder)) for workload in workloads(Path(folder)) for delta in DELTAS]
    if asked.json:
        print(json.dumps([asdict(result) | {"mean": result.mean} for result in results], indent=2))
    else:
        print(f"ε = {EPSILON:g}, of which {DEFAULT_SHARE:.0%} is spent on each suggestion")
        for one in results:
            reached = "reached" if one.mean <= TARGET else "MISSED"
            print(
                f"{one.workload:>14}, δ = {one.delta:g}: best {one.best} (error {one.best_error:.3g}), suggested "
                f"{', '.join(map(str, one.suggested))}: {one.mean:.2f} times that in the mean, "
                f"{max(one.ratios):.2f} at most ({reached})"
            )
    return int(any(result.mean > TARGET for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
