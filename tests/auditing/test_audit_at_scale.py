"""Statistics at scale, for `make audit`: samplers at 10⁸ draws, coverage, predictions, audits with
many runs.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import sparsedp
from sparsedp.auditing import audit
from sparsedp.privacy.laws import Geometric, TwoSided
from sparsedp.privacy.randomness import Randomness, flip, geometric, two_sided
from statistics_helpers import LEVEL, chi_square_p

pytestmark = pytest.mark.audit
DRAWS, AT_ONCE = 10**8, 10**7


@pytest.mark.parametrize("rate", ["0.05", "1", "3"])
def test_noise_follows_its_law(rate: str) -> None:
    law = TwoSided.with_rate(Decimal(rate))
    reach = int(18 / float(rate)) + 1
    counts = np.zeros(2 * reach + 2)
    for _ in range(DRAWS // AT_ONCE):
        values = two_sided(Randomness(), law, AT_ONCE)
        inside = values[np.abs(values) <= reach] + reach
        counts[:-1] += np.bincount(inside, minlength=2 * reach + 1)
        counts[-1] += AT_ONCE - len(inside)
    expected = np.array([float(law.probability(j)) * DRAWS for j in range(-reach, reach + 1)])
    assert chi_square_p(counts, np.append(expected, DRAWS - expected.sum())) > LEVEL


@pytest.mark.parametrize("rate", ["0.3", "2"])
def test_geometric_variables_follow_their_law(rate: str) -> None:
    law = Geometric.with_rate(Decimal(rate))
    cells = int(18 / float(rate)) + 2
    counts = np.zeros(cells + 1)
    for _ in range(DRAWS // AT_ONCE):
        values = np.minimum(geometric(Randomness(), law, AT_ONCE), cells).astype(np.int64)
        counts += np.bincount(values, minlength=cells + 1)
    expected = np.array([float(law.probability(n)) * DRAWS for n in range(cells)])
    assert chi_square_p(counts, np.append(expected, DRAWS - expected.sum())) > LEVEL


def test_flips_are_fair_and_independent() -> None:
    array = np.zeros(DRAWS // 64, np.uint64)
    flip(Randomness(), array, 13108, 16)
    p, bits = 13108 / 65536, 64 * len(array)
    assert abs(np.bitwise_count(array).sum() - bits * p) < 5.5 * np.sqrt(bits * p * (1 - p))
    pairs = np.bitwise_count(array & array << np.uint64(1)).sum()
    assert abs(pairs - len(array) * 63 * p * p) < 5.5 * np.sqrt(len(array) * 63 * p * p)


@pytest.mark.parametrize(
    "mechanism", ["laplace", "threshold", "alp", "threshold-alp", "tight-alp", "stability", "retrieval"]
)
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_no_mechanism_is_refuted(mechanism: str, epsilon: float) -> None:
    result = audit(mechanism, epsilon, runs=500_000)
    assert not result.refuted, str(result)


@pytest.mark.parametrize("options", [{}, {"delta": 1e-9}, {"epsilon": 0.2}, {"epsilon": 4.0}, {"bits_per_entry": 60.0}])
def test_intervals_cover_and_predictions_hold(options: dict[str, float]) -> None:
    values = (0, 1, 2, 5, 10, 20, 40, 80, 200)
    background = np.maximum(1, np.round(2e5 / np.arange(1, 100_001) ** 1.05)).astype(np.int64)
    probes = np.repeat(values, 100_000 // len(values))
    counts = np.concatenate([background, probes])
    asked = np.arange(len(background), len(counts))
    errors, covered = np.zeros(len(probes)), np.zeros(len(probes))
    mechanism = "tight-alp"
    for _ in range(10):
        settings: dict[str, Any] = {"epsilon": 1.0, "nonzero": len(counts), "mechanism": mechanism, **options}
        release = sparsedp.release((np.arange(len(counts)), counts), **settings)
        low, high = release.interval(asked)
        errors += np.abs(release.lookup(asked) - probes) / 10
        covered += ((low <= probes) & (probes <= high)) / 10
    for value in values:
        mine = probes == value
        predicted = release.plan.error(value).mean_absolute
        assert abs(errors[mine].mean() / predicted - 1) < 0.05
        assert covered[mine].mean() > 0.945
