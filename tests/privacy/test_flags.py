"""A flag is True or False: nothing else is taken by its truth value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparsedp
from sparsedp import ParameterError

EVENTS = pd.DataFrame({"user": [1, 2, 3], "page": ["a", "a", "b"], "seconds": [1, 2, 3]})
COUNTED: dict[str, Any] = {"key": "page", "user": "user", "max_keys_per_user": 1}
SUGGESTED: dict[str, Any] = {"key": "page", "user": "user", "epsilon": 1}
KEPT: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "nonzero": 10}

FLAGS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "release, keep_keys": ("keep_keys", lambda flag: sparsedp.release({"a": 500}, keep_keys=flag, **KEPT)),
    "release, signed": ("signed", lambda flag: sparsedp.release({"a": 500}, signed=flag, **KEPT)),
    "plan, keep_keys": ("keep_keys", lambda flag: sparsedp.plan(keep_keys=flag, **KEPT)),
    "plan, signed": ("signed", lambda flag: sparsedp.plan(signed=flag, **KEPT)),
    "compare, signed": ("signed", lambda flag: sparsedp.compare(signed=flag, **KEPT)),
    "count, signed": ("signed", lambda flag: sparsedp.count(EVENTS, value="seconds", signed=flag, **COUNTED)),
    "count, hive": ("hive", lambda flag: sparsedp.count("events.csv", hive=flag, **COUNTED)),
    "suggest, hive": ("hive", lambda flag: sparsedp.suggest("events.csv", hive=flag, **SUGGESTED)),
}


@pytest.mark.parametrize("case", FLAGS)
@pytest.mark.parametrize("wrong", ["False", "no", "", 0, 1, None, np.array([True, False])])
def test_what_is_not_a_flag_is_refused(case: str, wrong: Any) -> None:
    # Catches a flag that is read by its truth value: keep_keys="False" would publish names.
    name, call = FLAGS[case]
    with pytest.raises(ParameterError, match=rf"^{name} must be True or False, got "):
        call(wrong)


@pytest.mark.parametrize("wrong", ["False", "no", "", 0, 1, None, np.array([True, False])])
def test_flags_of_what_is_published_are_refused_likewise(tmp_path: Path, wrong: Any) -> None:
    path = tmp_path / "2024-01-31.sparsedp"
    released = sparsedp.release({"a": 500}, epsilon=1, path=path)
    days = sparsedp.series([path])
    with pytest.raises(ParameterError, match=r"^clamp must be True or False, got "):
        released.lookup(["a"], clamp=wrong)
    with pytest.raises(ParameterError, match=r"^clamp must be True or False, got "):
        days.lookup(["a"], clamp=wrong)
    with pytest.raises(ParameterError, match=r"^allow_reproducible must be True or False, got "):
        sparsedp.load(path, allow_reproducible=wrong)
    with pytest.raises(ParameterError, match=r"^allow_reproducible must be True or False, got "):
        sparsedp.series([released], labels=["a"], allow_reproducible=wrong)


def test_flags_of_numpy_are_flags() -> None:
    flags = np.array([True, False])
    assert sparsedp.release({"a": 500}, keep_keys=flags[0], **KEPT).plan.problem.keep_keys is True
    assert sparsedp.release({"a": 500}, keep_keys=flags[1], **KEPT).plan.problem.keep_keys is False


@pytest.mark.parametrize(
    ("without_effect", "message"),
    [
        ({"delta": ""}, r"^delta must be a finite number, got ''$"),
        ({"delta": []}, r"^delta must be a finite number, got \[\]$"),
        ({"delta": None}, r"^delta must be a finite number, got None$"),
        ({"encoding": ""}, r"^encoding must be 'utf-8', 'utf-16' or 'latin-1', got ''; omit it for utf-8$"),
    ],
)
def test_what_is_empty_is_not_ignored(without_effect: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        sparsedp.count(EVENTS, **COUNTED, **without_effect)
