"""People with many keys, on a real log: the identifiers of the standard library by file. Only ε, δ
and m are stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import sparsedp
from sparsedp.experiments import judging, references
from sparsedp.privacy.randomness import reproducible_for_tests
from sparsedp.structures.table import Counts

ABSENT = [f"no identifier {i}" for i in range(5000)]
RELEASES, SUMS = 3, 100


@dataclass(frozen=True)
class Judged:
    """How often 95 % intervals cover, in each range of counts, and errors of sums relative to their
    standard errors.
    """

    coverages: list[float]
    intervals: list[int]
    sums: float
    mechanism: str
    errors: judging.Figures  # relative to dense noise

    @property
    def honest(self) -> bool:
        """Whether every coverage is 95 %, or so little below it that a correct one is as low once
        in a million runs.
        """
        allowed = (0.95 - 5 * math.sqrt(0.95 * 0.05 / number) for number in self.intervals)
        return all(coverage >= least for coverage, least in zip(self.coverages, allowed, strict=True))


@lru_cache(maxsize=1)  # tests with the same bound follow each other
def count(log: Path, keys_per_user: int) -> tuple[list[str], Counts]:
    counted = sparsedp.count(log, key="key", user="user", max_keys_per_user=keys_per_user)
    order = np.argsort(np.array(counted.keys, dtype=object), kind="stable")  # the count does not fix the order
    return np.array(counted.keys, dtype=object)[order].tolist(), counted.units[order]


def judge(log: Path, keys_per_user: int, delta: float, mechanism: str = "auto") -> Judged:
    keys, counts = count(log, keys_per_user)
    asked = judging.questions([*keys, *ABSENT], counts, len(ABSENT))
    covered, errors, deviations = [], [], []
    random = np.random.default_rng(keys_per_user)
    for seed in range(RELEASES):
        with reproducible_for_tests(seed):
            release = sparsedp.release(
                (keys, counts), epsilon=1.0, delta=delta, sensitivity=keys_per_user, mechanism=mechanism
            )
        covered.append(judging.coverage(asked, *release.interval(asked.keys)))
        errors.append(judging.errors(asked, release.lookup(asked.keys)))
        for _ in range(SUMS):
            own = random.permutation(len(keys))[: len(keys) // 20]
            total, stated = release.sum([keys[i] for i in own])
            deviations.append((total - counts[own].sum()) / stated)
    coverage, dense = judging.means(covered), references.dense_errors(asked, keys_per_user)
    ratios = {name: error / dense[name] for name, error in judging.means(errors).items()}
    enough = {name: RELEASES * len(own) for name, own in asked.groups.items() if RELEASES * len(own) >= 1000}
    sums = judging.stated_to_seen(np.array(deviations))
    return Judged([coverage[name] for name in enough], list(enough.values()), sums, release.mechanism, ratios)


@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("keys_per_user", [1, 5, 10, 20, 50])
@pytest.mark.promise(25)
def test_answers_are_near_those_of_dense_noise_and_intervals_cover(
    user_level_log: Path, keys_per_user: int, delta: float, measured: Callable[..., None]
) -> None:
    # Mutants: an array that is sized for fewer keys than there are; answers that are good at one
    # range of counts only.
    judged = judge(user_level_log, keys_per_user, delta)
    assert judged.honest
    assert max(judged.errors[name] for name in ("all", "absent", "frequent")) <= 1.45
    assert 0.8 < judged.sums < 1.35
    measured(least=min(judged.coverages), sums=float(judged.sums))
