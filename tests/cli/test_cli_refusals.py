"""What is refused names the file, the option and the value."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sparsedp
from command_line import run
from sparsedp import demo
from sparsedp._util.plotting import finished, new_figure
from sparsedp.format import addresses
from test_cli_messages import without

RELEASE = ("release", "t.csv", "--key", "k", "--epsilon", 1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and a release, which is the current one."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("k,u\na,1\n")
    sparsedp.release({"a": 9}, epsilon=1, nonzero=9).save("f.sparsedp")
    return tmp_path


USERS = (*RELEASE, "--user", "u", "-o", "x.sparsedp", "--max-keys-per-user")
VALUES: list[tuple[tuple[object, ...], str]] = [
    (("lookup", "f.sparsedp", "a", "--confidence", "abc"), "'--confidence': must be a number such as 0.95, got abc"),
    ((*RELEASE, "-o", "x.sparsedp", "--parts", 0), "'--parts': must be at least 1, got 0"),
    ((*RELEASE, "-o", "x.sparsedp", "--parts", "many"), "'--parts': must be a whole number, got many"),
    (("serve", "--port", 99999), "'--port': must be at most 65535, got 99999"),
    (("reproduce", "--seed", -1), "'--seed': must be at least 0, got -1"),
    ((*USERS, "foo"), "--max-keys-per-user: must be a number such as 20, or auto, got 'foo'"),
    ((*USERS, "1.5"), "--max-keys-per-user must be a whole number, got 1.5"),
    ((*USERS, "9" * 23), "--max-keys-per-user must be at most 2^61, got 1e+23"),
    ((*USERS, "2e18"), "bound what one user may change by less, or use a larger --epsilon"),
    (("plan", "--nonzero", 9, "--max-keys-per-user", "9" * 23), "bound what one user may change by less"),
    (
        (*RELEASE, "-o", "s3://bucket/x.sparsedp"),
        "written to this machine only, got s3://bucket/x.sparsedp; write it here",
    ),
    ((*RELEASE, "-o", "s3://bucket/x", "--parts", 3), "written to this machine only, got s3://bucket/x; write it here"),
    (
        ("demo", "--write-log", "gs://u:secret@bucket/x"),
        "written to this machine only, got gs://bucket/x; write it here",
    ),
    (("serve", "--host", "no.such.invalid", "--port", 0), "--host must be the name or the address of this machine"),
    (("serve", "--host", "a" * 64, "--port", 0), "--host must be the name or the address of this machine"),
]


@pytest.mark.parametrize(("command", "message"), VALUES)
def test_a_value_is_refused_with_its_option_and_a_fix(command: tuple[object, ...], message: str) -> None:
    said = run(*command, code=2).stderr.replace("Invalid value for ", "")
    assert message in said
    assert not Path("x.sparsedp").exists()


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = run("serve", "--port", port, code=1).stderr
    assert f"cannot listen at 127.0.0.1, port {port}: Address already in use; choose another --port" in said


def test_a_store_that_refuses_the_connection_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = run("lookup", f"ftp://user:secret@127.0.0.1:{port}/x", "a", code=1).stderr
    assert said == f"sparsedp: ftp://127.0.0.1:{port}/x cannot be read: Connection refused\n"


def full(*_: object, **__: object) -> None:
    """A write that finds no room, as it is raised by a file that is open: it has no name."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_names_the_picture() -> None:
    figure, _ = new_figure(1, 1)
    figure.savefig = full
    with pytest.raises(OSError, match=r"No space left on device: 'a\.png'"):
        finished(figure, Path("a.png"))


def test_a_full_disk_names_the_log_and_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: 'log\.csv'"):
        demo.write_log("log.csv")
    assert sorted(os.listdir()) == ["f.sparsedp", "t.csv"]


def test_a_log_replaces_nothing() -> None:
    assert run("demo", "--write-log", "t.csv", code=2).stderr == "sparsedp: File exists: t.csv\n"
    assert Path("t.csv").read_text() == "k,u\na,1\n"


@pytest.mark.parametrize("source", ["locked/t.csv", "locked/*.csv", ["locked/t.csv"]])
def test_a_folder_that_may_not_be_entered_is_no_missing_file(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Catches "there is no file": whoever runs the tests may enter every folder, so the system is
    # made to say otherwise.
    usual = os.stat

    def refused(path: Any, *more: Any, **named: Any) -> os.stat_result:
        if str(path).startswith("locked/"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return usual(path, *more, **named)

    monkeypatch.setattr(os, "stat", refused)
    with pytest.raises(sparsedp.InputError, match=r"locked/.* cannot be seen: Permission denied; ask for the right to"):
        sparsedp.count(source, key="k")


def test_a_remote_file_in_a_list_is_told_to_be_one() -> None:
    with pytest.raises(sparsedp.InputError, match=r"read from this machine only, and s3://a/b\.parquet is on s3"):
        sparsedp.count(["s3://a/b.parquet"], key="k")


def test_outputs_are_files_of_this_machine() -> None:
    made = sparsedp.load("f.sparsedp")
    tries: list[Callable[[], object]] = [
        lambda: made.save("s3://bucket/x.sparsedp"),
        lambda: sparsedp.release({"a": 1}, epsilon=1, path="s3://bucket/x.sparsedp"),
        lambda: sparsedp.release({"a": 1}, epsilon=1, parts=2, path="s3://bucket/x"),
    ]
    for attempt in tries:
        with pytest.raises(sparsedp.ParameterError, match="written to this machine only, got s3://bucket/x"):
            attempt()
    addresses.check_local(Path("/data/s3:/x"))
    Path("s3:").mkdir()  # a folder of that name is one
    made.save("s3:/x.sparsedp")
    sparsedp.verify(Path("s3:/x.sparsedp"))


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_the_service_without_its_extra_says_which(package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\nimport sparsedp\n"
        "try:\n    import sparsedp.serve.app\n"
        "except sparsedp.MissingDependencyError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    said = "the service needs FastAPI and uvicorn: pip install 'sparsedp[serve]'"
    assert done.stdout == f"{said}\n"
    command = [*without(package), "serve", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"sparsedp: {said}\n")
