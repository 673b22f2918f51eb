"""Sums over very many keys: a bias of a hundredth of a noise scale for each would be many standard
errors of the whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import sparsedp
from sparsedp.privacy.randomness import reproducible_for_tests

Counts = npt.NDArray[np.int64]

MANY = 1_000_000
ZIPF = np.maximum(1, np.round(5e3 / np.arange(1, 60_001))).astype(np.int64)
BELL = np.maximum(1, np.random.default_rng(1).poisson(40, 100_000))


def deviations(counts: Counts, keys: Counts, truth: float, releases: int, **settings: Any) -> list[tuple[float, float]]:
    """Error and standard error of the sum over keys, in releases of these counts."""
    found = []
    for seed in range(releases):
        with reproducible_for_tests(70 + seed):
            release = sparsedp.release((np.arange(len(counts)), counts), epsilon=1.0, mechanism="tight-alp", **settings)
        total, error = release.sum(keys)
        found.append((total - truth, error))
    return found


@pytest.mark.parametrize(
    ("settings", "noise"),
    [({}, 4.5), ({"max_keys_per_user": 20, "nonzero": 600_000}, 27.0)],
    ids=["two levels", "a generous bound"],
)
def test_a_million_absent_keys_add_up_to_nothing(settings: dict[str, Any], noise: float) -> None:
    # The mean of four deviations is beyond 2.5 less than once in 10^6. It was 9 where the symbols of
    # a key were taken for independent, and -3.7 where loads were those of 300 rounds of expectation
    # maximisation from a flat start.
    counts = ZIPF if settings else BELL
    keys = np.arange(len(counts), len(counts) + MANY)
    found = deviations(counts, keys, 0.0, 4, **settings)
    assert abs(np.mean([error / stated for error, stated in found])) < 2.5
    assert max(stated for _, stated in found) < 1.15 * noise * 1000  # what each adds, in all


@pytest.mark.parametrize(("settings", "least"), [({}, 0.95), ({"max_keys_per_user": 5}, 0.85)], ids=str)
def test_rare_keys_do_not_lose_their_counts(settings: dict[str, Any], least: float) -> None:
    # 56 667 keys of one, which are most of a release; with noise of 5, two in five cells are free. A
    # fifth of them was lost there, with a stated error of a tenth.
    rare = np.flatnonzero(ZIPF == 1)
    found = deviations(ZIPF, rare, len(rare), 4, **settings)
    assert least < 1 + np.mean([error for error, _ in found]) / len(rare) < 1.05
    assert abs(np.mean([error / stated for error, stated in found])) < 1.5


@pytest.mark.parametrize("keys", ["rare", "all", "some"])
def test_what_is_hidden_is_stated(keys: str) -> None:
    # With noise of 20 and one in eight cells free, symbols do not tell whether a key has a count of
    # one. So nearly all of these counts may be lost, and are; less than half of that was stated.
    # Absent keys are not hidden, so at most as many as there are in the release.
    own = {"rare": np.flatnonzero(ZIPF == 1), "all": np.arange(len(ZIPF)), "some": np.arange(0, len(ZIPF), 5)}[keys]
    found = deviations(ZIPF, own, float(ZIPF[own].sum()), 4, max_keys_per_user=20)
    ratios = [error / stated for error, stated in found]
    assert -1.2 < np.mean(ratios) < 0.5
    assert min(ratios) > -2
    assert max(stated for _, stated in found) < 1.3 * len(own) + 35 * len(own) ** 0.5


def test_absent_keys_are_not_hidden() -> None:
    # As above, but ten million keys. Mutant: what may be lost of one key is stated of each.
    keys = np.arange(len(ZIPF), len(ZIPF) + 10 * MANY)
    ((error, stated),) = deviations(ZIPF, keys, 0.0, 1, max_keys_per_user=20)
    assert abs(error) < 3 * stated
    assert stated < 250_000


@pytest.mark.filterwarnings("ignore::sparsedp.OverloadWarning")
@pytest.mark.parametrize("settings", [{}, {"max_keys_per_user": 20}], ids=str)
def test_an_overfull_release_tells_that_it_has_lost_nearly_all(settings: dict[str, Any]) -> None:
    # A hundred times the announced keys: what a cell shows is the largest count in it. Mutants: no
    # more keys are hidden than were announced, or only keys below one noise scale (6 to 30 standard
    # errors).
    counts = np.arange(50_000) % 7 + 1
    found = deviations(counts, np.arange(50_000), float(counts.sum()), 4, nonzero=500, **settings)
    assert max(abs(error / stated) for error, stated in found) < 2.5
    assert max(stated for _, stated in found) < 15 * len(counts)
