"""Balanced answers: near the least possible worst ratio, the same wherever a release is opened, and
predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

import sparsedp
from releases import make
from sparsedp import FormatError, ParameterError, _native
from sparsedp.format import files
from sparsedp.format.container import read
from sparsedp.format.description import HEADER_NAME, part_name
from sparsedp.mechanisms.leftover import stored_error
from sparsedp.mechanisms.tight_alp import TightAlpPlan
from sparsedp.privacy.randomness import reproducible_for_tests
from sparsedp.structures.balancing import FAST_ROUNDS, LEARNING_RATE, LEAST_ERROR, Board, Game, dense_error
from sparsedp.structures.ladder import Ladder
from sparsedp.structures.thresholds import PureStage, StableStage, Stage

Floats = npt.NDArray[np.float64]
GOLDEN = Path(__file__).parents[1] / "golden"

# Keys, sensitivity, δ and bits for each key, and the largest ratio to clamped dense noise over all
# counts. 1.35 is out of reach of 10³ keys: their ladders are longer, and an opponent has weights
# against each of those with 5, 6 or 7 bits and spreads from 0.1 to 1.5 that cost any answers 1.353,
# 1.359 and 1.357 for sensitivities of 5, 20 and 100.
GOALS = {
    (10**5, 1, 0.0, 40): 1.6,
    (10**5, 1, 0.0, 60): 1.4,
    (10**5, 1, 1e-9, 40): 1.45,
    **{(10**3, s, 0.0, 40): 1.37 for s in (5, 20, 100)},
    **{(10**4, s, 0.0, 40): 1.356 for s in (5, 20, 50, 100)},
    **{(10**5, s, 0.0, 40): 1.345 for s in (5, 20, 50, 100)},
    (10**6, 20, 0.0, 40): 1.335,
    **{(10**4, s, 1e-9, 40): 1.25 for s in (5, 20, 100)},
    (10**5, 20, 0.0, 60): 1.24,
    (10**5, 20, 0.0, 25): 1.58,
}


def noise_law(rate: float) -> tuple[npt.NDArray[np.int64], Floats]:
    reach = math.ceil(45 / rate)
    values = np.arange(-reach, reach + 1)
    a = math.exp(-rate)
    return values, (1 - a) / (1 + a) * a ** np.abs(values)


def small_game(collision: float = 0.15) -> Game:
    """A ladder of 16 symbols over 20 counts, some of which are hidden by other keys of any height;
    T is 22.
    """
    level = Ladder.climb([0.7] * 20, (4,)).levels[0]
    grid = np.arange(26)
    own = level.law[np.minimum(grid, level.height)]
    hidden = np.array([level.law[np.maximum(np.minimum(c, 20), np.arange(1, 21))].mean(axis=0) for c in grid])
    stored = 1 / (1 + np.exp(-0.7 * (grid - 22.0)))
    likelihood = (1 - collision) * own + collision * hidden
    return Game(Board(grid.astype(np.float64), 0.7, stored * 1.3), likelihood * (1 - stored)[:, None])


def plan_for(**parameters: Any) -> TightAlpPlan:
    plan = sparsedp.plan(**{"epsilon": 1.0, "nonzero": 10**5, "mechanism": "tight-alp", **parameters})
    assert isinstance(plan, TightAlpPlan)
    return plan


def exact_ratios(plan: TightAlpPlan, values: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """What `Game.ratios` should be, by summing over all values of the noise."""
    rate, threshold = float(plan.stage.noise.rate), plan.stage.threshold
    noise, law = noise_law(rate)
    grid = plan.decoder.grid
    ratios = []
    for count, likelihood in zip(grid.tolist(), plan.decoder.likelihood, strict=True):
        stored = count + noise >= threshold
        errors = law[stored] @ np.abs(noise[stored]) + law[~stored].sum() * (likelihood @ np.abs(values - count))
        ratios.append(errors / (law @ np.abs(np.maximum(count + noise, 0) - count)))
    return grid, np.array(ratios)


def least_objective(game: Game) -> float:
    """The least value of the objective, as a linear program: x(pattern), |x - c| for each pair, and
    the maximum.
    """
    counts, patterns = game.unstored.shape
    pair, worst = patterns + np.arange(counts * patterns).reshape(counts, patterns), patterns + counts * patterns
    rows, columns, entries, limits = [], [], [], []
    at = 0
    for c in range(counts):
        for z in range(patterns):
            for sign in (1, -1):  # sign · (x - c) <= |x - c|
                rows += [at, at]
                columns += [z, int(pair[c, z])]
                entries += [sign, -1]
                limits.append(sign * game.board.counts[c])
                at += 1
    cost = game.unstored / game.board.dense[:, None]
    for c in range(counts):  # ratio(c) <= worst
        rows += [at] * (patterns + 1)
        columns += [*pair[c].tolist(), worst]
        entries += [*cost[c].tolist(), -1]
        limits.append(-game.board.stored[c] / game.board.dense[c])
        at += 1
    goal = np.zeros(worst + 1)
    goal[pair.ravel()] = (game.board.spread * game.board.base[:, None] * cost).ravel()
    goal[worst] = 1 - game.board.spread
    solved = linprog(goal, coo_matrix((entries, (rows, columns))).tocsr(), limits, bounds=(0, None))
    assert solved.success
    return float(solved.fun + game.board.spread * (game.board.base @ (game.board.stored / game.board.dense)))


# What balanced values are.


@pytest.mark.parametrize("rate", [0.05, 0.3, 1.0, 2.5])
def test_the_error_of_dense_noise_is_that_of_clamped_noise(rate: float) -> None:
    # Mutants: no clamp (twice the error at 0), a clamp at every count.
    noise, law = noise_law(rate)
    for count in (0, 1, 2, 7, 40, 400):
        wanted = law @ np.abs(np.maximum(count + noise, 0) - count)
        assert dense_error(rate, np.array([float(count)]))[0] == pytest.approx(wanted, rel=1e-9)
    assert dense_error(80.0, np.array([0.0])) == LEAST_ERROR


STAGES: dict[str, Stage] = {
    "pure": PureStage.plan(Decimal("0.5"), 10**6, Fraction(5)),
    "stable": StableStage.plan(Decimal("0.5"), Fraction(1), Fraction(1, 10**4)),
    "stable, many keys": StableStage.plan(Decimal("0.1"), Fraction(7), Fraction(1, 10**4)),
}


@pytest.mark.parametrize("name", STAGES)
def test_stored_keys_err_by_their_noise(name: str) -> None:
    # Mutants: the error of all keys, of a key that was raised to `unit` as if it had that count, a
    # tail off by one.
    stage = STAGES[name]
    noise, law = noise_law(float(stage.noise.rate))
    counts = np.arange(stage.threshold + 30)
    for count, got in zip(counts.tolist(), stored_error(stage, counts), strict=True):
        start, chance = count, 1.0
        if isinstance(stage, StableStage) and count < stage.unit:
            start, chance = stage.unit, count / stage.unit
        stored = start + noise >= stage.threshold
        wanted = chance * (law[stored] @ np.abs(start + noise[stored] - count))
        assert got == pytest.approx(wanted, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("collision", [0.0, 0.15, 0.5])
def test_balanced_values_are_nearly_the_best_there_are(collision: float) -> None:
    # Mutants: the last answer instead of the average, weights that shrink where errors are large,
    # no base weights, rounds that count differently, a rate that does not fall.
    game = small_game(collision)
    least = least_objective(game)
    assert least <= game.objective(game.balanced()) <= 1.01 * least
    assert game.objective(game.balanced(10)) > 1.01 * least  # so rounds are needed
    assert game.bound() <= least * (1 + 1e-9)


@pytest.mark.parametrize("patterns", [1, 16, 39, 64])
def test_the_kernel_plays_the_rounds_as_written(patterns: int) -> None:
    # Mutants: the median of the next count, weights of the round before, costs scaled anew in each
    # round, rounds of equal weight, patterns that are left over by vectors of 32 or 4.
    game = small_game()
    others = np.random.default_rng(patterns).dirichlet(np.ones(patterns), len(game.unstored))
    game = game if patterns == 16 else Game(game.board, others * game.unstored.sum(axis=1, keepdims=True))
    cost, fixed = game.unstored / game.board.dense[:, None], game.board.stored / game.board.dense
    learned, total, scale, rounds = np.log(game.board.start), np.zeros(cost.shape[1]), 0.0, 25
    for t in range(1, rounds + 1):
        chosen = np.exp(learned - learned.max())
        weights = (1 - game.board.spread) * chosen / chosen.sum() + game.board.spread * game.board.base
        below = np.cumsum(weights[:, None] * cost, axis=0)
        answers = game.board.counts[np.argmax(below >= below[-1] / 2, axis=0)]
        ratios = (cost * np.abs(answers - game.board.counts[:, None])).sum(axis=1) + fixed
        scale = scale or float(weights @ ratios)
        learned += LEARNING_RATE / math.sqrt(1 + t / FAST_ROUNDS) * ratios / scale
        total += t * answers
    assert game.balanced(rounds) == pytest.approx(total / (rounds * (rounds + 1) / 2), rel=1e-12)


@pytest.mark.parametrize(("wrong", "fixed", "start"), [("count", 25, 26), ("starts", 26, 27)])
def test_a_game_of_mixed_sizes_is_refused(wrong: str, fixed: int, start: int) -> None:
    game = small_game()
    counts, base = game.board.counts, game.board.base
    with pytest.raises(ValueError, match=wrong):
        _native.balanced(game.unstored, counts, np.ones(fixed), base, 0.5, np.ones(start), np.ones(3))


@pytest.mark.parametrize(("nonzero", "sensitivity", "delta", "bits"), GOALS)
def test_no_count_is_much_worse_than_with_dense_noise(nonzero: int, sensitivity: int, delta: float, bits: int) -> None:
    # Mutants: the flat prior (1.5 to 2.8), anchors that are spread evenly (1.39), errors of
    # unstored keys only, half of the rounds, no symbols that are finer than a third of a noise
    # scale (1.28 with δ, 1.27 at 60 bits).
    plan = plan_for(nonzero=nonzero, sensitivity=sensitivity, delta=delta, bits_per_entry=bits)
    assert plan.bits_per_entry is not None
    assert plan.bits_per_entry <= bits * 1.001 + 3 * 64 / nonzero  # three seeds
    grid, ratios = exact_ratios(plan, plan.balanced)
    assert ratios.max() <= GOALS[nonzero, sensitivity, delta, bits]
    assert np.allclose(ratios, plan.game.ratios(plan.balanced), rtol=1e-6)
    flat = exact_ratios(plan, plan.decoder.estimates("median", "flat"))[1]
    assert flat.max() > ratios.max() + 0.15
    present = -np.diff(plan.problem.keys_above(np.append(grid, 10**9)))[:-1]  # of the counts from 1 on
    assert present @ ratios[1:] / present.sum() <= max(1.35, GOALS[nonzero, sensitivity, delta, bits] - 0.01)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"delta": 1e-9}, {"sensitivity": 20}, {"upper": 1}, {"epsilon": 0.02}, {"epsilon": 9.0}, {"epsilon": 30.0}],
    ids=str,
)
def test_predictions_are_those_of_balanced_answers(parameters: dict[str, Any]) -> None:
    # Mutant: predictions of the flat prior.
    plan = plan_for(nonzero=1000, **parameters)
    game = plan.game
    for at in (0, 1, len(game.board.counts) // 3):
        predicted = plan.error(game.board.counts[at] * float(plan.problem.neighbours.step))
        cells = predicted.mean_absolute / float(plan.problem.neighbours.step)
        assert cells == pytest.approx((game.ratios(plan.balanced) * game.board.dense)[at], rel=0.01, abs=1e-4)


def test_absent_keys_of_users_with_many_keys_are_answered_near_zero() -> None:
    # 3000 users with 20 keys each, no size stated. Mutant: the flat prior answers 14 or more.
    words = np.random.default_rng(3).zipf(1.3, 60_000) % 40_000
    keys, counts = np.unique(words, return_counts=True)
    with reproducible_for_tests(4):
        release = sparsedp.release((keys, counts), epsilon=1.0, sensitivity=20)
    assert release.mechanism == "tight-alp"
    absent = np.arange(10**6, 10**6 + 20_000)
    assert np.median(release.lookup(absent)) < 3
    assert release.lookup(absent).mean() < 0.6 * release.lookup(absent, prior="flat").mean()
    low, high = release.interval(keys)
    assert ((low <= counts) & (counts <= high)).mean() > 0.945


def missing(plan: TightAlpPlan, low: Floats, high: Floats) -> npt.NDArray[np.bool_]:
    """Whether the interval of each pattern misses each count of the grid."""
    counts = plan.decoder.grid[:, None]
    return (counts < low) | (high < counts)


def stored_and_missed(stage: Stage, counts: npt.NDArray[np.int64], failure: float) -> Floats:
    """P[a count is stored, with noise beyond the interval], by summing over all noise."""
    noise, chances = noise_law(float(stage.noise.rate))
    beyond = np.abs(noise) > stage.noise.exceeded_with(failure)
    stored = counts[:, None] + noise >= stage.threshold
    return np.where(counts > 0, (stored & beyond) @ chances, 0.0)


@pytest.mark.parametrize("failure", [0.3, 0.1, 0.05, 0.001])
@pytest.mark.parametrize("sensitivity", [1, 20])
def test_intervals_cover_every_count_and_hold_the_answer(failure: float, sensitivity: int) -> None:
    # Mutants: quantiles of a posterior, which cover only on average; intervals without their
    # answer; intervals of patterns in the order of their answers, which contain the answers but are
    # 9 % wider; patterns that miss as if nothing were stored, with which counts near the threshold
    # are missed by up to 1.07 times the failure probability.
    plan = plan_for(nonzero=1000, sensitivity=sensitivity)
    low, high = plan.intervals(failure, plan.balanced)
    assert (low <= plan.balanced).all()
    assert (plan.balanced <= high).all()
    missed = plan.decoder.unstored * (plan.decoder.likelihood * missing(plan, low, high)).sum(axis=1)
    missed += stored_and_missed(plan.stage, plan.decoder.grid, failure)
    assert missed.max() <= failure + 1e-9
    assert missed.max() >= 0.9 * failure  # and they are no wider than they must be
    flat_low, flat_high = plan.intervals(failure, plan.answers("median", "flat"))
    likelihood = plan.decoder.unstored[:, None] * plan.decoder.likelihood
    # Most counts are small, or all are as many.
    for weights, most in ((plan.game.board.start @ likelihood, 1.01), (likelihood.sum(axis=0), 1.02)):
        assert weights @ (high - low) <= (most if failure < 0.1 else 1.1) * (weights @ (flat_high - flat_low))
    if sensitivity > 1:  # all answers are inside already
        assert np.array_equal((low, high), plan.decoder.intervals(failure))


# What is published.


@pytest.mark.parametrize("name", ["tight-alp", "tight-alp-approximate", "tight-alp-signed", "tight-alp-parts"])
def test_a_release_answers_with_the_values_that_it_publishes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Mutants: values that are computed when a file is opened; the values of one side, or of one
    # part, for all.
    release = make(name)
    release.save(tmp_path / "r")
    keys = np.arange(4000)
    wanted = release.lookup(keys), *release.interval(keys)

    def never(*_: object) -> Floats:
        raise AssertionError("answers must be those of the file")

    monkeypatch.setattr(Game, "balanced", never)
    loaded = sparsedp.load(tmp_path / "r", allow_reproducible=True)
    assert np.array_equal((loaded.lookup(keys), *loaded.interval(keys)), wanted)
    assert np.array_equal(loaded.lookup(keys, prior="balanced"), wanted[0])
    assert [loaded[key] for key in range(80)] == wanted[0][:80].tolist()
    assert loaded.plan.error(2).mean_absolute == release.plan.error(2).mean_absolute
    # Other values are other answers.
    other = [
        tuple({**part, "embedding.values": part["embedding.values"] // 2} for part in side) for side in loaded.sides
    ]
    assert not np.array_equal(replace(loaded, sides=tuple(other)).lookup(keys), wanted[0])


def test_published_values_are_the_balanced_ones_of_their_side() -> None:
    release = make("tight-alp-signed")
    plan = release.plan
    assert isinstance(plan, TightAlpPlan)
    published = []
    for side in release.sides:
        seen = plan.observed(side)
        published.append(seen.balanced)
        assert np.abs(published[-1] - replace(seen, published=None).balanced).max() <= 2.0**-10  # half of the quantum
    assert not np.array_equal(published[0], published[1])


def test_values_of_parts_are_written_once(tmp_path: Path) -> None:
    with reproducible_for_tests(6):
        release = sparsedp.release({i: i % 40 for i in range(500)}, epsilon=1.0, nonzero=500, parts=3)
    release.save(tmp_path / "saved")
    with reproducible_for_tests(6):
        written = sparsedp.release(
            {i: i % 40 for i in range(500)}, epsilon=1.0, nonzero=500, parts=3, path=tmp_path / "written"
        )
    assert np.array_equal(release.lookup(range(900)), written.lookup(range(900)))
    for folder in (tmp_path / "saved", tmp_path / "written"):
        assert "embedding.values" in read(folder / HEADER_NAME).arrays
        for part in range(3):
            assert "embedding.values" not in read(folder / part_name(part)).arrays
    assert release.nbytes == sum(path.stat().st_size for path in (tmp_path / "saved").iterdir())


def test_a_file_of_format_1_keeps_its_answers() -> None:
    release = sparsedp.load(GOLDEN / "format-1" / "tight-alp.sparsedp", allow_reproducible=True)
    assert np.array_equal(release.lookup(range(100)), release.lookup(range(100), prior="flat"))
    with pytest.raises(ParameterError, match="must be one of 'flat', 'fitted', got 'balanced'"):
        release.lookup(range(100), prior="balanced")
    plan = release.plan
    assert isinstance(plan, TightAlpPlan)
    assert plan.error(0).mean_absolute == pytest.approx(
        float(plan.decoder.likelihood[0] @ plan.decoder.estimates("median", "flat")), rel=0.01
    )


FORGERIES: dict[str, Callable[[np.ndarray], np.ndarray | None]] = {
    "missing": lambda values: None,
    "short": lambda values: values[:-1],
    "of two dimensions": lambda values: values[None],
    "of another type": lambda values: values.astype(np.uint64),
    "too large": lambda values: np.full_like(values, 2**16 - 1),
}


@pytest.mark.parametrize("name", ["tight-alp", "tight-alp-signed"])
@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_values_are_refused(name: str, forgery: str, tmp_path: Path) -> None:
    release = make(name)
    last = dict(release.sides[-1][0])
    forged = FORGERIES[forgery](last.pop("embedding.values"))
    if forged is not None:
        last["embedding.values"] = forged
    contents = replace(release, sides=(*release.sides[:-1], (last,)))
    (tmp_path / "r").write_bytes(files.to_bytes(contents))
    with pytest.raises(FormatError, match=r"embedding\.values"):
        sparsedp.load(tmp_path / "r", allow_reproducible=True)


def test_a_format_1_file_has_no_values(tmp_path: Path) -> None:
    contents = replace(make("tight-alp"), format=1)
    (tmp_path / "r").write_bytes(files.to_bytes(contents))
    with pytest.raises(FormatError):
        sparsedp.load(tmp_path / "r", allow_reproducible=True)


def test_other_mechanisms_have_the_flat_prior_by_default() -> None:
    release = make("stability")
    assert np.array_equal(release.lookup(range(60)), release.lookup(range(60), prior="flat"))
    with pytest.raises(ParameterError, match="prior of mechanism 'stability' must be one of 'flat', got 'balanced'"):
        release.lookup(range(60), prior="balanced")
