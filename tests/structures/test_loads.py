"""Loads that symbols explain best, near a prior where they do not tell."""

from __future__ import annotations

import numpy as np
import pytest

from sparsedp.structures.decoding import Floats, fit_load, poisson_load
from sparsedp.structures.ladder import Ladder
from sparsedp.structures.loads import likely_load

SHARP = Ladder.climb([1.0] * 15, (4,)).levels[0]
BLURRED = Ladder.climb([0.05] * 200, (6,)).levels[0]  # noise of 20
FLAT = np.ones(BLURRED.height + 1)


def surprise(law: Floats, seen: Floats, load: Floats) -> float:
    """By how much the symbols are less likely than under the law of their own frequencies."""
    used = seen > 0
    return float((seen[used] * np.log(seen[used] / seen.sum() / (load @ law)[used])).sum())


@pytest.mark.parametrize("weight", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("cells", [200, 10**7])
def test_nothing_explains_symbols_better(weight: float, cells: int) -> None:
    # The objective is concave, so a load is the best one if its gradient is the same for all heights.
    # Mutants: an end after a fixed number of steps, or before the weight has fallen.
    keys = np.maximum(0.0, 3000 / (1.0 + np.arange(BLURRED.height + 1)) - 15)
    true = poisson_load(10_000, keys)
    seen = np.random.default_rng(4).multinomial(cells, true @ BLURRED.law).astype(np.float64)
    found = likely_load(BLURRED.law, seen, true, weight)
    expected = 0.999 * true / true.sum() + 0.001 / len(true)
    gradient = BLURRED.law @ (seen / (found @ BLURRED.law)) + weight * expected / found
    np.testing.assert_allclose(gradient, cells + weight, rtol=1e-6)
    assert found.sum() == pytest.approx(1)


def test_expectation_maximisation_was_far_from_it() -> None:
    # 300 rounds from a flat start miss by 3000 what sums of many absent keys add up.
    load = poisson_load(3_500_000, 56_000 / (1.0 + np.arange(BLURRED.height + 1)) ** 2)
    seen = np.round(load @ BLURRED.law * 3_500_000)
    assert surprise(BLURRED.law, seen, likely_load(BLURRED.law, seen, FLAT, 1e-6)) < 0.5
    assert surprise(BLURRED.law, seen, fit_load(BLURRED, seen.astype(np.uint64))) > 5


def test_sharp_symbols_overrule_the_prior() -> None:
    true = np.array([0.85, 0.05, 0.03, 0.02, 0.01] + [0.04 / 11] * 11)
    seen = np.random.default_rng(1).multinomial(2_000_000, true @ SHARP.law).astype(np.float64)
    for prior in (np.ones(16), np.eye(16)[3]):
        found = likely_load(SHARP.law, seen, prior, 30.0)
        assert np.abs(np.cumsum(found) - np.cumsum(true)).max() < 0.004


def test_where_symbols_do_not_tell_loads_are_those_of_the_prior() -> None:
    # Many keys of one, or a few of four: 30 000 cells with noise of 20 show hardly any difference.
    # Mutant: a flat start, after which both are the same.
    heights = np.arange(BLURRED.height + 1)
    many = poisson_load(30_000, np.where(heights < 1, 60_000.0, 0.0))
    few = poisson_load(30_000, np.where(heights < 4, 7_500.0, 0.0))
    seen = np.random.default_rng(2).multinomial(30_000, many @ BLURRED.law).astype(np.float64)
    free = []
    for prior in (many, few):
        found = likely_load(BLURRED.law, seen, prior, 10.0)
        assert surprise(BLURRED.law, seen, found) < surprise(BLURRED.law, seen, many)
        free.append(found[0])
    assert abs(free[0] - many[0]) < 0.05
    assert free[1] > 0.6


def test_symbols_that_never_occur_do_no_harm() -> None:
    found = likely_load(SHARP.law, np.eye(16)[0] * 50, np.ones(16), 1.0)
    assert found[0] > 0.9
    assert (found > 0).all()
