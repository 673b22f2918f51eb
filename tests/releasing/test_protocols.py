"""A release has no members: asking for them fails at once and says what to call instead."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparsedp
from sparsedp import Release


@pytest.fixture(scope="module", params=[None, 50], ids=["text", "integers"])
def release(request: pytest.FixtureRequest) -> Release:
    counts: Any = {"a": 5} if request.param is None else {3: 5}
    return sparsedp.release(counts, epsilon=1.0, nonzero=10, domain=request.param)


def unpacked(release: Any) -> Any:
    first, second = release
    return first, second


ASKED: dict[str, Callable[[Any], Any]] = {
    "in": lambda release: "a" in release,
    "in, of an integer": lambda release: 3 in release,
    "not in": lambda release: "a" not in release,
    "list": list,
    "tuple": tuple,
    "set": set,
    "dict": dict,
    "iter": iter,
    "reversed": reversed,
    "len": len,
    "unpacking": unpacked,
    "arguments": lambda release: print(*release),
    "a loop": lambda release: [key for key in release],  # noqa: C416  # that is the point
    "enumerate": enumerate,
    "zip": lambda release: list(zip(release, release, strict=True)),
    "max": max,
    "sorted": sorted,
    "asarray": np.asarray,
    "an array of floats": lambda release: np.array(release, float),
    "a column": lambda release: pd.Series(release),
    "an index": lambda release: pd.Index(release),
    "its own keys": lambda release: release.lookup(release),
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_asks_for_members_is_told_what_to_call(release: Release, asked: str) -> None:
    with pytest.raises(
        TypeError, match=r"answers for any key.*release\[key\].*release\.lookup\(keys\).*stored\(\).*top"
    ):
        ASKED[asked](release)


def test_it_is_no_mapping_either(release: Release) -> None:
    with pytest.raises(TypeError, match=r"not iterable|answers for any key"):
        operator.countOf(release, 1.0)
    with pytest.raises(TypeError, match="mapping"):
        dict(**release)  # type: ignore[dict-item]  # that is the point
    with pytest.raises(sparsedp.InputError, match="counts must be a mapping"):
        sparsedp.release(release, epsilon=1)


def test_a_release_is_an_object_like_others(release: Release) -> None:
    assert release
    assert release == release
    assert release in [release]
    assert {release: 1}[release] == 1
    assert copy.deepcopy(release) != release
    for column in (np.array([release, release], dtype=object), pd.Series([release, release])):
        assert [one is release for one in column] == [True, True]


def test_a_comparison_has_its_mechanisms() -> None:
    comparison = sparsedp.compare(1.0, nonzero=10)
    names = [row.mechanism for row in comparison]
    assert len(comparison) == len(names)
    assert all(name in comparison and comparison[name] in comparison for name in names)
    assert "no such mechanism" not in comparison
    assert 3 not in comparison
