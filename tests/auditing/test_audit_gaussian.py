"""The audit plays users with three keys against Gaussian noise: it does not refute what is private,
and refutes mutants that are far from it. Mutants that are near: tests/mechanisms/test_exact_names.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from refuting import refutes
from sparsedp.auditing import Audit, audit
from sparsedp.auditing.games import Game, games_for
from sparsedp.mechanisms import Plan, gaussian
from sparsedp.mechanisms.problem import UserBounds
from sparsedp.privacy.cut_laws import CutLaw
from sparsedp.privacy.randomness import Randomness, reproducible_for_tests
from sparsedp.structures.thresholds import GaussianStage

playing = import_module("sparsedp.auditing.audit")
Patch = pytest.MonkeyPatch


def games_of_users(plan: Plan) -> list[Game]:
    return [game for game in games_for(plan) if game.options.get("noise") == "gaussian"]


def same_audit(mechanism: str, runs: int, epsilon: float = 1.0) -> Audit:
    """An audit of users only, that always finds the same: noise and coins have fixed seeds."""
    coins = np.random.default_rng
    with Patch.context() as patch, reproducible_for_tests(5):
        patch.setattr(playing, "games_for", games_of_users)
        patch.setattr(np.random, "default_rng", lambda seed=5: coins(seed))
        return audit(mechanism, epsilon, runs=runs)


@pytest.mark.parametrize("mechanism", ["retrieval", "stability"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_gaussian_noise_is_not_refuted_and_is_really_spent(mechanism: str, epsilon: float) -> None:
    result = same_audit(mechanism, 50_000, epsilon)
    assert len(result.findings) == 5
    assert not result.refuted
    assert result.lower_bound > epsilon / 3  # the δ of noise is spent by no single event


def noise_for_one_key(patch: Patch) -> None:
    """Three keys move, and the noise, the threshold and the accounting are for one."""
    of = UserBounds.of
    for cache in (gaussian._planned, gaussian._stage):
        cache.cache_clear()

    def one(problem: Any) -> UserBounds:
        return replace(of(problem), keys=1)

    patch.setattr(UserBounds, "of", one)


def threshold_far_too_low(patch: Patch) -> None:
    select = GaussianStage.select
    lower = lambda self, *rest: select(replace(self, threshold=self.threshold // 2), *rest)  # noqa: E731  # as short as it gets
    patch.setattr(GaussianStage, "select", lower)


def tails_cut_for_nothing(patch: Patch) -> None:
    """Values beyond one standard deviation are drawn again, which no δ covers."""
    draw = CutLaw.draw

    def cut(self: CutLaw, count: int, randomness: Randomness) -> Any:
        drawn = draw(self, 9 * count, randomness).reshape(count, 9)
        near = np.abs(drawn) <= max(1, round(self.variance_of_draws**0.5))
        return drawn[np.arange(count), near.argmax(axis=1)]

    patch.setattr(CutLaw, "draw", cut)


def one_noise_for_all_keys(patch: Patch) -> None:
    draw = CutLaw.draw
    patch.setattr(CutLaw, "draw", lambda self, count, randomness: np.repeat(draw(self, 1, randomness), count))


def half_of_the_noise(patch: Patch) -> None:
    draw = CutLaw.draw
    patch.setattr(CutLaw, "draw", lambda self, count, randomness: draw(self, count, randomness) // 2)


@pytest.mark.parametrize(
    ("mechanism", "mutant"),
    [
        ("retrieval", noise_for_one_key),
        ("stability", noise_for_one_key),
        ("stability", threshold_far_too_low),
        ("retrieval", tails_cut_for_nothing),
        ("stability", tails_cut_for_nothing),
        ("retrieval", one_noise_for_all_keys),
        ("retrieval", half_of_the_noise),
        ("stability", half_of_the_noise),
    ],
)
def test_mutants_are_refuted(mechanism: str, mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    assert refutes(lambda: same_audit(mechanism, 200_000, epsilon=0.4))
    for cache in (gaussian._planned, gaussian._stage):
        cache.cache_clear()


def test_the_noise_can_be_chosen_for_all_games() -> None:
    with reproducible_for_tests(1):
        result = audit("retrieval", runs=5000, noise="gaussian", max_keys_per_user=3)
    names = {finding.game for finding in result.findings}
    assert {"0 or 1", "three keys of a user appear"} <= names
    assert "three keys that appear together" not in names  # whose bounds are those of other noise
    assert not result.refuted
