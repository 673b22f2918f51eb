"""`make bench`: builds and lookups against OpenDP on the same data. A table on stdout, or `--json`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import opendp.prelude as dp

import sparsedp

KEYS = 100_000
LOOKUPS = 1_000_000
PEER_LOOKUPS = 2_000

dp.enable_features("contrib")


@dataclass(frozen=True)
class Row:
    """One comparison: our seconds, the peer's seconds for the same amount of work, and their ratio."""

    name: str
    ours: float
    peer: str
    theirs: float

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The best of a few runs: what the machine can do when it is left alone."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def workload() -> dict[str, int]:
    """Zipf-like counts: max(1, round(2·10⁵ / rank^1.05))."""
    counts = np.maximum(1, np.round(2e5 / np.arange(1, KEYS + 1) ** 1.05)).astype(int)
    return {f"key {rank}": int(count) for rank, count in enumerate(counts)}


def alp_rows(counts: dict[str, int]) -> list[Row]:
    """`threshold-alp` and `tight-alp` against OpenDP's ALP."""
    print("building OpenDP's ALP (some ten seconds) …", file=sys.stderr)
    domain = dp.map_domain(dp.atom_domain(T="String"), dp.atom_domain(T="u32"))
    metric = dp.l01inf_distance(dp.absolute_distance(T="u32"))
    limit = sum(min(count, 100) for count in counts.values())
    peer = dp.m.make_alp_queryable(domain, metric, scale=1.0, total_limit=limit, value_limit=100)
    start = time.perf_counter()
    queryable = peer(counts)
    peer_build = time.perf_counter() - start
    some = list(counts)[:PEER_LOOKUPS]
    peer_lookup = seconds(lambda: [queryable(key) for key in some], repeats=1) / len(some)

    rows = []
    strings = list(counts) * (LOOKUPS // KEYS)
    integers = np.arange(LOOKUPS)
    for mechanism in ("threshold-alp", "tight-alp"):
        build = partial(sparsedp.release, counts, epsilon=1.0, nonzero=KEYS, mechanism=mechanism)
        release = build()
        batch = seconds(partial(release.lookup, strings)) / LOOKUPS
        numbers = seconds(partial(release.lookup, integers)) / LOOKUPS
        single = seconds(partial(_one_by_one, release, some)) / len(some)
        rows += [
            Row(f"{mechanism}: build, 10⁵ str keys", seconds(build), "OpenDP ALP", peer_build),
            Row(f"{mechanism}: one of 10⁶ lookups, str", batch, "OpenDP ALP", peer_lookup),
            Row(f"{mechanism}: one of 10⁶ lookups, int", numbers, "OpenDP ALP", peer_lookup),
            Row(f"{mechanism}: single release[key]", single, "OpenDP ALP", peer_lookup),
        ]
    return rows


def _one_by_one(release: sparsedp.Release, keys: list[str]) -> list[float]:
    return [release[key] for key in keys]


def threshold_rows(counts: dict[str, int]) -> list[Row]:
    """`stability` against OpenDP's thresholded Laplace noise."""
    domain = dp.map_domain(dp.atom_domain(T="String"), dp.atom_domain(T="i64"))
    metric = dp.l01inf_distance(dp.absolute_distance(T="i64"))
    peer = dp.m.make_laplace_threshold(domain, metric, scale=1.0, threshold=22)
    theirs = seconds(lambda: peer(counts), repeats=1)
    ours = seconds(lambda: sparsedp.release(counts, epsilon=1.0, delta=1e-9, mechanism="stability"))
    return [Row("build stability, 10⁵ str keys", ours, "OpenDP laplace_threshold", theirs)]


def main() -> None:
    """Run every comparison."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    counts = workload()
    rows = [*alp_rows(counts), *threshold_rows(counts)]
    if arguments.json:
        print(json.dumps([{**asdict(row), "ratio": row.ratio} for row in rows], indent=2))
        return
    print(f"{'':42}{'ours':>12}  {'peer':26}{'theirs':>12}{'ratio':>10}")
    for row in rows:
        print(f"{row.name:42}{row.ours:10.3g} s  {row.peer:26}{row.theirs:10.3g} s{row.ratio:9.0f}×")


if __name__ == "__main__":
    main()
