"""Table 1, measured: every mechanism on the same data, in a domain small enough for a counter per
key, and in 2^64.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..privacy.bounds import geometric_mean_error
from .sections import Drawn, Grid, Section, duration, number
from .study import Study
from .workloads import APPROXIMATE, DELTA, PURE, RANGES, Workload, gather_seconds, measure

MECHANISMS = (*PURE, *APPROXIMATE)
DOMAINS = {"10⁶": 10**6, "2⁶⁴": 2**64}
KEYS = (10**3, 10**4, 10**5, 10**6)
EPSILONS = (0.1, 1.0, 4.0)


def run(study: Study) -> Section:
    """One table for each domain and ε."""
    all_keys, epsilons = (KEYS[:2], (1.0,)) if study.quick else (KEYS, EPSILONS)
    settings = {
        f"{mechanism}, k = {keys}, domain {domain}, ε = {epsilon:g}": (mechanism, keys, domain, epsilon)
        for domain in DOMAINS
        for epsilon in epsilons
        for keys in all_keys
        for mechanism in MECHANISMS
    }
    tasks: dict[str, Any] = {
        name: partial(measure, Workload(keys, DOMAINS[domain]), mechanism, epsilon, study.seed)
        for name, (mechanism, keys, domain, epsilon) in settings.items()
    }
    found = study.pieces("Table 1", tasks | {"gather": gather_seconds})
    gather = found.pop("gather")
    shown = all_keys[-2] if not study.quick else all_keys[-1]
    main = {mechanism: found[f"{mechanism}, k = {shown}, domain 2⁶⁴, ε = 1"] for mechanism in MECHANISMS}
    grids = [
        _grid(
            domain,
            epsilon,
            [name for name, s in settings.items() if s[2:] == (domain, epsilon)],
            found,
            settings,
            gather,
        )
        for domain in DOMAINS
        for epsilon in epsilons
    ]
    ours, paper = (_overall(main[name]) for name in ("tight-alp", "threshold-alp"))
    return Section(
        "table-one",
        "Table 1, measured",
        f"Counts max(1, round(2k/rank^1.05)), at most u = 1000, on k random keys; δ = {DELTA:g} for stability and "
        "retrieval, otherwise 0. Lookups in one batch, "
        "with all cores; errors are mean (largest) of |estimate − count|, over a sample of up to 50 000 keys of all "
        "counts and as many absent ones. "
        f"A random read of memory takes {duration(gather)} here.",
        {"settings": found, "gather_seconds": gather},
        figures=[
            Drawn(
                "table-one",
                f"With k = {shown:,} keys and ε = 1, tight-alp has {ours:.2g} times the error of noise on every key "
                "at counts up to 60, where the paper's "
                f"mechanism (threshold-alp) has {paper:.2g}; thresholds alone lose the small counts.",
                lambda f: _draw(f, main),
            )
        ],
        grids=grids,
    )


def _overall(found: Any) -> float:
    """The mean error over ranges up to 60, in units of that of noise on every key."""
    means = [found["errors"][name]["mean"] for name in ("1", "2–5", "6–20", "21–60") if name in found["errors"]]
    return float(np.mean(means)) / geometric_mean_error(1.0)


def _grid(domain: str, epsilon: float, names: list[str], found: Any, settings: Any, gather: float) -> Grid:
    header = ["k", "mechanism", "bits/key", "build", "lookup", "× read", *RANGES]
    rows = []
    for name in names:
        mechanism, keys, *_ = settings[name]
        one = found[name]
        if "refused" in one:
            rows.append([f"{keys:,}", mechanism, number(one.get("bits")), one["refused"]])
            continue
        errors = [one["errors"].get(label) for label in RANGES]
        cells = ["–" if e is None else f"{number(e['mean'])} ({number(e['largest'])})" for e in errors]
        ratio = number(one["lookup"] / gather, 2)
        times = [duration(one["build"]), duration(one["lookup"]), ratio]
        rows.append([f"{keys:,}", mechanism, number(one["bits"]), *times, *cells])
    return Grid(f"Domain {domain}, ε = {epsilon:g}", header, rows)


def _draw(figure: Any, main: Any) -> None:
    axes = figure.subplots()
    places = np.arange(len(RANGES))
    possible = {name: one for name, one in main.items() if "errors" in one}
    width = 0.8 / len(possible)
    for at, (name, one) in enumerate(possible.items()):
        errors = [one["errors"].get(label, {"mean": 0, "standard_error": 0}) for label in RANGES]
        heights = [error["mean"] for error in errors]
        bars = [2 * error["standard_error"] for error in errors]
        offset = (at - (len(possible) - 1) / 2) * width
        axes.bar(places + offset, heights, width, yerr=bars, label=name, color=colour_of(name), error_kw={"lw": 0.8})
    axes.set_yscale("log")
    axes.set_ylim(0.05, 100)
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.set_xticks(places, list(RANGES))
    axes.set_xlabel("true count")
    axes.set_ylabel("mean absolute error")
    axes.legend(ncols=3, fontsize="small")


def colour_of(mechanism: str) -> str:
    """The colour that a mechanism has in every figure."""
    return f"C{MECHANISMS.index(mechanism)}"
