"""`python -m benchmarks.users`: errors, intervals and sizes when a person has many keys, next to
other libraries.

Workload: the identifiers of the installed Python packages (`sparsedp.experiments.identifiers`),
counted so that a file adds 1 to at most m identifiers. ε = 1 for all that a file does; sizes are
estimated, as in the plain command. Our randomness is reproducible, for tests only; that of the
other libraries is not. A table on stdout, or `--json`, or `--markdown FILE` to bring the table of a
page up to date.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sparsedp
from sparsedp.experiments import identifiers
from sparsedp.experiments.judging import (
    Figures,
    Floats,
    Questions,
    ask,
    coverage,
    errors,
    means,
    stated_to_seen,
)
from sparsedp.experiments.references import Dense
from sparsedp.privacy.contributions import BoundedCounts
from sparsedp.privacy.randomness import reproducible_for_tests

from .other_libraries import MISSING, libraries
from .users_tables import Block, Row, markdown, replace, text

EPSILON = 1.0
BOUNDS = (1, 5, 20, 50, 100, 500)  # max_keys_per_user
DELTAS = (0.0, 1e-9, 1e-6)
RELEASES = 10
CONFIDENCE = 0.95
ABSENT = 100_000
SUMS = 100  # groups of keys whose sums are judged, in each release
FITTED = "fitted"  # the prior that is measured beside the default, where there is one


def mechanisms(delta: float) -> list[str]:
    """The mechanisms by name for this δ; the default comes first."""
    return ["auto", "tight-alp", *(["retrieval", "stability"] if delta else ["threshold"])]


def ours(counts: BoundedCounts, asked: Questions, delta: float, mechanism: str, releases: int) -> Iterator[Row]:
    """A row for the default answers, and one for the fitted prior where the mechanism has it."""
    dense = Dense(counts.contribution.keys, EPSILON, delta).errors(asked)
    present = asked.keys.take(pa.array(asked.groups["all"]))
    runs: dict[str, list[tuple[Figures, Figures]]] = {}
    bits, deviations, named, taken = [], [], [], set()
    for seed in range(releases):
        with reproducible_for_tests(seed):
            release = sparsedp.release(counts, epsilon=EPSILON, delta=delta, mechanism=mechanism)
        bits.append(8 * release.nbytes / len(counts))
        deviations.append(sum_deviations(release, asked, seed))
        taken.add(f"{release.mechanism}{', gaussian' if release.plan.problem.gaussian else ''}")
        named.append(len(np.intersect1d(release.stored().keys, release.key_space.ids(present))))
        for prior in priors(release) if mechanism != "auto" else ("",):
            options: dict[str, Any] = {"prior": prior} if prior else {}
            figures = errors(asked, release.lookup(asked.keys, **options))
            covered = coverage(asked, *release.interval(asked.keys, CONFIDENCE, **options))
            runs.setdefault(prior, []).append((figures, covered))
    chosen = " or ".join(sorted(taken))
    for prior, found in runs.items():
        name = f"auto: {chosen}" if mechanism == "auto" else f"{mechanism}, {prior}" if prior else mechanism
        error, covered = (means([run[at] for run in found]) for at in (0, 1))
        ratio = {group: error[group] / dense[group] for group in error}
        seen = [one for one in deviations if one is not None] if not prior else []  # sums have no prior
        sums = stated_to_seen(np.concatenate(seen)) if seen else None
        names = float(np.mean(named)) if delta and not prior else None  # only with δ may keys be named
        yield Row(delta, name, error, ratio, covered, float(np.mean(bits)), sums, names)


def priors(release: sparsedp.Release) -> tuple[str, ...]:
    """The default prior, which needs no name, and the fitted one where the reader knows it."""
    known = release.plan.reader(release.sides[0]).priors
    return ("", FITTED) if FITTED in known and known[0] != FITTED else ("",)


def sum_deviations(release: sparsedp.Release, asked: Questions, seed: int) -> Floats | None:
    """Errors of the sums over random groups of present keys, by their stated standard errors; None
    without sums.
    """
    places = np.random.default_rng(seed).permutation(asked.groups["all"])
    found = []
    for group in np.array_split(places, min(SUMS, len(places))):
        try:
            total, standard_error = release.sum(asked.keys.take(pa.array(group)))
        except sparsedp.ParameterError:
            return None
        found.append((total - int(asked.truth[group].sum())) / standard_error)
    return np.array(found)


def limits(asked: Questions, keys: int, delta: float) -> Iterator[Row]:
    """What there is to compare with: dense noise, names by a sparse histogram, and always 0."""
    dense = Dense(keys, EPSILON, delta)
    best = dense.errors(asked)
    yield Row(delta, dense.name, best, dict.fromkeys(best, 1.0), named=dense.names(asked.present) if delta else None)
    nothing = errors(asked, np.zeros(len(asked.truth)))
    yield Row(delta, "0 for every key", nothing, {group: nothing[group] / best[group] for group in nothing})


def theirs(asked: Questions, keys: int, delta: float, missing: set[str]) -> Iterator[Row]:
    """The other libraries, once each: their answers over many keys vary little from one release to
    another.
    """
    dense = Dense(keys, EPSILON, delta).errors(asked)
    for module, name, library in libraries(delta):
        if module in missing:
            continue
        say(f"  {name} …")
        answers = library(asked, keys, EPSILON, delta, 0)
        found, named = errors(asked, answers), float(np.count_nonzero(answers)) if delta else None
        yield Row(delta, name, found, {group: found[group] / dense[group] for group in found}, named=named)


def measure(
    corpus: identifiers.Corpus, bounds: Sequence[int], deltas: Sequence[float], releases: int, missing: set[str]
) -> Iterator[Block]:
    """All rows, for one bound on the keys of a user after the other."""
    for keys in bounds:
        say(f"m = {keys}: counting …")
        counts = sparsedp.count(str(corpus.path), key="key", user="user", max_keys_per_user=keys, max_per_key=1)
        asked = ask(counts, ABSENT)
        rows: list[Row] = []
        for delta in deltas:
            rows += limits(asked, keys, delta)
            for mechanism in mechanisms(delta):
                say(f"  δ = {delta:g}, {mechanism} …")
                rows += ours(counts, asked, delta, mechanism, releases)
            rows += theirs(asked, keys, delta, missing)
        sizes = {name: len(places) for name, places in asked.groups.items()}
        yield Block(keys, len(counts), int(counts.units.sum()), int(counts.units.max()), sizes, releases, rows)


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def corpus_in(folder: Path, places: Sequence[Path]) -> identifiers.Corpus:
    """Written into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    say(f"reading the identifiers of {', '.join(map(str, places))} …")
    return identifiers.write(places, folder / identifiers.NAME)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything, and print it."""
    parser = argparse.ArgumentParser(prog="benchmarks.users", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="put the tables into this page instead")
    parser.add_argument("--releases", type=int, default=RELEASES, help="releases to average over (%(default)s)")
    parser.add_argument("--keys-per-user", type=int, nargs="+", metavar="M", default=list(BOUNDS))
    parser.add_argument("--quick", action="store_true", help="one release, m = 5, no δ = 1e-9")
    parser.add_argument("--ours", action="store_true", help="no other libraries")
    parser.add_argument("--folder", type=Path, help="write the Parquet file there, and leave it (a temporary folder)")
    parser.add_argument("--corpus", type=Path, nargs="+", metavar="FOLDER", help="read the Python files of these")
    chosen = parser.parse_args(arguments)
    bounds, deltas, releases = chosen.keys_per_user, list(DELTAS), max(1, chosen.releases)
    if chosen.quick:
        bounds, deltas, releases = [5], [0.0, 1e-6], 1
    missing = {name for name in MISSING if chosen.ours or importlib.util.find_spec(name) is None}
    notes = [] if chosen.ours else [MISSING[name] for name in sorted(missing)]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        corpus = corpus_in(chosen.folder or Path(temporary), chosen.corpus or identifiers.folders())
        blocks = list(measure(corpus, bounds, deltas, releases, missing))
    took = time.perf_counter() - start
    say(f"{took:.0f} seconds")
    about = (
        f"{corpus.users:,} files of Python {platform.python_version()} and its packages, {corpus.rows:,} identifiers, "
        f"ε = {EPSILON:g}, sizes estimated, mean over {releases} releases of ours, measured in {took:.0f} seconds"
    )
    if chosen.json:
        report = {"about": about, "notes": notes, "seconds": took, "blocks": [asdict(block) for block in blocks]}
        print(json.dumps(report, indent=2, ensure_ascii=False))
    elif chosen.markdown:
        replace(chosen.markdown, markdown(about, blocks))
        say("\n".join([*notes, f"written to {chosen.markdown}"]))
    else:
        print(text(about, blocks))
        print("".join(f"\n{note}" for note in notes))


if __name__ == "__main__":
    main()
