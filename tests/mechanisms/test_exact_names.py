"""Names with Gaussian noise: the exact δ of tiny laws, for every way in which a user's keys are
shared with others, new or gone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from exact import PreparedWords
from sparsedp import plan as make_plan
from sparsedp.mechanisms.stability import StabilityPlan
from sparsedp.privacy.cut_laws import CutGaussian, CutLaw
from sparsedp.privacy.randomness import Randomness, ReproducibleRandomness
from sparsedp.structures.thresholds import GaussianStage

Pair = tuple[int, int]  # the counts of a key in two neighbouring inputs
Law = dict[int | None, int]
UNSTORED = None
FACTORS = [Fraction(101, 100), Fraction(3, 2), Fraction(12)]

# Masses 4, 3, 2, 1 · 18, 15, 7, 1 and 72, 57, 27, 7, 1, from zero on; one is nearly tight.
COARSE = [CutGaussian(4, Fraction(4), 3), CutGaussian(6, Fraction(2), 4), CutGaussian(8, Fraction(2), 4)]
FINE = CutGaussian(20, Fraction(2), 8)


def log_below(factor: Fraction) -> float:
    """An ε with e^ε at most the factor."""
    return math.log(factor) - 1e-12


@lru_cache(maxsize=1000)
def law_of(stage: GaussianStage, count: int) -> Law:
    """What is published of one key, nothing or its noisy value, with how many words."""
    if count == 0:
        return {UNSTORED: 1 << stage.noise.bits}
    law: Law = {UNSTORED: 0}
    reach = stage.noise.reach
    for value in range(count - reach, count + reach + 1):
        seen = value if (abs(value) if stage.signed else value) >= stage.threshold else UNSTORED
        law[seen] = law.get(seen, 0) + stage.noise.masses[abs(value - count)]
    return law


def spent(stage: GaussianStage, pairs: tuple[Pair, ...], factor: Fraction) -> Fraction:
    """The exact δ of these counts against those, at e^ε = factor."""
    bits = len(pairs) * stage.noise.bits
    p: Any = np.ones(1, np.int64 if bits < 40 else np.object_)
    q = p
    for pair in pairs:
        left, right = (law_of(stage, count) for count in pair)
        p, q = (np.outer(own, [law.get(seen, 0) for seen in left | right]) for own, law in ((p, left), (q, right)))
    lost = np.maximum(factor.denominator * p.ravel() - factor.numerator * q.ravel(), 0).sum()
    return Fraction(int(lost), factor.denominator << bits)


def moves(stage: GaussianStage) -> list[Pair]:
    """Every kind of move of one key: new, gone, shared above and below the threshold, by all sizes."""
    largest = stage.threshold + stage.noise.reach + 1
    counts = range(-largest if stage.signed else 0, largest + 1)
    ways = {(count, count + by) for count in counts for by in range(-stage.per_key, stage.per_key + 1) if by}
    return [pair for pair in ways if stage.signed or min(pair) >= 0]


def worst(pairs: list[Pair], stage: GaussianStage) -> list[Pair]:
    """The moves that can be worst, for three keys at once: by as much as allowed, new, gone or far
    above.
    """
    far = stage.threshold + stage.noise.reach
    return [pair for pair in pairs if abs(pair[0] - pair[1]) == stage.per_key and (0 in pair or min(pair) == far)]


@pytest.mark.parametrize("law", COARSE, ids=lambda law: str(law.masses))
@pytest.mark.parametrize("per_key", [1, 2])
@pytest.mark.parametrize("signed", [False, True])
def test_delta_covers_every_split_of_two_keys(law: CutGaussian, per_key: int, signed: bool) -> None:
    # All counts and moves, both directions. Catches keys that a user makes zero, a neighbour that has
    # a key which the other lacks while lacking one of its own, and smaller moves that cost more.
    tried = 0
    for threshold in (per_key + 1, per_key + 2, per_key + law.reach):
        stage = GaussianStage(law, threshold, 2, per_key, signed)
        ways = moves(stage)
        alone = {pair: (law_of(stage, pair[0]), law_of(stage, pair[1])) for pair in ways}
        distinct = {tuple(tuple(sorted(own.items(), key=str)) for own in laws): pair for pair, laws in alone.items()}
        for factor in FACTORS:
            stated = stage.delta(log_below(factor))
            if stated < 1:
                for pairs in combinations_with_replacement(sorted(distinct.values()), 2):
                    assert spent(stage, pairs, factor) <= stated
                    tried += 1
    assert tried > 300


@pytest.mark.parametrize("law", COARSE, ids=lambda law: str(law.masses))
@pytest.mark.parametrize("signed", [False, True])
def test_delta_covers_every_split_of_three_keys(law: CutGaussian, signed: bool) -> None:
    tried = 0
    for per_key, extra in ((1, 1), (1, 2), (1, law.reach), (2, law.reach)):
        stage = GaussianStage(law, per_key + extra, 3, per_key, signed)
        for factor in FACTORS:
            stated = stage.delta(log_below(factor))
            for pairs in combinations_with_replacement(sorted(worst(moves(stage), stage)), 3):
                if stated < 1:
                    assert spent(stage, pairs, factor) <= stated
                    tried += 1
    assert tried > 30


def planned(factor: Fraction, keys: int, signed: bool) -> tuple[GaussianStage, float]:
    """The fine law with the lowest threshold for a δ of which names take a good share."""
    most = 1.5 * GaussianStage(FINE, FINE.reach + 2, keys, 1, signed).delta(log_below(factor))
    stages = (GaussianStage(FINE, threshold, keys, 1, signed) for threshold in range(2, FINE.reach + 3))
    return next((own, most) for own in stages if own.delta(log_below(factor)) <= most)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("keys", [1, 2, 3])
def test_a_lower_threshold_and_less_noise_exceed_delta(keys: int, signed: bool) -> None:
    factor = Fraction(3)
    stage, delta = planned(factor, keys, signed)
    ways = worst(moves(stage), stage)

    def exact(mutant: GaussianStage) -> Fraction:
        splits = combinations_with_replacement(sorted(worst(moves(mutant), mutant)), keys)
        return max(spent(mutant, pairs, factor) for pairs in splits)

    assert len(ways) >= 3
    assert 0.9 * stage.delta(log_below(factor)) <= exact(stage) <= delta
    assert exact(replace(stage, threshold=stage.threshold - 1)) > delta
    thinner = CutGaussian(20, FINE.variance * Fraction(95, 100) ** 2, 8)
    far = replace(stage, threshold=FINE.reach + 2)  # where only the noise costs
    assert exact(replace(far, noise=thinner)) > far.delta(log_below(factor)) >= exact(far)
    assert exact(replace(far, per_key=2)) > far.delta(log_below(factor))  # keys that move by two


def test_a_key_that_is_gone_counts_like_one_that_is_new() -> None:
    # A user who makes two counts zero is seen from the other side.
    stage = GaussianStage(CutGaussian(8, Fraction(1), 2), 2, 2, 1, True)
    gone = spent(stage, ((0, 1), (0, 1)), Fraction(101, 100)), spent(stage, ((1, 0), (-1, 0)), Fraction(101, 100))
    assert min(gone) > 0
    assert max(gone) <= stage.delta(log_below(Fraction(101, 100)))


@pytest.mark.parametrize("goal", ["names", "error"])
@pytest.mark.parametrize(("keys", "per_key", "signed"), [(1, 1, False), (3, 1, True), (20, 2, False), (100, 1, True)])
def test_planned_stages_keep_delta_and_have_the_lowest_threshold(
    keys: int, per_key: int, signed: bool, goal: str
) -> None:
    plan = make_plan(
        1.0,
        1e-6,
        max_keys_per_user=keys,
        max_per_key=per_key,
        signed=signed,
        noise="gaussian",
        mechanism="stability",
        goal=goal,
    )
    assert isinstance(plan, StabilityPlan)
    stage = plan.stage
    assert isinstance(stage, GaussianStage)
    assert (stage.keys, stage.per_key, stage.signed) == (keys, per_key, signed)
    assert plan.epsilon == 1.0
    assert 0 < plan.delta <= 1e-6 < replace(stage, threshold=stage.threshold - 1).delta(1.0)
    new = stage.noise.at_least(stage.threshold - per_key)
    assert 1 - (1 - new) ** keys <= plan.exact_delta  # of all keys new


@pytest.mark.parametrize("signed", [False, True])
def test_a_value_that_just_reaches_the_threshold_is_stored(signed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # The laws above are those of noisy >= T; catches a build that stores noisy > T, or one side only.
    stage = GaussianStage(FINE, 9, 3, 1, signed)

    def draw(law: CutLaw, count: int, randomness: Randomness) -> np.ndarray:
        return np.array([3, 4, -13, -14])[:count]

    monkeypatch.setattr(CutLaw, "draw", draw)
    ids = np.arange(4, dtype=np.uint64)
    selected = stage.select(ids, np.full(4, 5), ReproducibleRandomness(1))
    assert selected.stored.tolist() == [False, True, False, signed]
    assert selected.table.values.tolist() == ([9, -9] if signed else [9])


def test_tiny_stages_release_what_is_enumerated() -> None:
    # The build, on every word of eight bits, has the law that the tests above take for granted.
    law = CutGaussian(8, Fraction(2), 4)
    for count, signed in product((1, 3, -2), (False, True)):
        stage = GaussianStage(law, 3, 1, 1, signed)
        every = PreparedWords(word << 56 for word in range(256))
        selected = stage.select(np.arange(256, dtype=np.uint64), np.full(256, count), every)
        expected = law_of(stage, count)
        values, times = np.unique(selected.table.values, return_counts=True)
        found: Law = {int(v): int(n) for v, n in zip(values, times, strict=True)}
        assert found | {UNSTORED: 256 - sum(found.values())} == expected
