"""The planner gives what the library plans, quickly again what it has planned, and text that works."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import sparsedp
from commands import Command
from requests_in_process import Answer, ask
from serving import Running
from sparsedp import demo
from sparsedp.mechanisms import MECHANISMS
from sparsedp.serve import planner


def get(served: Running, path: str, **parameters: Any) -> Answer:
    return ask(served.app, "GET", f"/v1/{path}?{urlencode(parameters)}")


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        ({}, {"epsilon": 1.0, "nonzero": 100_000, "max_keys_per_user": 1}),
        (
            {"epsilon": "0.5", "delta": "1e-9", "nonzero": "1e6", "max_keys_per_user": "20"},
            {"epsilon": 0.5, "delta": 1e-9, "nonzero": 10**6, "max_keys_per_user": 20},
        ),
        (
            {"domain": "2^20", "nonzero": "1000", "max_per_key": "3"},
            {"epsilon": 1.0, "domain": 2**20, "nonzero": 1000, "max_keys_per_user": 1, "max_per_key": 3},
        ),
        (
            {"mechanism": "threshold-alp", "domain": ""},
            {"epsilon": 1.0, "nonzero": 100_000, "mechanism": "threshold-alp", "max_keys_per_user": 1},
        ),
    ],
)
def test_a_plan_is_that_of_the_library(served: Running, parameters: dict[str, str], arguments: dict[str, Any]) -> None:
    plan, got = sparsedp.plan(**arguments), get(served, "plan", **parameters).json
    assert {name: got[name] for name in ("mechanism", "epsilon", "delta", "nbytes", "bits_per_entry", "reason")} == {
        "mechanism": plan.mechanism,
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "nbytes": plan.nbytes,
        "bits_per_entry": plan.bits_per_entry,
        "reason": plan.reason,
    }
    first = got["errors"][0]
    assert first["count"] == 0
    assert first["mean_absolute"] == pytest.approx(plan.error(0).mean_absolute, rel=0.1)  # both are simulated


def test_a_comparison_has_every_mechanism_and_the_choice_of_auto(served: Running) -> None:
    got = get(served, "compare", delta="1e-9", max_keys_per_user="20").json
    rows = {row["mechanism"]: row for row in got["mechanisms"]}
    assert {name.partition(",")[0] for name in rows} == set(MECHANISMS)
    chosen = rows[got["chosen"]]
    plan = sparsedp.plan(1.0, 1e-9, nonzero=100_000, max_keys_per_user=20)
    assert chosen["nbytes"] == pytest.approx(plan.nbytes, abs=256)  # the file says why the mechanism was chosen
    assert chosen["epsilon"] == plan.epsilon
    assert got["reason"] == plan.reason
    for row in rows.values():
        assert len(row["errors"]) == len(got["counts"])
        assert (row["note"] is None) == (row["nbytes"] is not None)
        assert row["paper"] == (row["mechanism"].partition(",")[0] in ("alp", "threshold-alp"))
    assert rows["laplace"]["errors"] == [None] * len(got["counts"])
    assert got["counts"] == sorted(set(got["counts"]))


def test_the_choice_is_a_row_also_where_names_have_additions(served: Running) -> None:
    for parameters in ({"delta": "1e-15"}, {"delta": "1e-9", "nonzero": "10"}, {"mechanism": "alp"}, {"domain": "100"}):
        got = get(served, "compare", **parameters).json
        assert got["chosen"] in [row["mechanism"] for row in got["mechanisms"]]


def test_what_was_planned_is_kept(served: Running) -> None:
    get(served, "compare", epsilon="1.5")
    before = planner.compared.cache_info()
    assert get(served, "compare", epsilon="1.50", delta="0.0").status == 200
    after = planner.compared.cache_info()
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)
    assert after.maxsize == planner.KEPT


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"epsilon": "0"}, "epsilon must be in 0.01..30, got 0"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"epsilon": "nan"}, "epsilon must be a number"),
        ({"epsilon": "1e999"}, "epsilon must be a number"),
        ({"epsilon": "9^9^9"}, "epsilon must be a number"),
        ({"epsilon": "1" * 10_000}, "epsilon must be a number"),
        ({"epsilon": ""}, "epsilon must be a number"),
        ({"delta": "0.5"}, "delta must be 0 or in 1e-18..0.01, got 0.5"),
        ({"delta": "1e-30"}, "delta"),
        ({"nonzero": "0"}, "nonzero"),
        ({"nonzero": "1.5"}, "nonzero must be a whole number"),
        ({"nonzero": "1e13"}, "nonzero"),
        ({"domain": "2^65"}, "domain"),
        ({"max_keys_per_user": "1e9"}, "max_keys_per_user"),
        ({"max_per_key": "0.5"}, "max_per_key"),
        ({"mechanism": "laplac"}, "one of laplace"),
        ({"noise": "loud"}, "noise must be"),
        ({"noise": "gaussian"}, "delta > 0"),
        ({"mechanism": "retrieval"}, "delta > 0"),
        ({"nonzer": "5"}, "no parameter"),
    ],
)
@pytest.mark.parametrize("path", ["plan", "compare"])
def test_parameters_are_refused_with_the_fix(
    served: Running, path: str, parameters: dict[str, str], words: str
) -> None:
    got = get(served, path, **parameters)
    assert got.status == 400
    assert words in got.error


TEXTS: list[dict[str, str]] = [
    {"nonzero": "1000", "max_keys_per_user": "20"},
    {"epsilon": "0.35", "delta": "1e-9", "nonzero": "1000", "max_per_key": "2", "mechanism": "tight-alp"},
    {"delta": "1e-6", "nonzero": "1000", "noise": "gaussian", "max_keys_per_user": "30"},
    {"domain": "1000", "nonzero": "1000"},
]


def asked_for(parameters: dict[str, str]) -> planner.Asked:
    written = {"epsilon": "1", "delta": "0", "max_keys_per_user": "1", "max_per_key": "1", "nonzero": "100000"}
    return planner.Asked.read({**written, "domain": "", "mechanism": "auto", "noise": "auto", **parameters})


def write_visits(parameters: dict[str, str]) -> None:
    if "domain" in parameters:
        Path("visits.csv").write_text("user,item\nann,5\nbob,7\n", encoding="ascii")
    else:
        demo.write_log("visits.csv")


@pytest.mark.parametrize("parameters", TEXTS)
def test_the_command_makes_the_planned_release(
    parameters: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_visits(parameters)
    program, *arguments = shlex.split(planner.command(asked_for(parameters)))
    assert program == "sparsedp"
    ended = Command(*arguments).wait()
    assert ended.returncode == 0, ended.stderr
    check_release(parameters)


@pytest.mark.parametrize("parameters", TEXTS)
def test_the_python_text_makes_the_planned_release(
    parameters: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_visits(parameters)
    exec(planner.python(asked_for(parameters)), {})
    check_release(parameters)


def check_release(parameters: dict[str, str]) -> None:
    made, planned = sparsedp.load("visits.sparsedp"), planner.planned(asked_for(parameters))
    assert (made.mechanism, made.epsilon, made.delta) == (planned["mechanism"], planned["epsilon"], planned["delta"])
    assert made.plan.problem.contribution is not None
    assert made.plan.problem.contribution.keys == int(parameters.get("max_keys_per_user", "1"))
