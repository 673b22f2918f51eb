"""OpenDP: Laplace or Gaussian noise and a threshold, and its version of the paper's ALP.

It takes counts that are bounded already. Under pure privacy only the ALP works for keys that nobody
listed before; it answers for any key, and names none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

PACKAGE = "opendp"

Counts = dict[int, int]


def prepare(data: dict[str, Any]) -> Counts:
    """Counts by positions."""
    _opendp()
    return dict(enumerate(data["counts"]))


def release(way: str, counts: Counts, keys: int, epsilon: float, delta: float) -> Any:
    """What is published: numbers for some keys, or something to ask."""
    return {"ALP": alp, "Laplace": laplace, "Gaussian": gaussian}[way](counts, keys, epsilon, delta)


def answer(way: str, released: Any, data: dict[str, Any]) -> dict[str, Any]:
    """The ALP is asked for a sample, because each answer takes 0.1 ms."""
    if way == "ALP":
        return {"estimates": {place: released(place) for place in data["asked"]}}
    return {"estimates": released, "named": list(released)}


def alp(counts: Counts, keys: int, epsilon: float, delta: float) -> Any:
    """The paper's mechanism with its default parameters and the true total, which is more than one
    may know.
    """
    dp = _opendp()
    domain = dp.map_domain(dp.atom_domain(T="u64"), dp.atom_domain(T="u32"))
    metric = dp.l01inf_distance(dp.absolute_distance(T="u32"))
    limits = {"total_limit": sum(counts.values()), "value_limit": max(counts.values())}
    measurement = dp.m.make_alp_queryable(domain, metric, scale=epsilon / keys, **limits)
    spent = measurement.map((keys, keys, 1))
    assert spent <= epsilon * (1 + 1e-9), spent  # its `scale` is a rate
    return measurement(counts)


def laplace(counts: Counts, keys: int, epsilon: float, delta: float) -> dict[int, float]:
    """Laplace noise and the least threshold for δ."""
    dp = _opendp()
    domain = dp.map_domain(dp.atom_domain(T="u64"), dp.atom_domain(T="i64"))
    metric = dp.l01inf_distance(dp.absolute_distance(T="i64"))

    def make(threshold: int) -> Any:
        return dp.m.make_laplace_threshold(domain, metric, scale=keys / epsilon, threshold=threshold)

    measurement = make(least(lambda threshold: make(threshold).map((keys, keys, 1))[1] <= delta))
    return dict(measurement(counts))


def gaussian(counts: Counts, keys: int, epsilon: float, delta: float) -> dict[int, float]:
    """Gaussian noise, half of δ for it and half for the threshold."""
    dp = _opendp()
    domain = dp.map_domain(dp.atom_domain(T="u64"), dp.atom_domain(T="f64", nan=False))
    metric = dp.l02inf_distance(dp.absolute_distance(T="f64"))
    distance = (keys, math.sqrt(keys), 1.0)

    def make(hundredths: int, threshold: int) -> Any:
        measurement = dp.m.make_gaussian_threshold(domain, metric, scale=hundredths / 100, threshold=float(threshold))
        return dp.c.make_zCDP_to_approxDP(measurement)

    # From where its arithmetic does not overflow on: with a standard deviation of √m/ε, δ is far
    # from small.
    start = math.ceil(100 * math.sqrt(keys) / epsilon)
    scale = least(lambda tried: make(tried, 1).map(distance)[0].epsilon(delta=delta / 2) <= epsilon, start)
    measurement = make(scale, least(lambda threshold: make(scale, threshold).map(distance)[1] <= delta / 2))
    return dict(measurement({place: float(count) for place, count in counts.items()}))


def least(enough: Callable[[int], bool], start: int = 1) -> int:
    """The least integer from `start` on that is enough, if larger ones are enough too."""
    low, high = start - 1, start
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp
