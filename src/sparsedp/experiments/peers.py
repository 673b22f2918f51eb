"""Other libraries on the same data: OpenDP's ALP and thresholded Laplace noise, diffprivlib, and
plain NumPy.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

from ..errors import MissingDependencyError
from ..privacy.randomness import reproducible_for_tests
from ..releasing.building import release
from .sections import Drawn, Grid, Section, duration, number
from .study import Study
from .workloads import DELTA, RANGES, Workload, errors_by_range, sample, seconds_of

EPSILON = 1.0
SPARSE = {"quick": Workload(10**4, 2**64), "full": Workload(10**5, 2**64)}
DENSE = {"quick": Workload(10**4, 10**5), "full": Workload(10**4, 10**6)}
_ASKED = 2000
OURS = ("tight-alp", "retrieval", "stability", "threshold-alp")

CANNOT = {
    "OpenDP ALP": "no files, batches or intervals; the size of a release is not visible",
    "OpenDP laplace_threshold": "keys below the threshold are lost: no estimate for them",
    "diffprivlib Geometric": "one value at a time, and every key of the domain needs one: impossible in 2⁶⁴",
    "NumPy Laplace": "every key of the domain needs a counter: impossible in 2⁶⁴; floating-point noise is not "
    "private (Mironov 2012)",
}


def run(study: Study) -> Section:
    """Sparse keys in 2⁶⁴, and a domain small enough for a counter per key."""
    mode = "quick" if study.quick else "full"
    sparse, dense = SPARSE[mode], DENSE[mode]
    tasks: dict[str, Any] = {f"sparsedp {name}": partial(measure_ours, sparse, name, study.seed) for name in OURS}
    tasks["OpenDP ALP"] = partial(measure_opendp_alp, sparse, study.seed)
    tasks["OpenDP laplace_threshold"] = partial(measure_opendp_threshold, sparse, study.seed)
    dense_tasks: dict[str, Any] = {
        "sparsedp laplace": partial(measure_ours, dense, "laplace", study.seed),
        "diffprivlib Geometric": partial(measure_diffprivlib, dense, study.seed),
        "NumPy Laplace": partial(measure_numpy, dense, study.seed),
    }
    found = study.pieces("Peers", tasks)
    counters = study.pieces("Peers with a counter for every key", dense_tasks)
    versions = {"numpy": np.__version__, **{name: _version(name) for name in ("opendp", "diffprivlib")}}
    alp, ours = found["OpenDP ALP"], found["sparsedp tight-alp"]
    if "refused" in alp:
        finding = f"{alp['refused']}."
    else:
        errors = [_mean(one) for one in (alp, ours)]
        finding = (
            f"OpenDP's ALP has {errors[0] / errors[1]:.1f} times the error of tight-alp on these counts, takes "
            f"{alp['build'] / ours['build']:.0f} times as long to build, "
            f"and takes {alp['lookup'] / ours['lookup']:,.0f} times as long for a lookup."
        )
    return Section(
        "peers",
        "Other libraries on the same data",
        f"ε = 1, {sparse.keys:,} keys in 2⁶⁴ (first table) and {dense.keys:,} keys in a domain of {dense.domain:,} "
        f"(second); δ = {DELTA:g} for stability, retrieval "
        f"and laplace_threshold. OpenDP {versions['opendp']}, diffprivlib {versions['diffprivlib']}, NumPy "
        f"{versions['numpy']}. "
        "Errors are means (largest) over 2 000 keys of all counts and 2 000 absent ones.",
        {"sparse": found, "dense": counters, "versions": versions, "cannot": CANNOT},
        figures=[Drawn("peers", finding, lambda f: _draw(f, found))],
        grids=[
            _grid("Sparse: keys in 2⁶⁴", found),
            _grid(f"Dense: keys below {dense.domain:,}", counters),
            Grid("What they cannot do", ["library", "cannot"], [[name, text] for name, text in CANNOT.items()]),
        ],
    )


def missing() -> list[str]:
    """The other libraries that are not installed."""
    return [name for name in ("opendp", "diffprivlib") if importlib.util.find_spec(name) is None]


def _version(package: str) -> str:
    return metadata.version(package) if importlib.util.find_spec(package) else "(not installed)"


def _mean(found: Any) -> float:
    return float(np.mean([error["mean"] for error in found["errors"].values()]))


def _opendp() -> Any:
    try:
        import opendp.prelude as dp
    except ImportError:
        raise MissingDependencyError("OpenDP is not installed") from None
    dp.enable_features("contrib")
    return dp


def _measured(build: float, ask: Callable[[], Any], truth: Any, bits: float | None) -> dict[str, Any]:
    estimates = np.asarray(ask(), np.float64)
    return {
        "build": build,
        "lookup": seconds_of(ask) / len(truth),
        "errors": errors_by_range(truth, estimates),
        "bits": bits,
    }


def measure_ours(workload: Workload, mechanism: str, seed: int) -> dict[str, Any]:
    """One of our mechanisms."""
    keys, counts, absent = workload.draw(seed)
    asked, truth = sample(keys, counts, absent, _ASKED)
    delta = DELTA if mechanism in ("retrieval", "stability") else 0.0
    with reproducible_for_tests(seed):
        start = time.perf_counter()
        built = release(
            (keys, counts),
            epsilon=EPSILON,
            delta=delta,
            mechanism=mechanism,
            nonzero=workload.keys,
            domain=workload.domain,
            upper=workload.upper,
        )
        build = time.perf_counter() - start
    return _measured(build, lambda: built.lookup(asked), truth, 8 * built.nbytes / workload.keys)


def measure_opendp_alp(workload: Workload, seed: int) -> dict[str, Any]:
    """OpenDP's ALP queryable, with its default parameters and scale 1/ε."""

    def make(dp: Any, domain: Any, metric: Any, total: int) -> Any:
        limit = workload.upper
        return dp.m.make_alp_queryable(domain, metric, scale=1 / EPSILON, total_limit=total, value_limit=limit)

    return _measure_opendp(workload, seed, "u32", make, lambda queryable, key: queryable(key), lambda _: None)


