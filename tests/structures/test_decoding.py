"""Decoding: likelihoods, loads, estimates and intervals are what they say."""

from __future__ import annotations

import numpy as np
import pytest

from sparsedp.errors import ParameterError
from sparsedp.structures.decoding import Decoder, fit_load, poisson_load
from sparsedp.structures.ladder import Ladder

LADDER = Ladder.climb([1.0] * 20, (2, 2, 4))
GRID = np.arange(24)


def decoder(collision: float = 0.1) -> Decoder:
    loads = []
    for level in LADDER.levels:
        load = np.full(level.height + 1, collision / level.height)
        load[0] = 1 - collision
        loads.append(load)
    unstored = np.where(GRID < 18, 1.0, 0.5 ** (GRID - 17.0))
    fitted = 1 / (1.0 + GRID)
    return Decoder(LADDER, tuple(loads), GRID, unstored, fitted / fitted.sum())


def test_the_likelihood_of_every_count_is_a_law() -> None:
    likelihood = decoder().likelihood
    assert likelihood.shape == (len(GRID), 1 << LADDER.bits)
    assert np.allclose(likelihood.sum(axis=1), 1)


def test_without_other_keys_a_pattern_has_the_product_of_its_symbols() -> None:
    likelihood = decoder(collision=0.0).likelihood
    for count in (0, 2, 5, 19):
        for pattern in (0, 7, 200, 255):
            symbols = (pattern & 3, pattern >> 2 & 3, pattern >> 4)
            heights = [min(max(count - level.start, 0), level.height) for level in LADDER.levels]
            chances = [v.law[h, s] for v, h, s in zip(LADDER.levels, heights, symbols, strict=True)]
            assert likelihood[count, pattern] == pytest.approx(np.prod(chances))


def test_a_taller_key_in_the_cell_hides_the_count() -> None:
    level = LADDER.levels[0]
    full = np.zeros(level.height + 1)
    full[-1] = 1.0
    empty = [np.eye(1, v.height + 1)[0] for v in LADDER.levels[1:]]
    hidden = Decoder(LADDER, (full, *empty), GRID, np.ones(len(GRID)), np.ones(len(GRID)))
    assert np.allclose(hidden.likelihood[0], hidden.likelihood[3])


def test_the_median_minimises_the_expected_absolute_error() -> None:
    d = decoder()
    posterior = (d.likelihood * d.unstored[:, None]).T
    losses = posterior @ np.abs(GRID[:, None] - GRID)  # pattern × candidate estimate
    chosen = d.estimates("median", "flat").astype(int)
    assert np.allclose(losses[np.arange(len(chosen)), chosen], losses.min(axis=1))


def test_the_mean_is_the_posterior_mean() -> None:
    d = decoder()
    for prior, weight in (("flat", np.ones(len(GRID))), ("fitted", d.fitted)):
        posterior = (d.likelihood * (d.unstored * weight)[:, None]).T
        wanted = posterior @ GRID / posterior.sum(axis=1)
        assert np.allclose(d.estimates("mean", prior), wanted)


def test_the_papers_estimator_averages_all_maximisers() -> None:
    d = decoder(collision=0.0)
    weighted = (d.likelihood * d.unstored[:, None]).T
    for pattern, estimate in enumerate(d.estimates("paper", "flat")):
        best = GRID[np.isclose(weighted[pattern], weighted[pattern].max(), rtol=1e-9, atol=0)]
        assert estimate == pytest.approx(best.mean())


@pytest.mark.parametrize("failure", [0.5, 0.1, 0.05, 0.001])
@pytest.mark.parametrize("collision", [0.0, 0.1, 0.4])
def test_flat_intervals_cover_every_count(failure: float, collision: float) -> None:
    # Not only on average, but for each count, by summing over all patterns. What is stored is above
    # all patterns, so it is part of the half of failures on that side.
    d = decoder(collision)
    low, high = d.intervals(failure)
    assert (low <= high).all()
    for count, law, unstored in zip(GRID, d.likelihood, d.unstored, strict=True):
        missed = unstored * law[(count < low) | (high < count)].sum()
        assert missed <= failure / 2 + max(0.0, failure / 2 - (1 - unstored)) + 1e-12


def test_intervals_are_not_wider_than_needed() -> None:
    d = decoder(collision=0.0)
    low, high = d.intervals(0.05)
    width = d.likelihood[8] @ (high - low)
    assert width < 8  # two-sided geometric noise alone needs 6


def test_loads_are_read_off_the_symbols() -> None:
    level = Ladder.climb([1.0] * 15, (4,)).levels[0]
    true = np.array([0.85, 0.05, 0.03, 0.02, 0.01] + [0.04 / 11] * 11)
    symbols = np.random.default_rng(1).multinomial(2_000_000, true @ level.law).astype(np.uint64)
    fitted = fit_load(level, symbols)
    assert fitted.sum() == pytest.approx(1)
    assert abs(fitted[0] - true[0]) < 0.003
    assert np.abs(np.cumsum(fitted) - np.cumsum(true)).max() < 0.004


def test_a_cell_has_no_higher_key_as_often_as_poisson_says() -> None:
    above = np.array([5000.0, 2000.0, 700.0, 0.0])
    load = poisson_load(40_000, above)
    assert np.allclose(np.cumsum(load), np.exp(-above / 40_000))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ParameterError, match="estimator must be one of median, mean, paper, got 'mode'"):
        decoder().estimates("mode", "flat")
    with pytest.raises(ParameterError, match="prior must be 'flat' or 'fitted', got 'sharp'"):
        decoder().estimates("median", "sharp")
