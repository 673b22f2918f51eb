"""Builds against OpenDP, against a tenth of the data, and against a copy of the memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

import numpy as np
import opendp.prelude as dp

import sparsedp
from sparsedp.mechanisms.tight_alp import TightAlpPlan
from sparsedp.privacy.randomness import Randomness, flip

from .lookups import random_counts
from .measuring import Row, seconds, side_by_side

KEYS = 100_000
LOOKUPS = 1_000_000
PEER_LOOKUPS = 2_000

dp.enable_features("contrib")


def workload(keys: int) -> dict[str, int]:
    """Zipf-like counts of string keys."""
    counts = np.maximum(1, np.round(2 * keys / np.arange(1, keys + 1) ** 1.05)).astype(int)
    return {f"key {rank}": int(count) for rank, count in enumerate(counts)}


def alp_rows() -> Iterator[Row]:
    """`tight-alp` and `threshold-alp` against OpenDP's ALP."""
    counts = workload(KEYS)
    domain = dp.map_domain(dp.atom_domain(T="String"), dp.atom_domain(T="u32"))
    metric = dp.l01inf_distance(dp.absolute_distance(T="u32"))
    limit = sum(min(count, 100) for count in counts.values())
    peer = dp.m.make_alp_queryable(domain, metric, scale=1.0, total_limit=limit, value_limit=100)
    print("building OpenDP's ALP (some ten seconds)", file=sys.stderr)
    answers: list[object] = []
    peer_build = seconds(lambda: answers.append(peer(counts)), repeats=1)
    queryable = answers[0]
    some = list(counts)[:PEER_LOOKUPS]
    peer_lookup = seconds(lambda: [queryable(key) for key in some], repeats=1) / len(some)  # type: ignore[operator]

    strings = list(counts) * (LOOKUPS // KEYS)
    ours, paper = {"batch": 1000, "single": 50, "build": 100}, {"batch": 1, "single": 1, "build": 1}
    for mechanism, least in {"tight-alp": ours, "threshold-alp": paper}.items():
        build = partial(sparsedp.release, counts, epsilon=1.0, nonzero=KEYS, mechanism=mechanism)
        release = build()
        batch = seconds(partial(release.lookup, strings)) / LOOKUPS
        single = seconds(lambda release=release: [release[key] for key in some]) / len(some)  # type: ignore[misc]
        against = "OpenDP ALP"
        yield Row(f"{mechanism}: a lookup of 10⁶ str", against, batch, peer_lookup, least=least["batch"])
        yield Row(f"{mechanism}: single release[key]", against, single, peer_lookup, least=least["single"])
        yield Row(f"{mechanism}: build, 10⁵ str keys", against, seconds(build, 5), peer_build, least=least["build"])


def stability_rows() -> Iterator[Row]:
    """`stability` against OpenDP's thresholded Laplace noise."""
    counts = workload(10**6)
    domain = dp.map_domain(dp.atom_domain(T="String"), dp.atom_domain(T="i64"))
    metric = dp.l01inf_distance(dp.absolute_distance(T="i64"))
    peer = dp.m.make_laplace_threshold(domain, metric, scale=1.0, threshold=22)
    theirs = seconds(lambda: peer(counts), repeats=1)
    ours = seconds(partial(sparsedp.release, counts, epsilon=1.0, delta=1e-9, mechanism="stability"))
    yield Row("stability: build, 10⁶ str keys", "OpenDP laplace_threshold", ours, theirs, least=20)


def growth_rows() -> Iterator[Row]:
    """Ten times the keys should take ten times as long."""
    for mechanism, delta in (("tight-alp", 0.0), ("retrieval", 1e-9)):
        times = []
        for keys in (10**6, 10**7):
            build = partial(
                sparsedp.release, random_counts(keys), epsilon=1.0, delta=delta, mechanism=mechanism, nonzero=keys
            )
            times.append(seconds(build, 3 if keys == 10**6 else 2))
        name = f"{mechanism}: build of 10⁷ keys"
        yield Row(name, "ten builds of 10⁶", times[1], 10 * times[0], most=1.3, figures={"keys per s": 1e7 / times[1]})


def noise_rows() -> Iterator[Row]:
    """Noise for a whole embedding against one copy of its memory."""
    randomness = Randomness()
    bits = np.zeros(1 << 22, np.uint64)
    ours, theirs = side_by_side(lambda: flip(randomness, bits, 1, 2), bits.copy)
    yield Row("alp: flip 32 MB of bits, p = 1/4", "a copy of them", ours, theirs)
    words, _ = side_by_side(lambda: randomness.words(2 * len(bits)), bits.copy)
    yield Row("the keystream of these flips alone", "a copy of the bits", words, theirs)
    plan = sparsedp.plan(1.0, nonzero=10**6, mechanism="tight-alp")
    assert isinstance(plan, TightAlpPlan)
    blocks, partition = plan.blocks, plan.draw_partition(plan.problem, randomness)
    nothing = np.empty(0, np.uint64), np.empty(0, np.int64)
    lines = np.zeros(8 * blocks.blocks, np.uint64)
    ours, theirs = side_by_side(lambda: blocks.build(*nothing, randomness, partition), lines.copy)
    yield Row("tight-alp: noisy symbols of 10⁶ keys", "a copy of them", ours, theirs)
