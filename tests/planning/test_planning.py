"""Plans: sizes before data, the choice of a mechanism, and the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsedp
from sparsedp.errors import ParameterError
from sparsedp.mechanisms import MECHANISMS
from sparsedp.mechanisms.alp import AlpPlan
from sparsedp.mechanisms.sizing import EffectiveSize
from sparsedp.mechanisms.stability import StabilityPlan
from sparsedp.mechanisms.threshold_alp import ThresholdAlpPlan
from sparsedp.planning.request import Request
from sparsedp.privacy.randomness import reproducible_for_tests

VARIANTS: dict[str, dict[str, Any]] = {
    "pure": {},
    "delta": {"delta": 1e-6},
    "users": {"delta": 1e-6, "max_keys_per_user": 5},
    "gaussian": {"delta": 1e-6, "max_keys_per_user": 50, "noise": "gaussian"},
    "parts": {"parts": 4},
    "parts, delta": {"delta": 1e-6, "parts": 16},
    "signed": {"signed": True},
    "names": {"delta": 1e-6, "keep_keys": True},
}


def threshold_alp(**parameters: float) -> ThresholdAlpPlan:
    plan = sparsedp.plan(mechanism="threshold-alp", **parameters)  # type: ignore[arg-type]  # keywords by name
    assert isinstance(plan, ThresholdAlpPlan)
    return plan


def test_the_papers_parameters_are_the_defaults() -> None:
    plan = threshold_alp(epsilon=1.0, nonzero=1000)
    assert plan.embedding.columns.rows == 10_000
    assert float(plan.embedding.columns.flip_probability) == pytest.approx(1 / 5, abs=2**-16)
    assert plan.stage is not None
    # t = ln(d/2)/ε₁ for Laplace noise; the geometric law needs the same, to within one count
    assert plan.stage.threshold == pytest.approx(np.log(2**63) / 0.5, abs=2)
    assert plan.embedding.columns.levels == 15  # m = ⌈t ε₂/α⌉


def test_the_papers_threshold_stays_available() -> None:
    tight = sparsedp.plan(1.0, 1e-9, mechanism="stability")
    paper = sparsedp.plan(1.0, 1e-9, mechanism="stability", threshold_rule="paper")
    assert isinstance(tight, StabilityPlan)
    assert isinstance(paper, StabilityPlan)
    assert paper.stage.threshold == 23  # ⌈ln(10⁹) + 2⌉
    assert tight.stage.threshold == 22
    assert paper.delta < tight.delta <= 1e-9


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("step", [None, 0.1])
@pytest.mark.parametrize("sensitivity", [1, 5])
def test_no_plan_spends_more_than_it_was_given(mechanism: str, step: float | None, sensitivity: int) -> None:
    for epsilon in (0.05, 0.7, 3.0, 20.0):
        plan = sparsedp.plan(
            epsilon, 1e-6, nonzero=50, upper=40, domain=5000, step=step, sensitivity=sensitivity, mechanism=mechanism
        )
        assert 0 < plan.epsilon <= epsilon
        assert 0 <= plan.delta <= 1e-6
        if mechanism in ("laplace", "threshold", "stability"):
            assert plan.epsilon > 0.9999 * epsilon


def as_assumed(keys: int, unit: int) -> np.ndarray:
    """Counts of which as many are above each value as `Problem.keys_above` assumes, in units of the
    noise.
    """
    return np.maximum(1, np.rint(unit * (keys / (np.arange(keys) + 0.5) - 1))).astype(np.int64)


def size_and_prediction(mechanism: str, counts: np.ndarray, **parameters: Any) -> tuple[int, int]:
    with reproducible_for_tests(30):
        release = sparsedp.release(
            (np.arange(len(counts)), counts), epsilon=1.0, nonzero=len(counts), mechanism=mechanism, **parameters
        )
    assert release.plan.nbytes is not None
    return release.nbytes, release.plan.nbytes


@pytest.mark.parametrize("keys", [3, 2000])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_predicted_size_is_the_size_of_the_release(mechanism: str, variant: str, keys: int) -> None:
    """Catches a header or an array that is left out, and a table as if every key were stored."""
    parameters = VARIANTS[variant]
    if mechanism in ("laplace", "compact"):
        parameters = parameters | {"domain": 10 * keys, "upper": 600}
    try:
        sparsedp.plan(1.0, nonzero=keys, mechanism=mechanism, **parameters)
    except ParameterError:  # not every mechanism has parts, a pure guarantee or names
        return
    counts = as_assumed(keys, parameters.get("max_keys_per_user", 1))
    size, predicted = size_and_prediction(mechanism, counts, **parameters)
    assert predicted == pytest.approx(size, rel=0.15)


@pytest.mark.parametrize("mechanism", ["alp", "laplace", "compact"])
def test_the_size_of_what_has_no_table_is_known_to_the_line(mechanism: str) -> None:
    size, predicted = size_and_prediction(mechanism, np.full(300, 500), domain=1 << 16, upper=600)
    assert abs(predicted - size) <= 2 * 64


def test_all_mechanisms_assume_the_same_counts() -> None:
    """Catches a table that holds every key in one row and only frequent ones in another."""
    plans = {row.mechanism: row.plan for row in sparsedp.compare(1.0, 1e-9, nonzero=10_000)}
    stored = {}
    for name in ("threshold", "stability", "tight-alp, δ > 0", "retrieval"):
        plan = plans[name]
        assert plan is not None
        assert plan.expected_stored is not None
        stored[name] = (plan.smallest_stored, plan.expected_stored)
    for threshold, keys in stored.values():
        assert keys == pytest.approx(10_000 / (1 + threshold), rel=0.05)  # tight-alp counts on more zeros
    sizes = [plans[name].nbytes for name in ("stability", "tight-alp, δ > 0", "retrieval")]  # type: ignore[union-attr]  # all are possible
    assert sizes == sorted(sizes)  # type: ignore[type-var]  # and known


def test_auto_follows_the_papers_suggestions() -> None:
    assert sparsedp.plan(1.0, domain=1000, nonzero=10).mechanism == "laplace"
    assert sparsedp.plan(1.0, domain=10**7, nonzero=5 * 10**6).mechanism == "laplace"
    assert sparsedp.plan(1.0, domain=10**9, nonzero=1000).mechanism == "tight-alp"
    pure, approximate = sparsedp.plan(1.0, nonzero=1000), sparsedp.plan(1.0, 1e-9, nonzero=1000)
    assert (pure.mechanism, approximate.mechanism) == ("tight-alp", "retrieval")
    assert pure.delta == 0 < approximate.delta
    assert "sparse" in pure.reason
    assert pure.nbytes is not None
    assert approximate.nbytes is not None
    assert approximate.nbytes > pure.nbytes  # less error takes more space


def test_a_known_total_sizes_the_embedding_by_it() -> None:
    # The paper's O(nε) variant: at most n ε₂/α keys set their first bit in expectation.
    plan = sparsedp.plan(0.3, total=10_000, upper=100, mechanism="alp")
    assert isinstance(plan, AlpPlan)
    assert plan.embedding.columns.rows == pytest.approx(10 * 10_000 * 0.3 / 3, rel=0.01)


def test_an_unknown_size_is_estimated_with_a_stated_share() -> None:
    counts = dict.fromkeys(range(5000), 3)
    with reproducible_for_tests(31):
        release = sparsedp.release(counts, epsilon=1.0, mechanism="threshold-alp", scaling="exact")
    problem = release.plan.problem
    assert problem.nonzero is not None
    assert 5000 - 300 < problem.nonzero < 5000 + 600
    assert float(problem.sizing_loss) == pytest.approx(0.02, rel=1e-4)
    assert 0.999 < release.epsilon <= 1.0


@pytest.mark.parametrize("outlier", [0.0, 1e12])
def test_an_unknown_size_of_a_real_vector_is_estimated_through_its_cut_total(outlier: float) -> None:
    # 5000 values of 0.7 are 35 000 cells; from 11 cells (one noise scale) on, a key counts as one.
    values = np.append(np.full(5000, 0.7), outlier)
    with reproducible_for_tests(32):
        release = sparsedp.release((np.arange(5001), values), epsilon=1.0, step=0.1, mechanism="threshold-alp")
    nonzero = release.plan.problem.nonzero
    assert nonzero is not None
    assert 35_000 / 11 - 200 < nonzero < 35_000 / 11 + 600
    assert 0.99 < release.epsilon <= 1.0


def test_the_noisy_size_is_rarely_too_small() -> None:
    sizing = EffectiveSize.plan(Request(epsilon=1.0).problem, 0.02)
    assert float(sizing.law.at_least(sizing.margin)) < 0.01


def test_signed_values_double_the_space_but_not_the_loss() -> None:
    one, two = (threshold_alp(epsilon=1.0, nonzero=1000, signed=signed) for signed in (False, True))
    assert two.bits_per_entry == 16 * two.cells_nbytes / 1000
    assert two.embedding.columns.nbytes == one.embedding.columns.nbytes
    assert one.expected_stored < 2 * two.expected_stored < one.expected_stored + 2  # each of the keys has one sign
    assert two.epsilon == one.epsilon
    assert sparsedp.plan(1.0, domain=100, signed=True, mechanism="laplace").releases == 1


def test_comparison_shows_every_mechanism_or_says_why_not() -> None:
    comparison = sparsedp.compare(epsilon=1, delta=1e-9, nonzero=100_000, domain=2**64)
    names = [row.mechanism for row in comparison]
    assert names == [
        "laplace",
        "threshold",
        "compact",
        "alp",
        "threshold-alp",
        "threshold-alp, δ > 0",
        "stability",
        "tight-alp",
        "tight-alp, δ > 0",
        "retrieval",
    ]
    text = str(comparison)
    for name in names:
        assert name in text
    assert "not possible" in comparison["laplace"].refusal
    plan = comparison["threshold-alp, δ > 0"].plan
    assert plan is not None
    assert 0 < plan.delta <= 1e-9
    with pytest.raises(KeyError):
        comparison["no such row"]


def test_every_mechanism_is_possible_in_a_small_comparison() -> None:
    comparison = sparsedp.compare(epsilon=1, delta=1e-9, nonzero=100, domain=10**6)
    assert all(row.plan is not None for row in comparison)
    assert str(comparison).count("\n") >= len(comparison.rows)


def test_an_embedding_without_any_size_is_refused() -> None:
    with pytest.raises(ParameterError, match="nonzero= or total="):
        sparsedp.plan(1.0, mechanism="threshold-alp")
    with pytest.raises(ParameterError, match="nonzero= or total="):
        sparsedp.plan(1.0, mechanism="compact")


def test_a_domain_too_small_to_threshold_is_sent_to_laplace() -> None:
    with pytest.raises(ParameterError, match="laplace"):
        sparsedp.plan(1.0, domain=2, nonzero=1, mechanism="threshold")
    assert sparsedp.plan(1.0, domain=1).mechanism == "laplace"


def test_error_curves_show_the_plan_beside_the_paper_and_the_limit(tmp_path: Path) -> None:
    curves = sparsedp.error_curves(sparsedp.plan(1.0, nonzero=1000), [0, 5, 20, 100])
    assert list(curves.errors) == ["tight-alp", "threshold-alp", "threshold", "dense noise"]
    tight, paper, threshold, dense = curves.errors.values()
    assert all(limit <= error * 1.001 for limit, error in zip(dense, tight, strict=True))
    assert tight[1] < paper[1] / 3
    assert threshold[2] == 20
    assert "true value" in str(curves)
    for name in ("curves.png", "curves.svg"):
        curves.plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5000


def test_a_plan_prints_what_it_promises() -> None:
    text = str(sparsedp.plan(1.0, nonzero=100, mechanism="compact"))
    for part in ("compact", "ε = 0.99999", "bits per key", "assumes", "mean absolute error"):
        assert part in text
    assert "size unknown" in str(sparsedp.plan(1.0, 1e-9, mechanism="stability"))


def test_a_dense_plan_of_unknown_keys_prints() -> None:
    assert "1984 bytes planned," in str(sparsedp.plan(1.0, mechanism="laplace", domain=100))


def test_a_tiny_number_of_stored_zeros_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least 1e-9"):  # it never ended, and took all memory
        sparsedp.plan(1.0, mechanism="threshold", stored_zeros=1e-40)
    assert sparsedp.plan(1.0, mechanism="threshold", stored_zeros=1e-9).epsilon <= 1


def test_a_tiny_delta_is_left_to_tight_alp() -> None:
    assert sparsedp.plan(1.0, 1e-20, nonzero=100).mechanism == "tight-alp"
    assert sparsedp.release({"a": 3}, epsilon=1.0, delta=1e-20).delta <= 1e-20
