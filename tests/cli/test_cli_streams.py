"""Standard streams that are closed, full, or read by who has enough: one clear line, or none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import sparsedp
from command_line import COMMAND, checked

READERS = [
    ("lookup", "f.sparsedp", "--file", "keys.txt"),
    ("top", "f.sparsedp"),
    ("info", "f.sparsedp"),
    ("compare", "--nonzero", "1000"),
    ("--help",),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a release and keys, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    sparsedp.release({f"page {at}": at for at in range(500)}, epsilon=1, nonzero=500).save("f.sparsedp")
    Path("keys.txt").write_text("\n".join(map(str, range(300_000))))
    Path("t.csv").write_text("k\n" + "a\n" * 50)
    return tmp_path


def redirected(how: str, *arguments: str, code: int) -> subprocess.CompletedProcess[str]:
    """A command whose streams the shell redirects."""
    command = ["sh", "-c", f'exec "$@" {how}', "sh", *COMMAND, *arguments]
    return checked(subprocess.run(command, capture_output=True, text=True, timeout=100, check=False), code)


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_a_reader_that_has_enough_is_no_failure(command: tuple[str, ...]) -> None:
    """Catches the exit code 1, which `set -o pipefail` takes for a failure."""
    reading, writing = os.pipe()
    with subprocess.Popen([*COMMAND, *command], stdout=writing, stderr=subprocess.PIPE, text=True) as process:
        os.close(writing)
        if command[0] == "lookup":
            os.read(reading, 10)  # and then it has enough
        os.close(reading)
        assert process.stderr is not None
        said = [line for line in process.stderr if "fingerprints" not in line]
    assert (process.returncode, said) == (0, [])


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_an_output_that_is_closed_or_full_is_one_line(command: tuple[str, ...]) -> None:
    closed = redirected(">&-", *command, code=2).stderr.splitlines()
    assert closed[-1] == "sparsedp: standard output is closed; redirect it to a file, or to /dev/null"
    if Path("/dev/full").exists():
        full = redirected("> /dev/full", *command, code=1).stderr.splitlines()
        assert full[-1] == "sparsedp: No space left on device: standard output"


@pytest.mark.parametrize("command", [("lookup", "f.sparsedp"), ("top", "f.sparsedp", "--candidates", "-")])
def test_an_input_that_is_closed_is_one_line(command: tuple[str, ...]) -> None:
    said = redirected("<&-", *command, code=2).stderr
    assert said.startswith("sparsedp: standard input is closed, so no keys can be read from it; name a file of keys")
    assert said.count("\n") == 1


def test_what_prints_nothing_needs_no_streams() -> None:
    # Catches a file that gets the number of a closed stream, and then what is printed.
    options = ["--key", "k", "--epsilon", "1", "-o", "out.sparsedp"]
    redirected("<&- >&- 2>&-", "release", "t.csv", *options, code=0)
    sparsedp.verify("out.sparsedp")
    redirected("<&- >&- 2>&-", "verify", "out.sparsedp", code=0)
    assert redirected("2>&-", "lookup", "no.sparsedp", "a", code=2).stdout == ""


def test_an_interrupted_reproduction_says_that_it_continues() -> None:
    # Catches "no file was written": what is done is kept.
    interrupted = "def stop(*_): raise KeyboardInterrupt\nreproduction.reproduce = stop\n"
    program = f"import sparsedp.experiments.reproduction as reproduction\n{interrupted}{COMMAND[2]}"
    done = subprocess.run([*COMMAND[:2], program, "reproduce"], capture_output=True, text=True, check=False)
    said = "sparsedp: interrupted; what is done is kept in report, and the same command continues\n"
    assert (done.returncode, done.stderr) == (130, said)
