"""The data that the comparisons release, and what they measure: space, times, errors by range of
the true count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..planning.plans import plan as make_plan
from ..privacy.randomness import reproducible_for_tests
from ..releasing.building import release
from .simulation import Floats

Integers = npt.NDArray[np.int64]

RANGES = {
    "absent": (0, 0),
    "1": (1, 1),
    "2–5": (2, 5),
    "6–20": (6, 20),
    "21–60": (21, 60),
    "61–120": (61, 120),
    "> 120": (121, math.inf),
}
DELTA = 1e-9
LARGEST_RELEASE = 1 << 30
_SAMPLE = 50_000
_SLOW_SAMPLE = 200
_REPEATS = 3

# The mechanisms in the order of the paper's Table 1, then ours.
PURE = ("laplace", "threshold", "compact", "alp", "threshold-alp", "tight-alp")
APPROXIMATE = ("stability", "retrieval")


@dataclass(frozen=True)
class Workload:
    """`keys` random keys of a domain with Zipf-like counts up to `upper`, and as many random absent
    keys to look up.
    """

    keys: int
    domain: int
    upper: int = 1000

    def draw(self, seed: int) -> tuple[npt.NDArray[np.uint64], Integers, npt.NDArray[np.uint64]]:
        """The keys, their counts, and absent keys."""
        random = np.random.default_rng(seed)
        if self.domain <= 1 << 24:
            shuffled = random.permutation(self.domain).astype(np.uint64)
        else:
            drawn = random.integers(0, self.domain - 1, 2 * self.keys + 1000, np.uint64, endpoint=True)
            shuffled = random.permutation(np.unique(drawn))
        counts = np.round(2 * self.keys / np.arange(1, self.keys + 1) ** 1.05).clip(1, self.upper).astype(np.int64)
        return shuffled[: self.keys], counts, shuffled[self.keys : 2 * self.keys]


def measure(workload: Workload, mechanism: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Bits per key, seconds for the build and for a lookup, errors by range; or why it was not run."""
    parameters: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": DELTA if mechanism in APPROXIMATE else 0.0,
        "mechanism": mechanism,
        "nonzero": workload.keys,
        "domain": workload.domain,
        "upper": workload.upper,
    }
    try:
        planned = make_plan(**parameters).nbytes
    except ValueError as error:
        return {"refused": str(error)}
    if planned is not None and planned > LARGEST_RELEASE:
        return {"refused": f"would take {planned / 1e9:.3g} GB", "bits": 8 * planned / workload.keys}
    if mechanism == "compact" and workload.keys > 1000:
        return {"refused": "takes time quadratic in the keys to build"}
    keys, counts, absent = workload.draw(seed)
    with reproducible_for_tests(seed):
        start = time.perf_counter()
        built = release((keys, counts), **parameters)
        build = time.perf_counter() - start
    slow = mechanism == "compact"
    asked, truth = sample(keys, counts, absent, _SLOW_SAMPLE if slow else _SAMPLE)
    estimates = built.lookup(asked)
    return {
        "bits": 8 * built.nbytes / workload.keys,
        "build": build,
        "lookup": seconds_of(lambda: built.lookup(asked), 1 if slow else _REPEATS) / len(asked),
        "epsilon": built.epsilon,
        "errors": errors_by_range(truth, estimates),
    }


def sample(keys: Any, counts: Integers, absent: Any, most: int) -> tuple[Any, Integers]:
    """Up to `most` of the keys, evenly over all counts, and as many absent keys, with their counts."""
    at = np.linspace(0, len(keys) - 1, min(most, len(keys))).astype(np.int64)
    none = absent[: len(at)]
    return np.concatenate([keys[at], none]), np.concatenate([counts[at], np.zeros(len(none), np.int64)])


def seconds_of(work: Callable[[], object], repeats: int = _REPEATS) -> float:
    """The best of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def errors_by_range(truth: Integers, estimates: Floats) -> dict[str, dict[str, float]]:
    """Mean absolute error, its standard error, and the largest, for each range of true counts that
    occurs.
    """
    sizes = np.abs(estimates - truth)
    found = {}
    for name, (low, high) in RANGES.items():
        own = sizes[(truth >= low) & (truth <= high)]
        if len(own):
            spread = float(own.std() / math.sqrt(len(own)))
            found[name] = {"mean": float(own.mean()), "standard_error": spread, "largest": float(own.max())}
    return found


def gather_seconds() -> float:
    """Seconds of one random read in 256 MB, by NumPy in one thread: the physical limit of a lookup."""
    memory = np.zeros(1 << 25, np.int64)
    places = np.random.default_rng(0).integers(0, len(memory), 1 << 20)
    return seconds_of(lambda: memory[places]) / len(places)
