"""One list of public parameters: every signature has those of the request, and the search for a
plan runs once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import sparsedp
from sparsedp import ParameterError
from sparsedp.counting.request import Counting
from sparsedp.mechanisms import MECHANISMS, MechanismOptions, layouts
from sparsedp.mechanisms.alp import AlpPlan
from sparsedp.planning.request import Request
from sparsedp.structures.linear_system import LinearSystem

REQUEST = {field.name for field in fields(Request)} - {"options", "contribution"}
COUNTING = {field.name: field.default for field in fields(Counting)}


@pytest.mark.parametrize(
    ("function", "missing", "besides"),
    [
        (sparsedp.release, set(), {"counts", "path", "key_type", "ledger", "dataset", "options"}),
        (sparsedp.plan, {"sizing_share"}, {"options"}),
        (sparsedp.compare, {"mechanism", "parts", "keep_keys", "sizing_share"}, set()),
    ],
)
def test_public_functions_take_the_parameters_of_the_request(
    function: Callable[..., Any], missing: set[str], besides: set[str]
) -> None:
    # Catches a parameter that one of them lacks, or that has another default there.
    taken = inspect.signature(function).parameters
    assert set(taken) - besides == REQUEST - missing
    for field in fields(Request):
        if field.name in taken and field.name not in ("epsilon", "sensitivity", "nonzero", "options"):
            assert taken[field.name].default == field.default, field.name


def test_releases_on_spark_take_the_parameters_of_both_requests() -> None:
    left_out = {"sensitivity"}  # bounds give it
    of_files = {"key_type", "memory_limit", "delimiter", "quote", "encoding", "hive"}
    expected = (REQUEST - left_out) | (set(COUNTING) - of_files)
    of_release = {"df", "path", "ledger", "dataset", "options"}
    assert set(inspect.signature(sparsedp.spark.release).parameters) - of_release == expected
    assert set(inspect.signature(sparsedp.spark.plan).parameters) - {"df", "options"} == expected


def test_count_takes_the_parameters_of_its_request() -> None:
    taken = inspect.signature(sparsedp.count).parameters
    own = {"source", "epsilon", "delta", "ledger", "dataset"}  # the last four are for max_keys_per_user="auto"
    assert set(taken) - own == set(COUNTING)
    assert all(taken[name].default == default for name, default in COUNTING.items() if name != "key")


def test_every_parameter_is_documented_at_release() -> None:
    words = inspect.getdoc(sparsedp.release) or ""
    names = [line.split(", ") for line in words[words.index("Parameters") :].splitlines() if not line.startswith(" ")]
    assert {name for line in names for name in line} >= REQUEST


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_mechanism_declares_the_options_that_it_takes(mechanism: str) -> None:
    # Catches an option that is declared and not taken, or taken and not declared: the first would
    # fail late, the second would be refused.
    _, *taken = inspect.signature(MECHANISMS[mechanism].create).parameters.values()
    assert [parameter.name for parameter in taken] == [option.name for option in MECHANISMS[mechanism].options]
    for parameter, option in zip(taken, MECHANISMS[mechanism].options, strict=True):
        assert option.optional == (parameter.default is None)
        assert option.number != isinstance(parameter.default, str)
        assert option.meaning


def test_the_options_that_type_checkers_know_are_those_of_all_mechanisms() -> None:
    declared = {option.name: option for mechanism in MECHANISMS.values() for option in mechanism.options}
    hints = get_type_hints(MechanismOptions)
    assert set(hints) == set(declared)
    for name, option in declared.items():
        assert (hints[name] is str) != option.number


def test_every_mechanism_says_which_privacy_it_has() -> None:
    assert all(plan.pure or plan.approximate for plan in MECHANISMS.values())
    assert [plan.row for plan in MECHANISMS.values()] == list(range(1, len(MECHANISMS) + 1))


def test_two_mechanisms_cannot_have_one_name() -> None:
    # Catches a copy of a mechanism that takes the place of the first.
    with pytest.raises(TypeError, match="two mechanisms 'alp'"):
        type("Another", (AlpPlan,), {"mechanism": "alp"})


def test_a_parameter_that_a_function_does_not_take_is_not_offered() -> None:
    with pytest.raises(ParameterError, match="this function does not take sizing_share"):
        sparsedp.plan(1.0, nonzero=100, sizing_share=0.1)  # type: ignore[call-arg]


def test_an_option_of_tight_alp_decides_for_it() -> None:
    plan = sparsedp.plan(1.0, 1e-6, nonzero=10_000, bits_per_entry=50)
    assert (plan.mechanism, plan.reason) == ("tight-alp", "approximate privacy, and it takes bits_per_entry")


@pytest.mark.parametrize(("wrong", "meant"), [("nonzer", "nonzero"), ("sensitivty", "sensitivity"), ("alpa", "alpha")])
def test_a_misspelt_parameter_is_told_its_neighbour(wrong: str, meant: str) -> None:
    with pytest.raises(ParameterError, match=f"no option '{wrong}'.*did you mean '{meant}'"):
        sparsedp.release({"a": 1}, epsilon=1.0, mechanism="alp", **{wrong: 5})  # type: ignore[arg-type]


COUNTS = (np.arange(500), np.full(500, 3))


@pytest.mark.parametrize("asked", [{"nonzero": 500}, {}, {"nonzero": 500, "mechanism": "tight-alp"}, {"parts": 3}])
def test_a_ladder_is_searched_once_for_a_release(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Catches a dry run that searches for a plan that is then searched again.
    searched = []
    best = layouts.best_blocks

    def watched(*given: Any) -> Any:
        searched.append(given)
        return best(*given)

    monkeypatch.setattr("sparsedp.mechanisms.tight_alp.best_blocks", watched)
    sparsedp.release(COUNTS, epsilon=1.0, path=tmp_path / "release", **asked)
    assert len(searched) == 1


def test_a_system_is_searched_once_for_a_public_size(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    smallest = LinearSystem.smallest

    def watched(*given: Any) -> Any:
        searched.append(given)
        return smallest(*given)

    monkeypatch.setattr(LinearSystem, "smallest", watched)
    for noise in ("geometric", "gaussian"):
        sparsedp.release(COUNTS, epsilon=1.0, delta=1e-6, nonzero=500, mechanism="retrieval", noise=noise)
        assert len(searched) == 1
        searched.clear()
