"""What no parameter can be is refused in one line that names the parameter, whatever object it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparsedp
from sparsedp import FormatError, ParameterError
from sparsedp.reach import pandas as reach_pandas
from sparsedp.reach.answering import questions

assert reach_pandas  # which gives a Series its accessor

EVENTS = pd.DataFrame({"user": [1, 2, 3], "page": ["a", "a", "b"]})
COUNTED: dict[str, Any] = {"key": "page", "user": "user"}
RELEASE = sparsedp.release({"a": 500}, epsilon=1)
PLAN = sparsedp.plan(1, nonzero=10)

ARGUMENTS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "mechanism": ("there is no mechanism", lambda own: sparsedp.release({"a": 5}, epsilon=1, mechanism=own)),
    "mechanism of a plan": ("there is no mechanism", lambda own: sparsedp.plan(1, nonzero=9, mechanism=own)),
    "mechanism of suggest": (
        "there is no mechanism",
        lambda own: sparsedp.suggest(EVENTS, epsilon=1, mechanism=own, **COUNTED),
    ),
    "noise": ("noise must be", lambda own: sparsedp.release({"a": 5}, epsilon=1, noise=own)),
    "dataset": ("dataset needs", lambda own: sparsedp.release({"a": 5}, epsilon=1, dataset=own)),
    "estimator": ("estimator of mechanism", lambda own: RELEASE.lookup(["a"], estimator=own)),
    "prior": ("prior of mechanism", lambda own: RELEASE.lookup(["a"], prior=own)),
    "prior of an interval": ("prior of mechanism", lambda own: RELEASE.interval(["a"], prior=own)),
    "delta of suggest": ("delta must be", lambda own: sparsedp.suggest(EVENTS, epsilon=1, delta=own, **COUNTED)),
    "delta of count": (
        "delta must be",
        lambda own: sparsedp.count(EVENTS, max_keys_per_user="auto", epsilon=1, delta=own, **COUNTED),
    ),
    "nulls": ("nulls must be", lambda own: sparsedp.count(EVENTS, max_keys_per_user=1, nulls=own, **COUNTED)),
    "confidence": ("confidence must be", lambda own: questions(RELEASE, own)),
    "confidence of pandas": ("confidence must be", lambda own: pd.Series(["a"]).sparsedp.low(RELEASE, own)),
    "labels": ("labels? must be", lambda own: sparsedp.series([RELEASE], labels=own)),
    "values": ("values? (to plot )?must be", lambda own: PLAN.plot(values=own)),
    "values of curves": ("values? must be", lambda own: sparsedp.error_curves(PLAN, own)),
    "path of a picture": ("path must be", lambda own: RELEASE.plot(["a"], own)),
}


@pytest.mark.parametrize("case", ARGUMENTS)
@pytest.mark.parametrize("wrong", [5.5, [], {}, np.array(["a", "b"]), object()], ids=lambda own: type(own).__name__)
def test_what_a_parameter_cannot_be_is_refused_by_its_name(case: str, wrong: Any) -> None:
    # Catches what Python says of objects that have no hash, no truth value or no items.
    message, call = ARGUMENTS[case]
    with pytest.raises(ParameterError, match=rf"^(a )?{message}"):
        call(wrong)


@pytest.mark.parametrize("values", [[1], [1, 1], ["a"], [1, float("inf")], [float("nan"), 1]])
def test_values_that_have_no_picture_are_refused(values: Any) -> None:
    with pytest.raises(ParameterError, match=r"^values? "):
        PLAN.plot(values=values)
    with pytest.raises(ParameterError, match=r"^values? "):
        sparsedp.compare(1, nonzero=10).plot(values=values)


@pytest.mark.parametrize("path", ["picture.xyz", "picture", "", "."])
def test_pictures_of_unknown_kinds_are_refused(path: str) -> None:
    with pytest.raises(ParameterError, match=r"^path must end in one of .*\.png, .*, got "):
        RELEASE.plot(["a"], path)


def test_a_directory_without_one_of_its_parts_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "a.sparsedp"
    sparsedp.release({"a": 500}, epsilon=1, nonzero=100, parts=3, path=path)
    (path / "part-00001.sparsedp").unlink()
    for opens in (sparsedp.load, sparsedp.verify):
        with pytest.raises(FormatError, match=r"the release is incomplete: part-00001\.sparsedp is missing$"):
            opens(path)


def test_sources_that_name_no_file_are_refused() -> None:
    for wrong in ("", "a\0b", "\ud800"):
        with pytest.raises(ParameterError, match=r"^sources must "):
            sparsedp.series(wrong)


def test_one_release_is_not_several() -> None:
    assert repr(sparsedp.series([RELEASE], labels=["a"])).startswith("<Series of 1 release, a to a, ")


def test_a_table_without_columns_says_so() -> None:
    with pytest.raises(sparsedp.InputError, match=r"there is no column 'page' in the table; it has no columns$"):
        sparsedp.count(pd.DataFrame(), max_keys_per_user=1, **COUNTED)
