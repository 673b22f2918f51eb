"""`python -m benchmarks.priors`: the errors of each prior of `lookup`, over all keys and over the
frequent ones.

Workloads: that of `benchmarks.users`, with a δ and sizes estimated; and counts that are all alike,
far from the tails that the prior "fitted" was made for. Our randomness is reproducible, for tests
only. Markdown on stdout, for "Which prior" in docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

import sparsedp
from sparsedp.experiments import identifiers
from sparsedp.experiments.judging import Figures, Floats, Integers, Questions, ask, errors, means, questions
from sparsedp.experiments.references import Dense
from sparsedp.privacy.contributions import BoundedCounts
from sparsedp.privacy.randomness import reproducible_for_tests

from .users import corpus_in, say
from .users_tables import number

EPSILON, DELTA = 1.0, 1e-9
BOUNDS = (1, 5, 20, 50, 100)  # max_keys_per_user
RELEASES, ABSENT = 3, 1000
GROUPS = {"all": "over all keys", "frequent": "over the 500 most frequent keys"}
DENSE, TABLE = "dense noise", "table alone"
PRIORS = {"tight-alp": ("flat", "balanced", "fitted"), "retrieval": ("flat", "fitted")}
ALIKE, ALIKE_COUNT, ALIKE_BOUND = 20_000, 60, 20


def measure(
    counts: BoundedCounts | tuple[pa.Array, Integers], asked: Questions, bound: int, releases: int
) -> dict[str, Figures]:
    """The mean errors of every prior, of the table without the array, and of dense noise."""
    runs: dict[str, list[Figures]] = {}
    stated = None if isinstance(counts, BoundedCounts) else bound
    for seed in range(releases):
        for mechanism, priors in PRIORS.items():
            with reproducible_for_tests(seed):
                release = sparsedp.release(
                    counts, epsilon=EPSILON, delta=DELTA, mechanism=mechanism, max_keys_per_user=stated
                )
            if mechanism == "tight-alp":
                runs.setdefault(TABLE, []).append(errors(asked, stored_or_nothing(release, asked)))
            for prior in priors:
                found = errors(asked, release.lookup(asked.keys, prior=prior))
                runs.setdefault(f"`{mechanism}`, {prior}", []).append(found)
    return {DENSE: Dense(bound, EPSILON, DELTA).errors(asked), **{name: means(run) for name, run in runs.items()}}


def stored_or_nothing(release: sparsedp.Release, asked: Questions) -> Floats:
    """The stored value of each key, or 0."""
    stored, ids = release.stored(), release.key_space.ids(asked.keys)
    values = dict(zip(stored.keys.tolist(), stored.values.tolist(), strict=True))
    return np.array([max(0.0, values.get(one, 0.0)) for one in ids.tolist()])


def alike() -> tuple[tuple[pa.Array, Integers], Questions]:
    """Keys that all have the same count."""
    names, counts = pa.array([f"k{at}" for at in range(ALIKE + ABSENT)]), np.full(ALIKE, ALIKE_COUNT)
    return (names[:ALIKE], counts), questions(names, counts, ABSENT)


def table(group: str, rows: dict[str, dict[str, Figures]]) -> Iterator[str]:
    """A table of one group of keys: a line for each workload."""
    names = list(next(iter(rows.values())))
    yield f"| {GROUPS[group]}: m | " + " | ".join(names) + " |"
    yield "|---" + "|--:" * len(names) + "|"
    for head, row in rows.items():
        yield f"| {head} | " + " | ".join(number(row[name][group]) for name in names) + " |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything, and print it."""
    parser = argparse.ArgumentParser(prog="benchmarks.priors", description=__doc__)
    parser.add_argument("--releases", type=int, default=RELEASES, help="releases to average over (%(default)s)")
    parser.add_argument("--keys-per-user", type=int, nargs="+", metavar="M", default=list(BOUNDS))
    parser.add_argument("--corpus", type=Path, nargs="+", metavar="FOLDER", help="read the Python files of these")
    chosen = parser.parse_args(arguments)
    rows: dict[str, dict[str, Figures]] = {}
    with tempfile.TemporaryDirectory() as folder:
        corpus = corpus_in(Path(folder), chosen.corpus or identifiers.folders())
        for bound in chosen.keys_per_user:
            say(f"m = {bound} …")
            counts = sparsedp.count(str(corpus.path), key="key", user="user", max_keys_per_user=bound, max_per_key=1)
            rows[str(bound)] = measure(counts, ask(counts, ABSENT), bound, chosen.releases)
    print(f"{corpus.users:,} files, ε = {EPSILON:g}, δ = {DELTA:g}, sizes estimated, {chosen.releases} releases")
    for group in GROUPS:
        print("", *table(group, rows), sep="\n")
    say("counts that are alike …")
    pairs, asked = alike()
    print(f"\n{ALIKE:,} keys that all have the count {ALIKE_COUNT}:\n")
    print(*table("all", {str(ALIKE_BOUND): measure(pairs, asked, ALIKE_BOUND, chosen.releases)}), sep="\n")


if __name__ == "__main__":
    main()
