"""The declarations of the package agree with its contents, and each command installs what it needs."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

import sparsedp
from sparsedp import _native
from sparsedp.experiments.users import PEERS

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "sparsedp").rglob("*.py"))
BROUGHT_BY = {
    "flint": "python-flint",
    "cycler": "matplotlib",
    "dp_accounting": "dp-accounting",
}  # the package, if it has another name


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def declared(extra: str | None = None) -> set[str]:
    """The packages that the installation requires, always or for an extra."""
    found = set()
    for line in metadata.requires("sparsedp") or []:
        requirement, _, marker = line.partition(";")
        named = re.search(r"extra == ['\"](.*?)['\"]", marker)
        if (named[1] if named else None) == extra:
            found.add(re.split(r"[^\w-]", requirement.strip())[0])
    return found


def running(node: ast.AST) -> Iterator[ast.AST]:
    """A piece of a program and everything in it, except what only type checkers read."""
    yield node
    typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    for child in [] if typing else ast.iter_child_nodes(node):
        yield from running(child)


def imported(tree: ast.AST) -> Iterator[str]:
    """The third-party packages that a piece of a program imports."""
    for node in running(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        for name in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"sparsedp"}:
            yield BROUGHT_BY.get(name, name)


def test_the_version_is_the_same_everywhere() -> None:
    cited = re.search(r"^version: (.*)$", read("CITATION.cff"), re.MULTILINE)
    changed = re.search(r"^## \[(\d.*?)\]", read("CHANGELOG.md"), re.MULTILINE)
    assert cited is not None
    assert changed is not None
    assert {sparsedp.__version__} == {metadata.version("sparsedp"), cited[1], changed[1]}


def test_the_oldest_python_that_is_listed_is_the_oldest_that_is_allowed() -> None:
    about = metadata.metadata("sparsedp")
    listed = re.findall(r"Python :: 3\.(\d+)", " ".join(about.get_all("Classifier") or []))
    assert about["Requires-Python"] == f">=3.{min(map(int, listed))}"


def test_everything_that_is_imported_is_declared() -> None:
    extras = ("accounting", "compact", "opendp", "pandas", "plot", "peers", "polars", "remote", "serve", "spark")
    known = declared().union(*map(declared, extras))
    for path in SOURCES:
        # Drivers of other libraries run in environments that have them.
        known_here = known | {peer.module for peer in PEERS} if path.parent.name == "drivers" else known
        assert set(imported(ast.parse(path.read_text(encoding="utf-8")))) <= known_here, path


def test_what_is_always_installed_is_not_guarded_as_if_it_might_be_missing() -> None:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Try) and any(
                handler.type is not None and "ImportError" in ast.unparse(handler.type) for handler in node.handlers
            ):
                assert set(imported(node)) & declared() == set(), f"{path}:{node.lineno}"


def test_the_core_is_built_for_all_later_pythons_where_that_is_possible() -> None:
    stable = str(_native.__file__).endswith(".abi3.so")
    assert stable == (sys.version_info >= (3, 12))


def steps(target: str, *, venv: Path, **variables: str) -> str:
    """What make would do for a target."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    # Without the options of an outer make.
    unset = ("PYTHON", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    command = ["make", "--dry-run", target, f"VENV={venv}"]
    return subprocess.run(
        command, cwd=ROOT, env={**environment, **variables}, capture_output=True, text=True, check=True
    ).stdout


def test_the_demo_installs_the_package_alone_and_the_tests_add_the_rest(tmp_path: Path) -> None:
    demo, lint = (steps(target, venv=tmp_path / "venv") for target in ("demo", "lint"))
    assert "pip install --quiet --editable .\n" in demo
    assert "[dev]" not in demo
    assert "pip install --quiet --editable .\n" in lint
    assert "pip install --quiet 'sparsedp[dev]'\n" in lint


def test_the_site_takes_the_package_and_an_extra_of_its_own(tmp_path: Path) -> None:
    docs = steps("docs", venv=tmp_path / "venv")
    assert "pip install --quiet --editable .\n" in docs
    assert "pip install --quiet 'sparsedp[docs]'\n" in docs
    assert "[dev]" not in docs
    assert "mkdocs build --strict" in docs


def test_the_environment_is_made_anew_only_when_another_python_is_named(tmp_path: Path) -> None:
    (tmp_path / ".python-3.1").touch()
    assert "-m venv" not in steps("demo", venv=tmp_path)
    assert "-m venv --clear" in steps("demo", venv=tmp_path, PYTHON=sys.executable)
    (tmp_path / ".python-3.1").unlink()
    (tmp_path / ".python-{}.{}".format(*sys.version_info)).touch()
    assert "-m venv" not in steps("demo", venv=tmp_path, PYTHON=sys.executable)


@pytest.mark.parametrize(
    "changed", ["pyproject.toml", "CMakeLists.txt", "native/module.cpp", "src/sparsedp/__init__.py"]
)
def test_a_change_of_the_core_or_of_the_metadata_installs_again(tmp_path: Path, changed: str) -> None:
    after = (ROOT / changed).stat().st_mtime
    for stamp in (".python-3.1", ".package", ".dev"):
        (tmp_path / stamp).touch()
    assert "pip install" not in steps("lint", venv=tmp_path)
    os.utime(tmp_path / ".python-3.1", (after - 2, after - 2))
    for stamp in (".package", ".dev"):
        os.utime(tmp_path / stamp, (after - 1, after - 1))
    assert "--editable" in steps("lint", venv=tmp_path)


# What a command of make would find: its home, and what pip would take from an earlier installation.
MAKE = """#!/bin/sh
for word; do
    case "$word" in -* | *=*) continue ;; esac
    { echo "$word"; ls -A "$HOME" | wc -l; echo "$PIP_NO_CACHE_DIR"; test -e "$VENV"; echo $?; } | xargs >> "$SEEN"
    mkdir -p "$VENV"
done
"""


@pytest.mark.promise(28)
def test_all_is_checked_on_a_machine_that_has_never_seen_it(tmp_path: Path, figure: Callable[[str], None]) -> None:
    # Mutants: the home of whoever runs it, an environment that is there, a target that is left out.
    programs = {"make": MAKE, "chromium": "#!/bin/sh\n"}
    for name, program in programs.items():
        (tmp_path / name).write_text(program, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    seen = tmp_path / "seen"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SEEN": str(seen), "VENV": sys.prefix}
    subprocess.run([str(ROOT / ".ci" / "run")], env=environment, stdout=subprocess.DEVNULL, check=True)
    first, *others = [line.split() for line in seen.read_text(encoding="utf-8").splitlines()]
    assert first == ["demo", "0", "1", "1"]  # nothing in its home, no cache, no environment
    assert all(cache == "1" for _, _, cache, _ in others)  # and all that follow have what `demo` left
    targets = ["demo", *(other[0] for other in others)]
    assert set(targets) == {"demo", "test", "lint", "docs", "fuzz", "check-dist"}
    figure(f"`.ci/run` has an empty home, no package cache and no environment for make {', '.join(targets)}")
