"""What other libraries say about the same bounded counts: OpenDP's histograms with a threshold and
its ALP, PipelineDP.

Each takes counts to which a user adds at most 1 to each of at most `keys` keys, and gives an
estimate for each present key. What a library does not publish is 0; NaN is what was not asked,
because asking is slow. None has intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .judging import Floats, Integers, Questions

Library = Callable[[Questions, int, float, float, int], Floats]
MISSING = {
    "opendp": "OpenDP is not installed, so its rows are missing: pip install opendp",
    "pipeline_dp": "PipelineDP is not installed, so its rows are missing: pip install pipeline-dp",
}
_ASKED = 2000  # of each group by the ALP of OpenDP, which takes 0.1 ms for each


def libraries(delta: float) -> Iterator[tuple[str, str, Library]]:
    """The module, the name and the function of those that can work with this δ."""
    if delta == 0:
        yield "opendp", "OpenDP ALP", opendp_alp
        return
    yield "opendp", "OpenDP, Laplace", opendp_laplace
    yield "opendp", "OpenDP, Gaussian", opendp_gaussian
    yield "pipeline_dp", "PipelineDP, Laplace", pipelinedp_laplace
    yield "pipeline_dp", "PipelineDP, Gaussian", pipelinedp_gaussian


def opendp_alp(asked: Questions, keys: int, epsilon: float, delta: float, seed: int) -> Floats:
    """The paper's mechanism with its default parameters and the true total, which is more than one
    may know.
    """
    dp = _opendp()
    counts = asked.present
    domain = dp.map_domain(dp.atom_domain(T="u64"), dp.atom_domain(T="u32"))
    metric = dp.l01inf_distance(dp.absolute_distance(T="u32"))
    limits = {"total_limit": int(counts.sum()), "value_limit": int(counts.max())}
    measurement = dp.m.make_alp_queryable(domain, metric, scale=epsilon / keys, **limits)
    spent = measurement.map((keys, keys, 1))
    assert spent <= epsilon * (1 + 1e-9), spent  # its `scale` is a rate
    released = measurement(dict(enumerate(counts.tolist())))
    random = np.random.default_rng(seed)
    places = [random.permutation(group)[:_ASKED] for group in asked.groups.values()]
    estimates = np.full(len(asked.truth), np.nan)
    for place in np.unique(np.concatenate(places)).tolist():
        estimates[place] = released(place)
    return estimates


def opendp_laplace(asked: Questions, keys: int, epsilon: float, delta: float, seed: int) -> Floats:
    """Laplace noise and the least threshold for δ."""
    dp = _opendp()
    domain = dp.map_domain(dp.atom_domain(T="u64"), dp.atom_domain(T="i64"))
    metric = dp.l01inf_distance(dp.absolute_distance(T="i64"))

    def make(threshold: int) -> Any:
        return dp.m.make_laplace_threshold(domain, metric, scale=keys / epsilon, threshold=threshold)

    measurement = make(least(lambda threshold: make(threshold).map((keys, keys, 1))[1] <= delta))
    return published(asked, measurement(dict(enumerate(asked.present.tolist()))))


def opendp_gaussian(asked: Questions, keys: int, epsilon: float, delta: float, seed: int) -> Floats:
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
    return published(asked, measurement(dict(enumerate(asked.present.astype(np.float64).tolist()))))


def pipelinedp_laplace(asked: Questions, keys: int, epsilon: float, delta: float, seed: int) -> Floats:
    """Laplace noise, and keys selected by the noisy count itself, which costs no ε besides."""
    return _pipelinedp(asked, keys, epsilon, delta, "LAPLACE")


def pipelinedp_gaussian(asked: Questions, keys: int, epsilon: float, delta: float, seed: int) -> Floats:
    """The same with Gaussian noise."""
    return _pipelinedp(asked, keys, epsilon, delta, "GAUSSIAN")


def _pipelinedp(asked: Questions, keys: int, epsilon: float, delta: float, noise: str) -> Floats:
    import pipeline_dp

    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
        noise_kind=pipeline_dp.NoiseKind[noise],
        max_partitions_contributed=keys,
        max_contributions_per_partition=1,
        partition_selection_strategy=pipeline_dp.PartitionSelectionStrategy[f"{noise}_THRESHOLDING"],
        post_aggregation_thresholding=True,
    )
    columns = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: 0,
    )
    users, places = dealt(asked.present, keys)
    selected = engine.aggregate(list(zip(users.tolist(), places.tolist(), strict=True)), parameters, columns)
    accountant.compute_budgets()
    return published(asked, {place: figures.privacy_id_count for place, figures in selected})


def dealt(counts: Integers, keys: int) -> tuple[Integers, Integers]:
    """Rows (user, position of the key) with these counts: no user has a key twice, or more than
    `keys` keys.

    They are dealt out in turn, like cards. So a library that bounds contributions itself drops none
    of them, and starts from the same bounded counts as the others.
    """
    places = np.repeat(np.arange(len(counts)), counts)
    users = max(int(counts.max()), -(-len(places) // keys))
    return np.arange(len(places)) % users, places


def published(asked: Questions, values: dict[int, float]) -> Floats:
    """What is published, and 0 for every other key."""
    estimates = np.zeros(len(asked.truth))
    estimates[list(values.keys())] = list(values.values())
    return estimates


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
