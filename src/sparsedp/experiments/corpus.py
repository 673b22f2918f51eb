"""Real data: how often each pair of words follows each other in the source of Python's standard
library.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..privacy.randomness import reproducible_for_tests
from ..releasing.building import release
from .sections import Drawn, Grid, Section, duration, number, size
from .study import Study
from .table_one import colour_of
from .workloads import DELTA, RANGES, errors_by_range, seconds_of

EPSILON = 1.0
MECHANISMS = ("threshold", "threshold-alp", "stability", "tight-alp", "retrieval")
_WORD = re.compile(r"[a-z]+")
_QUICK_FILES = 250
_DRAWN = 1000


def pairs_of_words(quick: bool) -> Counter[str]:
    """The counts of adjacent lower-case words in all modules of the standard library."""
    library = Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in library.rglob("*.py") if "site-packages" not in path.parts)
    counts: Counter[str] = Counter()
    for path in files[: _QUICK_FILES if quick else None]:
        words = _WORD.findall(path.read_text(encoding="utf-8", errors="replace").lower())
        counts.update(f"{first} {second}" for first, second in pairwise(words))
    return counts


def run(study: Study) -> Section:
    """Errors of the mechanisms on the counts, and how often intervals cover."""
    found = study.pieces("Real data", {name: partial(measure, name, study.quick, study.seed) for name in MECHANISMS})
    points = study.pieces("Real data, a sample", {"points": partial(scatter, study.quick, study.seed)})["points"]
    ours = found["tight-alp"]
    frequent = ", ".join(f"“{text}” {count:,} ({estimate:,.0f})" for text, count, estimate in points["frequent"])
    return Section(
        "corpus",
        "Real data: pairs of words",
        f"All {ours['keys']:,} pairs of words that follow each other in the standard library of Python "
        f"{sys.version.split()[0]}, {ours['total']:,} in all; ε = 1 for one "
        f"occurrence, δ = {DELTA:g} for stability and retrieval. Absent pairs consist of words that occur, but not "
        "together.",
        {"mechanisms": found, "points": points, "python": sys.version.split()[0]},
        figures=[
            Drawn(
                "corpus-errors",
                f"On real counts tight-alp errs by {number(ours['errors']['1']['mean'], 2)} at count 1 and by "
                f"{number(ours['errors']['> 120']['mean'], 2)} above 120, in "
                f"{size(ours['nbytes'])} for {ours['keys']:,} keys; the paper's mechanism by "
                f"{number(found['threshold-alp']['errors']['1']['mean'], 2)} and "
                f"{number(found['threshold-alp']['errors']['> 120']['mean'], 2)}.",
                lambda f: _draw_errors(f, found),
            ),
            Drawn(
                "corpus-estimates",
                "Estimates follow the truth over four orders of magnitude; the 95 % intervals of tight-alp cover "
                f"{100 * ours['coverage']:.1f} % of all pairs. The most frequent "
                f"(estimate): {frequent}.",
                lambda f: _draw_points(f, points),
            ),
        ],
        grids=[_grid(found)],
    )


def _data(quick: bool, seed: int) -> tuple[Counter[str], list[str]]:
    counts = pairs_of_words(quick)
    words = sorted({word for pair in counts for word in pair.split()})
    random = np.random.default_rng(seed)
    made = (f"{words[a]} {words[b]}" for a, b in random.integers(0, len(words), (len(counts), 2)).tolist())
    return counts, [pair for pair in made if pair not in counts]


def measure(mechanism: str, quick: bool, seed: int) -> dict[str, Any]:
    """Size, times, errors and coverage of one mechanism on all pairs."""
    counts, absent = _data(quick, seed)
    delta = DELTA if mechanism in ("stability", "retrieval") else 0.0
    with reproducible_for_tests(seed):
        built = release(counts, epsilon=EPSILON, delta=delta, mechanism=mechanism)
    asked = [*counts, *absent]
    truth = np.array([*counts.values(), *[0] * len(absent)])
    low, high = built.interval(asked)
    return {
        "keys": len(counts),
        "total": counts.total(),
        "nbytes": built.nbytes,
        "lookup": seconds_of(lambda: built.lookup(asked)) / len(asked),
        "coverage": float(((low <= truth) & (truth <= high))[: len(counts)].mean()),
        "errors": errors_by_range(truth, built.lookup(asked)),
    }


def scatter(quick: bool, seed: int) -> dict[str, Any]:
    """A sample of true counts and their estimates by tight-alp, mostly frequent ones, and the three
    most frequent.
    """
    counts, _ = _data(quick, seed)
    with reproducible_for_tests(seed):
        built = release(counts, epsilon=EPSILON, mechanism="tight-alp")
    ranked = [pair for pair, _ in counts.most_common()]
    at = np.unique(np.geomspace(1, len(ranked), _DRAWN).astype(int)) - 1
    shown = [ranked[i] for i in at.tolist()]
    low, high = built.interval(shown)
    return {
        "truth": [counts[pair] for pair in shown],
        "estimates": built.lookup(shown).tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "frequent": [(pair, counts[pair], built[pair]) for pair in ranked[:3]],
    }


def _grid(found: Any) -> Grid:
    rows = []
    for name, one in found.items():
        errors = [one["errors"][label] for label in RANGES]
        cells = [f"{number(error['mean'])} ({number(error['largest'])})" for error in errors]
        coverage = f"{100 * one['coverage']:.1f} %"
        rows.append([name, number(8 * one["nbytes"] / one["keys"]), duration(one["lookup"]), coverage, *cells])
    note = "Errors: mean (largest). Coverage: of 95 % intervals, over the pairs that occur."
    return Grid("Pairs of words", ["mechanism", "bits/key", "lookup", "coverage", *RANGES], rows, note)


def _draw_errors(figure: Any, found: Any) -> None:
    axes = figure.subplots()
    places = np.arange(len(RANGES))
    for name, one in found.items():
        errors = [one["errors"][label] for label in RANGES]
        bars = [2 * error["standard_error"] for error in errors]
        means = [error["mean"] or np.nan for error in errors]  # a logarithmic axis has no zero
        axes.errorbar(places, means, bars, fmt="o-", label=name, color=colour_of(name), capsize=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.set_xticks(places, list(RANGES))
    axes.set_xlabel("true count")
    axes.set_ylabel("mean absolute error")
    axes.legend()


def _draw_points(figure: Any, points: Any) -> None:
    axes = figure.subplots()
    truth, estimates = np.array(points["truth"]), np.array(points["estimates"])
    spread = np.abs(np.array([points["low"], points["high"]]) - estimates)
    axes.errorbar(
        truth,
        np.maximum(estimates, 0.5),
        spread,
        fmt="o",
        markersize=2.5,
        lw=0.5,
        alpha=0.6,
        label="estimate, 95 % interval",
    )
    axes.plot([1, truth.max()], [1, truth.max()], color="C1", lw=1, label="the truth")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(0.4, None)
    axes.set_xlabel("true count")
    axes.set_ylabel("estimate")
    axes.legend()
