"""The kernels of native/ do not depend on Python and check their own arrays, so that fuzzing
reaches all of it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADERS = sorted((ROOT / "native").glob("*.hpp"))
OF_BINDINGS = {"bindings.hpp", "key_objects.hpp", "keys_object.hpp", "reader_object.hpp", "unlocked.hpp"}
KERNELS = [header for header in HEADERS if header.name not in OF_BINDINGS]


def included(path: Path) -> set[str]:
    return set(re.findall(r'^#include [<"](.+)[>"]', path.read_text(encoding="utf-8"), re.MULTILINE))


def by_name(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("header", KERNELS, ids=by_name)
def test_a_kernel_knows_nothing_of_python(header: Path) -> None:
    known = {name for name in included(header) if name == "Python.h" or name.startswith("nanobind")}
    assert not known | (included(header) & OF_BINDINGS)


@pytest.mark.parametrize("header", HEADERS, ids=by_name)
def test_all_of_a_header_is_in_a_namespace(header: Path) -> None:
    namespace = "sparsedp::bindings" if header.name in OF_BINDINGS else "sparsedp"
    lines = header.read_text(encoding="utf-8").splitlines()
    assert lines[-1] == f"}}  // namespace {namespace}"
    before = lines[: lines.index(f"namespace {namespace} {{")]
    assert all(not line or line.startswith(("//", "#")) for line in before)


def test_fuzzing_and_lint_reach_every_kernel() -> None:
    reached: set[str] = set()
    waiting = [ROOT / "fuzz" / "kernels.cpp"]
    while waiting:
        for name in included(waiting.pop()) - reached:
            reached.add(name)
            waiting += [path for folder in ("fuzz", "native") if (path := ROOT / folder / name).exists()]
    assert {header.name for header in KERNELS} <= reached


@pytest.mark.parametrize("source", sorted((ROOT / "native").glob("*.cpp")), ids=by_name)
def test_bindings_leave_the_checks_of_arrays_to_kernels(source: Path) -> None:
    assert "require(" not in source.read_text(encoding="utf-8")
    assert source.name == "module.cpp" or source.name.startswith("register_")
