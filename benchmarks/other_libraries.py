"""What other libraries say about the same bounded counts: OpenDP's histograms with a threshold and
its ALP, PipelineDP.

Each takes counts to which a user adds at most 1 to each of at most `keys` keys, and gives an
estimate for each present key. What a library does not publish is 0; NaN is what was not asked,
because asking is slow. None has intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sparsedp.experiments.drivers import with_opendp, with_pipelinedp
from sparsedp.experiments.judging import Floats, Questions, dealt, published, sampled

Library = Callable[[Questions, int, float, float, int], Floats]
MISSING = {
    "opendp": "OpenDP is not installed, so its rows are missing: pip install opendp",
    "pipeline_dp": "PipelineDP is not installed, so its rows are missing: pip install pipeline-dp",
}


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
    """The paper's mechanism, asked for a sample of the keys."""
    released = with_opendp.alp(_by_position(asked), keys, epsilon, delta)
    estimates = np.full(len(asked.truth), np.nan)
    for place in sampled(asked, seed):
        estimates[place] = released(place)
    return estimates


def opendp_laplace(asked: Questions, keys: int, epsilon: float, delta: float, seed: int) -> Floats:
    """Laplace noise and a threshold."""
    return published(asked, with_opendp.laplace(_by_position(asked), keys, epsilon, delta))


def opendp_gaussian(asked: Questions, keys: int, epsilon: float, delta: float, seed: int) -> Floats:
    """Gaussian noise and a threshold."""
    return published(asked, with_opendp.gaussian(_by_position(asked), keys, epsilon, delta))


def pipelinedp_laplace(asked: Questions, keys: int, epsilon: float, delta: float, seed: int) -> Floats:
    """Laplace noise, and keys selected by it."""
    return _pipelinedp("Laplace", asked, keys, epsilon, delta)


def pipelinedp_gaussian(asked: Questions, keys: int, epsilon: float, delta: float, seed: int) -> Floats:
    """The same with Gaussian noise."""
    return _pipelinedp("Gaussian", asked, keys, epsilon, delta)


def _pipelinedp(noise: str, asked: Questions, keys: int, epsilon: float, delta: float) -> Floats:
    users, places = dealt(asked.present, keys)
    rows = list(zip(users.tolist(), places.tolist(), strict=True))
    return published(asked, with_pipelinedp.release(noise, rows, keys, epsilon, delta))


def _by_position(asked: Questions) -> dict[int, int]:
    return dict(enumerate(asked.present.tolist()))
