"""Public parameters are checked before the data is read; the public names are pinned."""

from __future__ import annotations

import inspect
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sparsedp
from sparsedp import ParameterError, SparseDPError
from sparsedp.mechanisms import MECHANISMS
from sparsedp.planning.request import Request

NAN, INFINITY = float("nan"), float("inf")


class Untouchable:
    """Data that raises when anything reads it."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"the data was touched: {name}")


def test_data_is_touched_when_the_parameters_are_right() -> None:
    with pytest.raises(AssertionError, match="the data was touched"):
        sparsedp.release(Untouchable(), epsilon=1)


WRONG: list[tuple[dict[str, Any], str]] = [
    *(({"epsilon": bad}, "epsilon must be positive, got") for bad in (0, -1, -0.0)),
    *(({"epsilon": bad}, "epsilon must be a finite number, got") for bad in (NAN, INFINITY, -INFINITY)),
    *(({"epsilon": bad}, "epsilon must be a finite number, got") for bad in ("1", b"1", None, True, [1], 1j, 10**400)),
    ({"epsilon": 1e-9}, "epsilon * step / sensitivity must be at least 1e-6, got 1e-09 * 1 / 1; use a larger step"),
    *(({"delta": bad}, "delta must be in [0, 1), got") for bad in (-1e-300, 1, 2)),
    *(({"delta": bad}, "delta must be a finite number, got") for bad in ("0", None, False, [0], NAN, INFINITY)),
    *(({"nonzero": bad}, "nonzero must be positive, got") for bad in (0, -5)),
    *(({"nonzero": bad}, "nonzero must be a whole number, got") for bad in (0.5, 1.5, Fraction(7, 2))),
    *(({"nonzero": bad}, "nonzero must be a finite number, got") for bad in ("5", True, NAN, INFINITY, [5])),
    *(({"domain": bad}, "domain must be positive, got") for bad in (0, -1)),
    ({"domain": (1 << 64) + 1}, "domain must be in 1..2^64, got 18446744073709551617"),
    ({"domain": 2.5}, "domain must be a whole number, got 2.5"),
    *(({"domain": bad}, "domain must be a finite number, got") for bad in ("10", True, NAN, INFINITY)),
    *(({"step": bad}, "step must be positive, got") for bad in (0, -0.5)),
    *(({"step": bad}, "step must be a finite number, got") for bad in ("0.5", NAN, INFINITY, True)),
    ({"step": 1e-30}, "step must be a ratio of integers below 2^53, got 1e-30; use a rounder one"),
    *(({"total": bad}, "total must be positive, got") for bad in (0, -3.5)),
    *(({"total": bad}, "total must be a finite number, got") for bad in ("9", NAN)),
    ({"total": 10**400}, "total must be at most 2^125, the most that counts can add up to, got 1.00e+400"),
    ({"total": 1e40, "step": 0.5}, "total must be at most 2^125 steps of 0.5, the most that counts can add up to"),
    *(({"upper": bad}, "upper must be positive, got") for bad in (0, -1)),
    *(({"upper": bad}, "upper must be a finite number, got") for bad in ("9", INFINITY, True)),
    *(({"sensitivity": bad}, "sensitivity must be positive, got") for bad in (0, -1)),
    *(({"sensitivity": bad}, "sensitivity must be a finite number, got") for bad in ("1", NAN, INFINITY, True)),
    *(({"sensitivity": bad}, "sensitivity must be at least 1 (one count), got") for bad in (0.5, 0.999)),
    *(({"sizing_share": bad}, "sizing_share must be") for bad in (0, 1, -0.1, 2, NAN, INFINITY, "0.1")),
    ({"sizing_share": 5e-324}, "sizing_share must be at least 1e-06, got 5e-324"),
    ({"sizing_share": 1.5, "nonzero": 5}, "sizing_share must be in (0, 1), got 1.5"),
    *(({"alpha": bad}, "alpha must be in [0.05, 1000], got") for bad in (0, -1, 0.01, 1001)),
    *(({"size_factor": bad}, "size_factor (rows per non-zero key) must be above 2, got") for bad in (2, 0, -1)),
    *(({"split": bad}, "must be in (0, 1), got") for bad in (0, 1, -1, 2)),
    *(({"stored_zeros": bad}, "stored_zeros must be at least 1e-9 and below the domain, got") for bad in (0, -1)),
    *(
        ({option: bad}, f"{option} must be a finite number, got")
        for option in ("alpha", "size_factor", "split", "stored_zeros")
        for bad in (NAN, INFINITY, "2", True, None)
    ),
    ({"scaling": "rough"}, "scaling must be 'paper' or 'exact', got 'rough'"),
    ({"threshold_rule": "loose", "delta": 1e-9}, "threshold_rule must be 'tight' or 'paper', got 'loose'"),
    ({"mechanism": "laplase"}, "there is no mechanism 'laplase'; did you mean 'laplace'?"),
    ({"mechanism": "treshold-alp"}, "there is no mechanism 'treshold-alp'; did you mean 'threshold-alp'?"),
    ({"mechanism": "stable"}, "there is no mechanism 'stable'; did you mean 'stability'?"),
    ({"mechanism": "quantum"}, f"there is no mechanism 'quantum'; choose one of {', '.join(MECHANISMS)}"),
    ({"mechanism": None}, "there is no mechanism None"),
    ({"alpah": 2.0}, "mechanism 'threshold-alp' has no option 'alpah'; it takes alpha, size_factor"),
    ({"mechanism": "alp", "split": 0.5}, "mechanism 'alp' has no option 'split'; it takes alpha"),
    ({"mechanism": "laplace", "domain": 9, "alpha": 3}, "has no option 'alpha'; it takes no options"),
    ({"mechanism": "laplace"}, "domain must be at most 2^32, got none, which is 2^64; pass domain="),
    ({"mechanism": "stability"}, "needs delta > 0, got 0"),
    ({"mechanism": "compact"}, "compact needs a public nonzero= or total="),
    ({"mechanism": "compact", "nonzero": 10**6}, "compact is usable up to 20000 keys, got 1000000"),
    ({"mechanism": "threshold", "domain": 2}, "a threshold needs a domain of at least 3 keys, got 2"),
    ({"mechanism": "alp", "upper": 10**9}, "lower upper=, or use mechanism='threshold-alp'"),
]


@pytest.mark.parametrize(("parameters", "message"), WRONG, ids=lambda value: repr(value)[:60])
def test_a_wrong_parameter_is_refused_before_the_data_is_touched(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        sparsedp.release(Untouchable(), **{"epsilon": 1.0, "mechanism": "threshold-alp", **parameters})
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_parameters_may_be_numbers_of_any_exact_type() -> None:
    plain = Request(epsilon=1.0, nonzero=10, domain=100, upper=5, total=20, sensitivity=2, step=0.5).problem
    other = Request(
        epsilon=np.float64(1),
        nonzero=np.uint8(10),  # type: ignore[arg-type]  # NumPy integers are not int
        domain=100.0,  # type: ignore[arg-type]  # 1e2, say
        upper=np.int64(5),  # type: ignore[arg-type]
        total=Fraction(20),  # type: ignore[arg-type]
        sensitivity=np.float32(2),  # type: ignore[arg-type]
        step=Fraction(1, 2),
    ).problem
    assert plain == other


def test_numpy_integers_do_not_overflow_in_exact_arithmetic() -> None:
    problem = Request(epsilon=1, upper=np.int64(1 << 62), total=np.int64(1 << 62), step=0.1).problem  # type: ignore[arg-type]
    assert problem.total_cells == 10 << 62
    assert problem.upper_cells == 1 << 61


def test_decimals_are_taken_as_they_are_written() -> None:
    assert Request(epsilon=1, step=0.1).problem.neighbours.step == Fraction(1, 10)
    assert Request(epsilon=1, sensitivity=1.1).problem.neighbours.sensitivity == Fraction(11, 10)


@pytest.mark.parametrize("domain", [10.0, np.int64(10), np.float32(10), Fraction(10)])
def test_a_domain_may_be_a_whole_number_of_any_type(domain: Any) -> None:
    release = sparsedp.release({3: 5}, epsilon=1, domain=domain)
    assert release.key_space.domain == 10
    assert release.lookup(range(10)).shape == (10,)


@pytest.mark.parametrize("estimator", ["median", "", 3])
def test_an_unknown_estimator_is_refused(estimator: Any) -> None:
    with pytest.raises(ParameterError, match="estimator of mechanism 'laplace' must be one of 'paper', got"):
        sparsedp.release({3: 5}, epsilon=1, domain=10).lookup([3], estimator=estimator)


@pytest.mark.parametrize("ask", ["error_with_probability", "tail_probability", "error"])
@pytest.mark.parametrize("value", ["a", None, 10**400])
def test_what_a_plan_is_asked_for_is_a_number(ask: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=r"must be a finite number, got ('a'|None|10000)"):
        getattr(sparsedp.plan(1.0, nonzero=9), ask)(value)


@pytest.mark.parametrize(
    ("value", "samples", "message"),
    [
        (2**63, 1, r"value must be below 2\^63 steps"),
        (1e308, 1, r"value must be below 2\^63 steps"),
        (1, 0, "samples must be positive"),
        (1, 2.5, "samples must be a whole number"),
        (1, "a", "samples must be"),
        (1, 10**12, "samples must be at most 100,000,000"),
    ],
)
def test_predictions_of_what_cannot_be_are_refused(value: Any, samples: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        sparsedp.plan(1.0, nonzero=9).error(value, samples)


@pytest.mark.parametrize("failure", [0, -1, 1, 5e-324, 9e-301])
def test_a_failure_probability_has_an_inverse(failure: float) -> None:
    # Catches an OverflowError: 1/5e-324 is no float.
    for more in ({"nonzero": 9}, {"nonzero": 9, "signed": True}, {"domain": 9}):
        made = sparsedp.plan(1.0, **more)  # type: ignore[arg-type]
        assert made.error_with_probability(1e-300) > 0
        with pytest.raises(ParameterError, match=r"failure probability must be in \[1e-300, 1\), got"):
            made.error_with_probability(failure)


@pytest.mark.parametrize("confidence", ["a", None, [0.5]])
def test_a_confidence_is_a_number(confidence: Any) -> None:
    with pytest.raises(ParameterError, match="confidence must be a finite number, got"):
        sparsedp.release({3: 5}, epsilon=1, domain=10).interval([3], confidence)


@pytest.mark.parametrize("confidence", [0, 1, -1, 2, NAN])
def test_a_confidence_is_a_probability(confidence: float) -> None:
    with pytest.raises(ParameterError, match=r"confidence must be in \(0, 1\), got"):
        sparsedp.release({3: 5}, epsilon=1, domain=10).interval([3], confidence)


EXPORTED = {
    "BoundedCounts",
    "BudgetError",
    "Comparison",
    "Contribution",
    "ErrorCurves",
    "ErrorPrediction",
    "FormatError",
    "InputError",
    "KeyColumn",
    "KeyTypeError",
    "Ledger",
    "LedgerError",
    "MissingDependencyError",
    "OverloadWarning",
    "ParameterError",
    "Plan",
    "Release",
    "RemoteError",
    "ReproducibleReleaseError",
    "Series",
    "SparseDPError",
    "SpentError",
    "Suggestion",
    "SuggestionWarning",
    "compare",
    "count",
    "error_curves",
    "load",
    "plan",
    "release",
    "series",
    "suggest",
    "verify",
}


def test_the_exported_names_are_these() -> None:
    assert set(sparsedp.__all__) == EXPORTED
    assert list(sparsedp.__all__) == sorted(sparsedp.__all__)
    for name in EXPORTED:
        assert getattr(sparsedp, name).__name__ == name
        assert name in dir(sparsedp)
    assert {"lookup", "plan", "release"} <= set(dir(sparsedp.spark))
    with pytest.raises(AttributeError, match="no attribute 'relase'"):
        _ = sparsedp.relase  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = "import sys; before = set(sys.modules); import sparsedp; print(*set(sys.modules) - before)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert set(output.split()) & {"numpy", "cryptography", "duckdb", "pyarrow", "rich", "matplotlib"} == set()
    use = "import sys, sparsedp; sparsedp.release({'a': 1}, epsilon=1); print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, check=True).stdout
    assert set(output.split()) & {"pyarrow", "pandas", "polars", "rich", "flint", "matplotlib", "scipy"} == set()


def test_every_exception_is_one_of_ours_and_of_a_standard_kind() -> None:
    kinds = {
        sparsedp.ParameterError: ValueError,
        sparsedp.FormatError: ValueError,
        sparsedp.RemoteError: OSError,
        sparsedp.InputError: ValueError,
        sparsedp.KeyTypeError: TypeError,
        sparsedp.MissingDependencyError: ImportError,
    }
    for error, kind in kinds.items():
        assert issubclass(error, SparseDPError)
        assert issubclass(error, kind)
    assert issubclass(sparsedp.KeyTypeError, sparsedp.InputError)


def test_no_argument_of_a_release_sets_its_seed_or_its_randomness() -> None:
    named = set(inspect.signature(sparsedp.release).parameters) - {"options"}
    assert named == {
        *("counts", "epsilon", "delta", "mechanism", "nonzero", "total", "upper", "domain"),
        *(
            "sensitivity",
            "max_keys_per_user",
            "max_per_key",
            "noise",
            "step",
            "signed",
            "parts",
            "path",
            "keep_keys",
            "key_type",
            "sizing_share",
            "noise",
            "max_keys_per_user",
            "max_per_key",
            "ledger",
            "dataset",
        ),
    }
    for mechanism in MECHANISMS:
        options = inspect.signature(MECHANISMS[mechanism].create).parameters
        assert not {"seed", "random", "randomness", "rng", "hash_seed"} & {*named, *options}
        with pytest.raises(ParameterError, match="has no option 'seed'"):
            sparsedp.release({}, epsilon=1, delta=0.1, nonzero=5, domain=9, mechanism=mechanism, seed=1)  # type: ignore[call-arg]
