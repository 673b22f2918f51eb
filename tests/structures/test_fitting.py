"""The fitted prior: evidence is what it says, laws are recovered, and its answers beat their rivals
over all keys.

Mutants that must fail are named at each test.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import sparsedp
from sparsedp.mechanisms.fitted import fit_prior, posterior_of_noisy
from sparsedp.mechanisms.leftover import not_stored
from sparsedp.mechanisms.retrieval import RetrievalPlan
from sparsedp.mechanisms.tight_alp import TightAlpPlan
from sparsedp.privacy.cut_laws import CutLaw
from sparsedp.privacy.laws import TwoSided
from sparsedp.privacy.randomness import reproducible_for_tests
from sparsedp.structures import fitting
from sparsedp.structures.buckets import NoiseBuckets
from sparsedp.structures.decoding import poisson_load
from sparsedp.structures.fitting import Cells, Evidence, Size, Stored, count_grid, fit_keys, quantiles, tilted
from sparsedp.structures.ladder import Ladder
from sparsedp.structures.thresholds import StableStage

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

USERS_KEYS = 20  # of one user: the noise has this scale at ε = 1
LEVEL = Ladder.climb([0.3] * 40, (4,)).levels[0]


def heavy(keys: int = 20_000, exponent: float = 1.1) -> Integers:
    """Counts with a heavy tail: P[count >= c] = c^-exponent."""
    return np.floor(np.random.default_rng(1).random(keys) ** (-1 / exponent)).clip(1, 10**6).astype(np.int64)


def released(counts: Integers, mechanism: str, delta: float, seed: int = 1, **more: Any) -> sparsedp.Release:
    parameters: dict[str, Any] = {"epsilon": 1.0, "sensitivity": USERS_KEYS, "nonzero": max(1, len(counts)), **more}
    with reproducible_for_tests(seed):
        return sparsedp.release((np.arange(len(counts)), counts), delta=delta, mechanism=mechanism, **parameters)


def dense_noise(counts: Integers, scale: float = USERS_KEYS) -> Floats:
    """Counts with noise on each, clamped at 0."""
    random, chance = np.random.default_rng(2), 1 - math.exp(-1 / scale)
    noise = random.geometric(chance, len(counts)) - random.geometric(chance, len(counts))
    return np.maximum(counts + noise, 0).astype(np.float64)


def stored_or_zero(release: sparsedp.Release, keys: Integers) -> Floats:
    return np.where(np.isin(release.key_space.ids(keys), release.stored().keys), release.lookup(keys), 0.0)


def pieces(counts: Integers) -> list[Evidence]:
    """Evidence of each kind on a grid of counts."""
    unstored = 1 / (1 + np.exp((counts - 30.0) / 4))
    edges = np.array([30.0, 40.0, 60.0])
    reach = (1 - unstored) * np.array([1.0, 0.6, 0.2])[:, None]
    return [
        Stored.count(np.array([30, 39, 40, 100]), edges, reach, np.array([5.0, 1.0, 0.1])),
        Cells.count(LEVEL, 5000, np.full(16, 300, np.uint64), counts, unstored),
        Size(900.0, 0.5, np.minimum(counts / 7, 1.0)),
    ]


def test_derivatives_are_those_of_the_expectations() -> None:
    """Mutants: `slopes` without `unstored`; without the sum over lower heights."""
    counts = count_grid(3, 60, 200)[1:]
    keys: Floats = 1000.0 / counts.astype(np.float64) ** 1.5
    for evidence in pieces(counts):
        expected, derivatives = evidence.expected(keys)
        for at in (0, 5, len(counts) // 2, len(counts) - 1):
            more = keys.copy()
            more[at] += 1e-3
            change = (evidence.expected(more)[0] - expected) / 1e-3
            assert np.allclose(change, derivatives[:, at], rtol=1e-3, atol=1e-6)


def test_stored_values_are_counted_between_their_edges() -> None:
    """Mutants: edges that belong to the interval below; expectations above the edges, not between
    them.
    """
    counts = count_grid(3, 60, 200)[1:]
    stored = pieces(counts)[0]
    assert stored.seen.tolist() == [2, 1, 1]
    expected, _ = stored.expected(np.zeros(len(counts)))
    assert expected.tolist() == pytest.approx([4.0, 0.9, 0.1])  # of keys that do not occur


def test_cells_show_the_largest_height_of_their_keys() -> None:
    """Mutant: keys *at* a height count as higher."""
    counts = np.arange(1, 61)
    unstored = np.where(counts < 30, 1.0, 0.5)
    keys: Floats = 3000.0 / counts.astype(np.float64) ** 1.4
    above = np.array([(keys * unstored)[counts > LEVEL.start + height].sum() for height in range(LEVEL.height + 1)])
    law = poisson_load(5000, above) @ LEVEL.law
    expected, _ = Cells.count(LEVEL, 5000, np.ones(16, np.uint64), counts, unstored).expected(keys)
    assert np.allclose(expected, 5000 * law)


@pytest.mark.parametrize("exponent", [0.7, 1.2, 2.0])
@pytest.mark.parametrize("symbols", [True, False])
def test_a_power_law_is_found_again(exponent: float, symbols: bool) -> None:
    """From its own expectations. Mutants: `BEND` 1, so that lines bend between 1 and T; no extra
    keys of count 1.
    """
    stage = _plan("tight-alp", 1e-6).stage
    grid = count_grid(2, 400, 10**5)
    counts = grid[1:]
    borders = np.append(counts, 2.0 * counts[-1] - counts[-2])
    keys = 50_000 * (borders[:-1] ** -exponent - borders[1:] ** -exponent)
    keys[0] *= 2  # as if counts had been thinned
    unstored = np.clip((300.0 - counts) / 100, 0.0, 1.0)
    edges = np.array([200.0, 220, 260, 340, 500, 800, 1600, 3200, 6400, 10**4])
    reach = (1 - unstored) * (counts >= edges[:, None])
    table = Stored.count(np.zeros(0, np.int64), edges, reach, np.zeros(len(edges)))
    evidence: list[Evidence] = [replace(table, seen=table.expected(keys)[0])]
    if symbols:
        for level in _plan("tight-alp", 1e-6).blocks.ladder.levels:
            cells = Cells.count(level, 100_000, np.ones(level.symbols, np.uint64), counts, unstored)
            evidence.append(replace(cells, seen=cells.expected(keys)[0]))
    found = fit_keys(counts, Size(float(keys.sum()), 0.1 if not symbols else 3.0, np.ones(len(counts))), evidence)
    assert stage.threshold > 200
    for count in (10, 20, 60, 150, 400, 1000):
        ratio = found[counts >= count].sum() / keys[counts >= count].sum()
        assert abs(math.log(ratio)) < (0.4 if exponent == 2.0 else 0.1)


def _plan(mechanism: str, delta: float, **more: Any) -> TightAlpPlan:
    plan = sparsedp.plan(epsilon=1.0, delta=delta, sensitivity=USERS_KEYS, nonzero=20_000, mechanism=mechanism, **more)
    assert isinstance(plan, TightAlpPlan)
    return plan


def test_zeros_that_are_stored_are_no_keys() -> None:
    """Mutant: `zeros` left out, so that stored zeros look like keys of T and more."""
    plan = _plan("tight-alp", 0.0)
    values = plan.stage.threshold + np.random.default_rng(1).geometric(1 - math.exp(-1 / USERS_KEYS), 200) - 1
    fit = fit_prior(plan.problem, plan.stage, values.astype(np.int64))
    assert fit.law[fit.grid >= plan.stage.threshold - 2 * USERS_KEYS].sum() < 1e-4


def test_last_bits_change_nothing() -> None:
    """Mutant: the fitted logarithms are not rounded."""
    counts = count_grid(3, 60, 200)[1:]
    table, cells, size = pieces(counts)
    assert isinstance(table, Stored)
    assert isinstance(cells, Cells)
    assert isinstance(size, Size)
    nearly: list[Evidence] = [
        replace(table, reach=table.reach * (1 + 2e-15)),
        replace(cells, changes=cells.changes * (1 - 2e-15)),
    ]
    assert np.array_equal(fit_keys(counts, size, [table, cells]), fit_keys(counts, size, nearly))


@pytest.mark.parametrize(("mechanism", "delta"), [("tight-alp", 0.0), ("tight-alp", 1e-6), ("retrieval", 1e-6)])
def test_over_all_keys_it_beats_noise_tables_and_the_flat_prior(mechanism: str, delta: float) -> None:
    """Mutant: no weights of frequent keys."""
    counts, keys = heavy(), np.arange(20_000)
    frequent = np.argsort(-counts)[:500]
    release = released(counts, mechanism, delta)
    answers = release.lookup(keys, prior="fitted")
    error = np.abs(answers - counts)
    rivals = [dense_noise(counts), stored_or_zero(release, keys), release.lookup(keys)]
    assert error.mean() < 0.9 * min(np.abs(rival - counts).mean() for rival in rivals)
    assert error[frequent].mean() < 3 * np.abs(rivals[0] - counts)[frequent].mean()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("count", "largest"), [(60, 8.0), (100, 18.0), (1000, 20.5)])
def test_counts_that_are_all_equal_are_no_power_law(count: int, largest: float, delta: float) -> None:
    """The noise errs by 20. Mutants: bends cost their square however large they are; no symbols."""
    release = released(np.full(20_000, count), "tight-alp", delta)
    assert np.abs(release.lookup(np.arange(20_000), prior="fitted") - count).mean() < largest


@pytest.mark.parametrize(("mechanism", "delta"), [("tight-alp", 0.0), ("tight-alp", 1e-6), ("retrieval", 1e-6)])
def test_intervals_cover_every_range_of_counts_and_hold_the_answer(mechanism: str, delta: float) -> None:
    """Mutants: quantiles of the posterior, which cover only on average; intervals without their
    answer.
    """
    counts, keys = heavy(), np.arange(20_000)
    release = released(counts, mechanism, delta)
    low, high = release.interval(keys, prior="fitted")
    answers = release.lookup(keys, prior="fitted")
    assert ((low <= answers) & (answers <= high)).all()
    for first, last in ((1, 9), (10, 99), (100, 10**9)):
        covered = ((low <= counts) & (counts <= high))[(counts >= first) & (counts <= last)]
        assert covered.mean() > 0.95 - 5 * math.sqrt(0.95 * 0.05 / len(covered))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_with_ten_times_the_keys_it_still_beats_the_flat_prior(delta: float) -> None:
    counts, keys = heavy(), np.arange(20_000)
    release = released(counts, "tight-alp", delta, nonzero=2000)
    fitted, flat = (np.abs(release.lookup(keys, prior=prior) - counts).mean() for prior in ("fitted", "flat"))
    assert fitted < flat / 2


SMALL: dict[str, tuple[Integers, dict[str, Any]]] = {
    "nothing": (np.zeros(0, np.int64), {}),
    "one key": (np.array([1000]), {}),
    "a huge count": (np.array([1 << 60, 5]), {}),
    "counts of 0 and 1": (np.ones(50, np.int64), {"upper": 1}),
    "little noise": (np.array([1, 2, 3]), {"epsilon": 20.0, "sensitivity": 1}),
    "much noise": (heavy(2000), {"epsilon": 0.05}),
    "signed": (np.array([1000, -1000, 3]), {"signed": True}),
    "parts": (heavy(3000), {"parts": 3}),
    "an estimated size": (heavy(3000), {"nonzero": None}),
    "a bound on the sum": (heavy(3000), {"nonzero": None, "total": 10**6}),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("mechanism", "delta"), [("tight-alp", 0.0), ("tight-alp", 1e-6), ("retrieval", 1e-6)])
def test_every_release_has_a_fitted_prior(mechanism: str, delta: float, name: str, tmp_path: Path) -> None:
    counts, more = SMALL[name]
    release = released(counts, mechanism, delta, **more)
    keys = np.arange(len(counts) + 100)
    answers = release.lookup(keys, prior="fitted")
    low, high = release.interval(keys, prior="fitted")
    assert np.isfinite(answers).all()
    assert (low <= answers).all()
    assert (answers <= high).all()
    noise = 30 * float(release.plan.problem.neighbours.sensitivity) / release.plan.problem.epsilon
    errors = np.abs(answers[: len(counts)] - counts)
    assert errors.max(initial=0) <= 2 * noise  # a rare key may share its cell with one that is nearly stored
    assert (errors <= noise).sum() >= 0.99 * len(counts)
    release.save(tmp_path / "saved")
    again = sparsedp.load(tmp_path / "saved", allow_reproducible=True)
    assert again.lookup(keys, prior="fitted").tolist() == answers.tolist()


def test_absent_keys_are_answered_zero_where_all_keys_are_large() -> None:
    """Mutant: a prior without zeros."""
    for mechanism in ("tight-alp", "retrieval"):
        release = released(np.full(5000, 2000), mechanism, 1e-6)
        assert np.median(release.lookup(np.arange(5000, 9000), prior="fitted")) <= 1


def test_noisy_values_of_retrieval_stay_right_on_average() -> None:
    """Mutant: "fitted" as the first of the priors of `retrieval`."""
    release = released(heavy(), "retrieval", 1e-6)
    keys = np.arange(20_000)
    noisy = release.lookup(keys, clamp=False)
    assert release.sum(keys).total == pytest.approx(noisy.sum())
    assert (noisy < -3 * USERS_KEYS).any()
    assert release[5] == max(noisy[5], 0.0)


@pytest.mark.parametrize("count", [60, 100, 200])
def test_a_table_that_tells_nothing_makes_no_prior(count: int) -> None:
    """Counts of several noise scales, of which hardly any is stored, or all. Mutant: `LEAST_STORED`
    0.
    """
    release = released(np.full(20_000, count), "retrieval", 1e-6)
    keys = np.arange(20_000)
    assert np.abs(release.lookup(keys, prior="fitted") - count).mean() < 1.3 * USERS_KEYS
    low, high = release.interval(keys, prior="fitted")
    assert ((low <= count) & (count <= high)).mean() > 0.9


def test_answers_of_retrieval_grow_with_the_noisy_value() -> None:
    """Mutant: buckets in another order."""
    release = released(heavy(), "retrieval", 1e-6)
    assert isinstance(release.plan, RetrievalPlan)
    keys = np.arange(40_000)
    noisy, answers = release.lookup(keys, clamp=False), release.lookup(keys, prior="fitted")
    assert (np.diff(answers[np.argsort(noisy, kind="stable")]) >= 0).all()
    stored = noisy >= release.plan.buckets.threshold
    assert np.array_equal(answers[stored], noisy[stored])
    for bounds in zip(release.interval(keys), release.interval(keys, prior="fitted"), strict=True):
        assert np.array_equal(bounds[0][stored], bounds[1][stored])


def test_more_keys_make_retrieval_more_careful() -> None:
    """Mutant: the number of keys is not used."""
    plan = released(heavy(), "retrieval", 1e-6).plan
    stage = _plan("tight-alp", 1e-6).stage
    few, many = (fit_prior(plan.problem, stage, np.array([400, 900]), keys=keys) for keys in (1e3, 1e6))
    assert few.law[few.grid > 50].sum() > 20 * many.law[many.grid > 50].sum()


def test_posteriors_of_noisy_values_are_those_of_the_noise() -> None:
    """Mutant: values below 0 are not an outcome."""
    plan = released(heavy(), "retrieval", 1e-6).plan
    assert isinstance(plan, RetrievalPlan)
    law = plan.buckets
    assert isinstance(law, CutLaw)
    posterior = posterior_of_noisy(plan.problem, law, np.array([400, 900]), 2e4)
    unstored = [1 - float(law.at_least(law.threshold - count)) for count in posterior.grid[1:].tolist()]
    assert np.allclose(posterior.joint[1:].sum(axis=1), unstored)
    older = NoiseBuckets(TwoSided.with_rate(Decimal("0.9")), -20, 21, 48)  # of files from before
    posterior = posterior_of_noisy(plan.problem, older, np.array([400, 900]), 2e4)
    expected = not_stored(StableStage(older.noise, 21, 1, Fraction(1)), posterior.grid[1:])
    assert np.allclose(posterior.joint[1:].sum(axis=1), expected)


def test_zeros_have_a_share_of_every_prior() -> None:
    """Mutants: keys of both signs on one side; a value that no file may have overflows."""
    plan = _plan("tight-alp", 1e-6)
    values = np.array([500, 1 << 62])
    for problem, share in ((plan.problem, 0.1), (replace(plan.problem, signed=True), 0.55)):
        assert fit_prior(problem, plan.stage, values).law[0] == pytest.approx(share)


def test_the_weights_of_frequent_keys_cost_no_more_than_a_share_of_the_lead() -> None:
    """Mutants: the limit of the rivals; the first weights beyond the limit."""
    grid = np.arange(200)
    rate = 0.1
    joint = np.exp(-rate * np.abs(np.arange(150) - grid[:, None]))
    joint *= (1 - math.exp(-rate)) / (1 + math.exp(-rate))
    joint[:, 0] /= 1 - math.exp(-rate)
    law = np.append(0.1, 0.9 / (grid[1:] * (grid[1:] + 1.0)))

    def error(answers: Floats) -> float:
        return float(law @ (joint * np.abs(answers - grid[:, None])).sum(axis=1))

    weights = tilted(grid, joint, law, rate)
    best, chosen = error(quantiles(grid, joint, law, 0.5)), error(quantiles(grid, joint, weights, 0.5))
    rival = min(error(np.zeros(150)), error(np.maximum(np.arange(150.0), 0)))
    assert best < chosen <= best + fitting.GIVEN_SHARE * (rival - best)
    power = np.diff(np.log(weights / law)) / np.diff(np.log1p(rate * grid))
    assert np.allclose(power, power[0])
    steeper = weights * (1 + rate * grid) ** 0.25
    assert power[0] == fitting.TILTS[-1] or error(quantiles(grid, joint, steeper, 0.5)) > best + 0.6 * (rival - best)


def test_quantiles_are_those_of_the_posterior() -> None:
    joint = np.array([[0.5, 0.1], [0.5, 0.9]])
    assert quantiles(np.array([0, 7]), joint, np.array([1.0, 1.0]), 0.5).tolist() == [0, 7]
    assert quantiles(np.array([0, 7]), joint, np.array([1.0, 1.0]), 0.05).tolist() == [0, 0]


def test_rankings_and_tables_use_it_and_lookups_do_not() -> None:
    release = released(heavy(), "tight-alp", 1e-6)
    keys = np.arange(5000)
    fitted = release.lookup(keys, prior="fitted")
    assert release.to_pandas(keys)["estimate"].tolist() == fitted.tolist()
    assert release.top(100, keys).estimates.tolist() == np.sort(fitted)[::-1][:100].tolist()
    assert release.to_pandas(keys)["high"].tolist() == release.interval(keys, prior="fitted")[1].tolist()
    assert release.lookup(keys).tolist() != fitted.tolist()
    assert released(heavy(), "stability", 1e-6).table_prior == "flat"


def test_grids_have_all_small_counts_and_end_where_they_should() -> None:
    grid = count_grid(2.5, 40, 1000)
    assert grid[:30].tolist() == list(range(30))
    assert 40 in grid
    assert np.diff(grid[grid <= 40]).max() <= 2
    assert grid[-1] >= 1000
    assert count_grid(0.001, 0, 0).tolist() == [0, 1]
    assert Fraction(int(grid[-1]), int(grid[-2])) < Fraction(9, 8)