def measure_opendp_threshold(workload: Workload, seed: int) -> dict[str, Any]:
    """OpenDP's laplace_threshold, with its smallest threshold for δ."""

    def make(dp: Any, domain: Any, metric: Any, total: int) -> Any:
        for threshold in range(1, 1000):
            measurement = dp.m.make_laplace_threshold(domain, metric, scale=1 / EPSILON, threshold=threshold)
            if measurement.map((1, 1, 1))[1] <= DELTA:
                break
        return measurement

    def bits(stored: Any) -> float:
        return 128 * len(stored) / workload.keys

    return _measure_opendp(workload, seed, "i64", make, lambda stored, key: stored.get(key, 0), bits)


def _measure_opendp(
    workload: Workload,
    seed: int,
    numbers: str,
    make: Callable[[Any, Any, Any, int], Any],
    ask: Callable[[Any, int], Any],
    bits: Callable[[Any], float | None],
) -> dict[str, Any]:
    try:
        dp = _opendp()
    except MissingDependencyError as error:
        return {"refused": str(error)}
    keys, counts, absent = workload.draw(seed)
    asked, truth = sample(keys, counts, absent, _ASKED)
    domain = dp.map_domain(dp.atom_domain(T="u64"), dp.atom_domain(T=numbers))
    measurement = make(dp, domain, dp.l01inf_distance(dp.absolute_distance(T=numbers)), int(counts.sum()))
    data = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    start = time.perf_counter()
    released = measurement(data)
    build = time.perf_counter() - start
    places = asked.tolist()
    return _measured(build, lambda: [ask(released, key) for key in places], truth, bits(released))


def measure_diffprivlib(workload: Workload, seed: int) -> dict[str, Any]:
    """Geometric noise on every key of the domain, one call each."""
    try:
        from diffprivlib.mechanisms import Geometric
    except ImportError:
        return {"refused": "diffprivlib is not installed"}
    mechanism = Geometric(epsilon=EPSILON, sensitivity=1, random_state=seed)
    return _measure_dense(
        workload, seed, lambda dense: np.array([mechanism.randomise(count) for count in dense.tolist()])
    )


def measure_numpy(workload: Workload, seed: int) -> dict[str, Any]:
    """NumPy's Laplace noise on every key of the domain."""
    random = np.random.default_rng(seed)
    return _measure_dense(workload, seed, lambda dense: dense + random.laplace(0, 1 / EPSILON, len(dense)))


def _measure_dense(workload: Workload, seed: int, add_noise: Callable[[Any], Any]) -> dict[str, Any]:
    keys, counts, absent = workload.draw(seed)
    asked, truth = sample(keys, counts, absent, _ASKED)
    dense = np.zeros(workload.domain, np.int64)
    dense[keys] = counts
    start = time.perf_counter()
    noisy = np.clip(add_noise(dense), 0, workload.upper)
    build = time.perf_counter() - start
    return _measured(build, lambda: noisy[asked], truth, 64 * workload.domain / workload.keys)


def _grid(title: str, found: Any) -> Grid:
    rows = []
    for name, one in found.items():
        if "refused" in one:
            rows.append([name, one["refused"]])
            continue
        errors = [one["errors"].get(label) for label in RANGES]
        cells = ["–" if e is None else f"{number(e['mean'])} ({number(e['largest'])})" for e in errors]
        rows.append([name, number(one["bits"]), duration(one["build"]), duration(one["lookup"]), *cells])
    return Grid(title, ["library", "bits/key", "build", "lookup", *RANGES], rows)


def _draw(figure: Any, found: Any) -> None:
    axes = figure.subplots()
    places = np.arange(len(RANGES))
    for name, one in found.items():
        if "refused" in one:
            continue
        means = [one["errors"].get(label, {"mean": math.nan})["mean"] for label in RANGES]
        bars = [2 * one["errors"].get(label, {"standard_error": 0})["standard_error"] for label in RANGES]
        axes.errorbar(places, means, bars, fmt="o--" if "OpenDP" in name else "o-", label=name, capsize=2)
    axes.set_yscale("log")
    axes.set_ylim(0.1, 100)
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.set_xticks(places, list(RANGES))
    axes.set_xlabel("true count")
    axes.set_ylabel("mean absolute error")
    axes.legend(fontsize="small")
