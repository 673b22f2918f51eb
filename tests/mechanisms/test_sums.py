"""Sums of tight-alp are right on average, and their standard errors are those that repeated
releases show.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sparsedp
from sparsedp.mechanisms.tight_alp import TightAlpPlan
from sparsedp.privacy.bounds import geometric_variance
from sparsedp.privacy.randomness import reproducible_for_tests
from sparsedp.structures.decoding import poisson_load
from sparsedp.structures.unbiased import stored_moments, summands

KEYS = 20_000
COUNTS = np.maximum(1, np.round(2e4 / np.arange(1, KEYS + 1) ** 1.05)).astype(np.int64)
GROUP = 400
SETTINGS: list[dict[str, Any]] = [
    {},
    {"sensitivity": 20},
    {"sensitivity": 20, "delta": 1e-9},
    {"sensitivity": 5, "nonzero": KEYS // 10},
    {"nonzero": KEYS},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("first", [0, KEYS], ids=["present", "absent"])
def test_standard_errors_are_honest(settings: dict[str, Any], first: int) -> None:
    # 50 groups of 400 keys. Their errors, divided by the stated ones, have a mean square of about
    # 1, or less: any remaining bias counts in full. Sums of posterior means give 4 to 900.
    keys = np.arange(first, first + KEYS).reshape(-1, GROUP)
    truth = (COUNTS if first == 0 else np.zeros_like(COUNTS)).reshape(-1, GROUP).sum(axis=1)
    with reproducible_for_tests(11):
        release = sparsedp.release((np.arange(KEYS), COUNTS), epsilon=1.0, mechanism="tight-alp", **settings)
    sums = [release.sum(group) for group in keys]
    deviations = [(total - true) / error for (total, error), true in zip(sums, truth, strict=True)]
    assert 0.4 < np.mean(np.square(deviations)) < 1.5
    # Not by overstating the error: the noise scale alone has a standard error of √(2 · 400). Where
    # there are ten times as many keys as a release was made for, it errs by more.
    scale, most = settings.get("sensitivity", 1), 3.2 if settings.get("nonzero") != KEYS // 10 else 3.6
    assert np.median([error for _, error in sums]) < most * scale * math.sqrt(2 * GROUP)


def test_a_sum_of_large_counts_has_the_error_of_the_noise() -> None:
    release = sparsedp.release((np.arange(100), np.full(100, 10**6)), epsilon=1.0, nonzero=100)
    assert release.sum(np.arange(100)).standard_error == pytest.approx(math.sqrt(100 / (math.cosh(1) - 1)), rel=1e-4)


@pytest.mark.parametrize("threshold", [3, 12])
def test_the_moments_of_stored_values_are_sums_over_the_noise(threshold: int) -> None:
    counts, noise = np.arange(30), np.arange(-400, 401)
    law = (1 - math.exp(-0.3)) / (1 + math.exp(-0.3)) * np.exp(-0.3 * np.abs(noise))
    values = counts[:, None] + noise
    stored = (values >= threshold) & (counts[:, None] > 0)
    first, second = stored_moments(counts, 0.3, threshold)
    np.testing.assert_allclose(first, (values * stored) @ law, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(second, (values**2 * stored) @ law, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sensitivity", [1, 5, 20, 100])
def test_the_bias_that_is_left_is_told_for_every_count(sensitivity: int) -> None:
    # Mutants: no bias, the bias of zero for all counts, the largest one for all (which is 0.02 to
    # 0.08 noise scales).
    plan = sparsedp.plan(1.0, nonzero=KEYS, sensitivity=sensitivity, mechanism="tight-alp")
    assert isinstance(plan, TightAlpPlan)
    decoder, rate = plan.decoder, float(plan.stage.noise.rate)
    own = summands(decoder, rate, plan.stage.threshold)
    seen = decoder.unstored[:, None] * decoder.likelihood
    mean = seen @ own.values + stored_moments(decoder.grid, rate, plan.stage.threshold)[0]
    bias, told = np.abs(mean - decoder.grid) * rate, (seen @ own.biases + own.hidden) * rate
    mostly_unstored = decoder.unstored > 0.5
    assert (told >= bias - 0.006)[mostly_unstored].all()
    assert told[0] - own.hidden * rate < 1e-6
    assert own.hidden * rate < 0.01


@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-6])
def test_standard_errors_are_near_the_errors_of_crowded_releases(delta: float) -> None:
    # Users with 100 keys, and 130 000 keys far below the noise in a release for 5400: other keys
    # hide small counts, so that some bias is left. Sums of 2000 keys, present, absent or of one
    # count, exactly; some counts have less bias than their neighbours. Mutant: no bias is stated
    # (0.75).
    plan = sparsedp.plan(1.0, nonzero=5400, sensitivity=100, delta=delta, mechanism="tight-alp", bits_per_entry=48)
    assert isinstance(plan, TightAlpPlan)
    counts = np.sort(np.maximum(1, np.round(5000 / np.arange(1, 130_001) ** 0.8)))
    (level,), (cells,) = plan.blocks.ladder.levels, plan.blocks.cells
    above = len(counts) - np.searchsorted(counts, np.arange(level.height + 1), side="right")
    plan = replace(plan, loads=(poisson_load(cells, above.astype(np.float64)),))
    decoder, rate = plan.decoder, float(plan.stage.noise.rate)
    own = summands(decoder, rate, plan.stage.threshold)
    seen = decoder.unstored[:, None] * decoder.likelihood
    first, second = stored_moments(decoder.grid, rate, plan.stage.threshold)
    mean = seen @ own.values + first
    noise = (1 - decoder.unstored) * geometric_variance(rate)
    present = np.where(decoder.grid > 0, own.hidden, 0.0) * decoder.unstored
    told = seen @ own.variances + noise, seen @ own.biases + present
    true = seen @ own.values**2 + second - mean**2, mean - decoder.grid
    # Of single counts, and of all present keys.
    variances, biases, true_variances, true_biases = (
        np.append(part[decoder.grid * rate < 5], np.interp(counts, decoder.grid, part).mean())
        for part in (*told, *true)
    )
    ratios = np.sqrt((variances + 2000 * biases**2) / (true_variances + 2000 * true_biases**2))
    assert ratios.min() > 0.95
    assert ratios.max() < 1.3


def test_the_bias_of_counts_of_a_few_is_told_where_most_keys_have_them() -> None:
    # 18 000 keys of one to four below a noise scale of 20 hide each other. Mutant: only what patterns
    # say, which is a third too little; sums over all of these keys were missed in one case of eight.
    plan = sparsedp.plan(1.0, nonzero=2900, sensitivity=20, mechanism="tight-alp")
    assert isinstance(plan, TightAlpPlan)
    counts = np.repeat([1, 2, 3, 4, 6, 15, 60], [12_000, 4000, 1500, 800, 1400, 570, 500])
    (level,), (cells,) = plan.blocks.ladder.levels, plan.blocks.cells
    above = np.array([(counts > height).sum() for height in range(level.height + 1)], np.float64)
    decoder, rate = replace(plan, loads=(poisson_load(cells, above),)).decoder, float(plan.stage.noise.rate)
    own = summands(decoder, rate, plan.stage.threshold)
    seen = decoder.unstored[:, None] * decoder.likelihood
    mean = seen @ own.values + stored_moments(decoder.grid, rate, plan.stage.threshold)[0]
    bias, told = np.abs(mean - decoder.grid) * rate, (seen @ own.biases + own.hidden) * rate
    assert bias[1:5].max() > 0.01
    assert (told > bias - 1e-9)[decoder.grid * rate <= 1].all()
