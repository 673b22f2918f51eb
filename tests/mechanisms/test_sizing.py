"""The estimate of the size and the build round real values with separate coins (docs/privacy.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparsedp
from sparsedp.keys.hashing import KeySpace
from sparsedp.mechanisms.sizing import EffectiveSize
from sparsedp.mechanisms.tight_alp import TightAlpPlan
from sparsedp.privacy.randomness import reproducible_for_tests

KEYS = 400
REALS = np.full(KEYS, 0.5)  # each is zero or one cell of size one, a fair coin


class Watch:
    """The cells that the size and the build saw, key by key, in the releases of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sized: list[int] = []
        self.built: set[int] = set()
        count, build = EffectiveSize.count, TightAlpPlan.build_part

        def watched_total(sizing: EffectiveSize, cells: Any, upper: int | None = None) -> int:
            self.sized.append(int(np.count_nonzero(cells)))
            return count(sizing, cells, upper)

        def watched_build(plan: TightAlpPlan, part: int, partition: Any, ids: Any, counts: Any, randomness: Any) -> Any:
            self.built |= set(ids[counts != 0].tolist())
            return build(plan, part, partition, ids, counts, randomness)

        monkeypatch.setattr(EffectiveSize, "count", watched_total)
        monkeypatch.setattr(TightAlpPlan, "build_part", watched_build)


SETTINGS: dict[str, dict[str, Any]] = {
    "pure": {},
    "delta": {"delta": 1e-6, "mechanism": "tight-alp"},
    "parts": {"parts": 3},
    "kept keys": {"delta": 1e-6, "keep_keys": True, "mechanism": "tight-alp"},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seeded", [False, True])
def test_the_coins_of_the_size_tell_nothing_about_those_of_the_build(
    monkeypatch: pytest.MonkeyPatch, name: str, seeded: bool
) -> None:
    # With the same coins the numbers of keys that are rounded up would be equal every time. They
    # are binomial with a standard deviation of 10: equal in 2.8 % of releases, and uncorrelated.
    watch = Watch(monkeypatch)
    sizes, builds = [], []
    for round_ in range(24):
        watch.sized, watch.built = [], set()
        if seeded:
            with reproducible_for_tests(round_):
                sparsedp.release((np.arange(KEYS), REALS), epsilon=1.0, step=1.0, **SETTINGS[name])
        else:
            sparsedp.release((np.arange(KEYS), REALS), epsilon=1.0, step=1.0, **SETTINGS[name])
        sizes.append(sum(watch.sized))
        builds.append(len(watch.built))
    assert np.mean(np.equal(sizes, builds)) < 0.3
    assert abs(np.corrcoef(sizes, builds)[0, 1]) < 0.85  # standard deviation 0.2
    for numbers in (sizes, builds):
        assert np.mean(numbers) == pytest.approx(KEYS / 2, abs=12)  # standard deviation 2


def test_counts_on_a_coarser_grid_are_rounded_anew_too(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    pairs = []
    for _ in range(10):
        watch.sized, watch.built = [], set()
        release = sparsedp.release((np.arange(KEYS), np.ones(KEYS, int)), epsilon=0.005, mechanism="tight-alp")
        assert release.plan.problem.neighbours.step > 1
        pairs.append((sum(watch.sized), len(watch.built)))
    assert any(sized != built for sized, built in pairs)


def test_whole_counts_are_not_rounded_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    sparsedp.release((np.arange(KEYS), np.ones(KEYS, int)), epsilon=1.0, mechanism="tight-alp")
    assert (sum(watch.sized), len(watch.built)) == (KEYS, KEYS)


def test_the_size_is_that_of_cut_values(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    count = EffectiveSize.count

    def watched(sizing: EffectiveSize, cells: Any, upper: int | None = None) -> int:
        found.append(count(sizing, cells, upper))
        return found[-1]

    monkeypatch.setattr(EffectiveSize, "count", watched)
    for parts in (1, 2):
        release = sparsedp.release(
            (np.arange(KEYS), np.full(KEYS, 50.0)), epsilon=0.1, step=1.0, upper=2, parts=parts, mechanism="tight-alp"
        )
        assert isinstance(release.key_space, KeySpace)
        assert sum(found) == 2 * KEYS
        found.clear()
