"""The command line, run as processes: results on stdout, messages on stderr, exit codes, nothing
lost or spent.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparsedp
from command_line import RELEASE, run, run_anew
from commands import Command
from faults import wait_until
from releases import make
from sparsedp.budget.ledger import Ledger
from sparsedp.cli.app import mechanism_options


def test_kept_keys_are_named_at_the_top(visits: Path) -> None:
    run(*RELEASE, "--epsilon", 40, "--delta", "1e-6", "--keep-keys", "-o", "v.sparsedp")
    best = json.loads(run("top", "v.sparsedp", "-n", 2, "--json").stdout)
    assert {entry["key"] for entry in best} == {"page 1", "page 2"}
    assert "kept" in json.loads(run("info", "v.sparsedp", "--json").stdout)["keys"]
    Path("visits.parquet").unlink()  # parameters are checked first
    assert "--keep-keys needs --delta > 0" in run(*RELEASE, "--keep-keys", "-o", "pure.sparsedp", code=2).stderr
    assert not Path("pure.sparsedp").exists()


def test_names_do_not_command_the_terminal(tmp_path: Path) -> None:
    counts = {"a\n 9,999.0  forged": 1000, "\x1b[31mred\r": 2000, "back\\slash": 3000, "ä": 4000}
    release = sparsedp.release(counts, epsilon=1, delta=1e-6, keep_keys=True)
    release.save(tmp_path / "text")
    lines = run("top", tmp_path / "text").stdout.splitlines()
    assert [line.split("  ")[-1] for line in lines] == ["ä", "back\\\\slash", "\\x1b[31mred\\r", "forged"]
    assert len(lines) == 4
    plain = run_anew("top", tmp_path / "text", PYTHONIOENCODING="ascii").stdout
    assert "\\xe4" in plain
    sparsedp.release({b"\xff": 9000, b"\\xff": 5000}, epsilon=1, delta=1e-6, keep_keys=True).save(tmp_path / "bytes")
    lines = run("top", tmp_path / "bytes").stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["\\xff", "\\\\xff"]


@pytest.mark.parametrize("run", [run, run_anew])
def test_from_a_table_to_a_release_and_back(run: Callable[..., Any], visits: Path) -> None:
    done = run(*RELEASE, "-o", "v.sparsedp")
    assert done.stdout == ""
    assert "Whether any one user is in the data or not" in done.stderr
    rows = run("lookup", "v.sparsedp", "page 1", "nothing").stdout.splitlines()
    assert rows[0] == '"key","estimate","low","high"'
    release = sparsedp.load("v.sparsedp")
    assert float(rows[1].split(",")[1]) == release["page 1"]
    assert release.plan.problem.neighbours.sensitivity == 20
    assert run("verify", "v.sparsedp").stderr == "v.sparsedp is intact\n"
    described = json.loads(run("info", "v.sparsedp", "--json").stdout)
    assert described["contribution"] == "users told apart by 'user', each with at most 20 keys and 1 per key"
    assert described["epsilon"] <= 1
    assert "factor of 2.72" in run("info", "v.sparsedp").stdout


def test_json_tells_what_was_written(visits: Path) -> None:
    report = json.loads(run(*RELEASE, "-o", "v.sparsedp", "--json", "--quiet", "--delta", "1e-9").stdout)
    assert (report["mechanism"], report["filled"], report["overload"]) == ("retrieval", True, None)
    assert report["output"] == "v.sparsedp"
    assert "up to an extra probability of" in report["guarantee"]


def test_values_on_a_grid(visits: Path) -> None:
    run(*RELEASE, "--value", "seconds", "--max-per-key", "4.5", "--step", "0.5", "-o", "v.sparsedp")
    problem = sparsedp.load("v.sparsedp").plan.problem
    assert problem.neighbours.real
    assert problem.neighbours.sensitivity == 90


def test_keys_come_from_arguments_a_file_or_stdin(visits: Path) -> None:
    run(*RELEASE, "-o", "v.sparsedp")
    keys = ["page 1", "page 2", 'a "quoted", key', "back\\slash", "日本", "tab\there"]
    Path("keys.txt").write_text("\n".join(keys), encoding="utf-8")
    by_argument = run("lookup", "v.sparsedp", *keys).stdout
    assert run("lookup", "v.sparsedp", "--file", "keys.txt").stdout == by_argument
    assert run("lookup", "v.sparsedp", stdin="\n".join(keys) + "\n").stdout == by_argument
    assert run("lookup", "v.sparsedp", stdin="\r\n".join(keys) + "\r\n").stdout == by_argument
    assert run_anew("lookup", "v.sparsedp", stdin="\n".join(keys) + "\n").stdout == by_argument
    lines = [json.loads(line) for line in run("lookup", "v.sparsedp", "--json", *keys).stdout.splitlines()]
    assert [line["key"] for line in lines] == keys
    release = sparsedp.load("v.sparsedp")
    assert [line["estimate"] for line in lines] == release.lookup(keys).tolist()
    without_tab = [json.loads(line) for line in run("lookup", "v.sparsedp", "--json", *keys[:5]).stdout.splitlines()]
    assert without_tab == lines[:5]
    assert run("lookup", "v.sparsedp", stdin="").stdout == ""


def test_a_lookup_imports_nothing_that_it_does_not_need(visits: Path) -> None:
    # Arrow imports pandas to see whether a list is one of its own: longer than all else together.
    run(*RELEASE, "-o", "v.sparsedp")
    program = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); from sparsedp.cli import main; main()"
    command = [sys.executable, "-c", program, "lookup", "v.sparsedp", "page 1"]
    imported = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "pyarrow" in imported
    assert {"pandas", "polars", "duckdb", "scipy", "matplotlib"} & set(imported) == set()


def test_many_keys_stream_through_in_order(visits: Path) -> None:
    run(*RELEASE, "-o", "v.sparsedp")
    keys = [f"page {number}" for number in range(400_000)]  # several blocks
    lines = run_anew("lookup", "v.sparsedp", stdin="\n".join(keys)).stdout.splitlines()
    assert len(lines) == 400_001
    estimates = [float(line.rsplit(",", 3)[1]) for line in lines[1:]]
    assert estimates == sparsedp.load("v.sparsedp").lookup(keys).tolist()


def test_integer_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("id\n" + "7\n" * 100)
    run("release", "a.csv", "--key", "id", "--key-type", "integer", "--epsilon", 5, "--domain", 100, "-o", "a.sparsedp")
    assert abs(float(run("lookup", "a.sparsedp", "7").stdout.splitlines()[1].split(",")[1]) - 100) < 20
    assert "key 'x' in line 2 must be a 64-bit integer" in run("lookup", "a.sparsedp", stdin="7\nx\n", code=2).stderr
    run("release", "a.csv", "--key", "id", "--key-type", "integer", "--epsilon", 5, "-o", "b.sparsedp")
    assert abs(float(run("lookup", "b.sparsedp", "7", "--integer").stdout.splitlines()[1].split(",")[1]) - 100) < 20


def test_the_top_of_a_release(visits: Path) -> None:
    run(*RELEASE, "-o", "v.sparsedp")
    stored = json.loads(run("top", "v.sparsedp", "-n", 3, "--json").stdout)
    values = np.sort(sparsedp.load("v.sparsedp").stored().values)[::-1]
    assert [row["estimate"] for row in stored] == values[:3].tolist()
    Path("keys.txt").write_text("\n".join(f"page {number}" for number in range(500)))
    best = json.loads(run("top", "v.sparsedp", "-n", 2, "--candidates", "keys.txt", "--json").stdout)
    pages = [f"page {number}" for number in range(500)]
    estimates = sparsedp.load("v.sparsedp").lookup(pages, prior="fitted")
    assert [row["estimate"] for row in best] == np.sort(estimates)[::-1][:2].tolist()


def test_plans_and_comparisons_touch_no_data() -> None:
    plan = json.loads(run("plan", "--epsilon", 1, "--nonzero", "1e6", "--domain", "2^64", "--json").stdout)
    assert plan["mechanism"] == "tight-alp"
    assert plan["bits_per_entry"] == pytest.approx(40, abs=2)
    rows = json.loads(run("compare", "--epsilon", 1, "--delta", "1e-9", "--nonzero", 1000, "--json").stdout)
    assert {row["mechanism"] for row in rows} >= {"tight-alp", "retrieval", "laplace"}
    assert "tight-alp" in run("plan", "--nonzero", 1000, "--option", "bits_per_entry=60").stdout


def test_a_dry_run_reads_no_rows_and_spends_nothing(visits: Path) -> None:
    run("ledger", "create", "b.db", "--epsilon", 1)
    report = json.loads(run(*RELEASE, "-o", "v.sparsedp", "--ledger", "b.db", "--dry-run", "--json").stdout)
    assert (report["epsilon"], report["left_epsilon"], report["expected_bytes"]) == (1.0, 1.0, None)
    assert not Path("v.sparsedp").exists()
    assert Ledger.open("b.db").entries() == []


WRONG: dict[str, tuple[tuple[object, ...], str]] = {
    "a missing column": (("release", "visits.parquet", "--key", "ulr", "--epsilon", 1), "did you mean 'url'"),
    "a missing file": (("release", "no.parquet", "--key", "url", "--epsilon", 1), "there is no file no.parquet"),
    "a directory": (("release", ".", "--key", "url", "--epsilon", 1), "is a directory"),
    "no bound on keys": (
        ("release", "visits.parquet", "--key", "url", "--user", "user", "--epsilon", 1),
        "--max-keys-per-user must be given",
    ),
    "a negative epsilon": (("release", "visits.parquet", "--key", "url", "--epsilon", -1), "epsilon must be positive"),
    "no epsilon": (("release", "visits.parquet", "--key", "url"), "--epsilon"),
    "no number": (("release", "visits.parquet", "--key", "url", "--epsilon", "much"), "must be a number such as"),
    "an unknown mechanism": ((*RELEASE, "--mechanism", "magic"), "no mechanism 'magic'"),
    "an unknown option": ((*RELEASE, "--option", "magic=1"), "no option 'magic'"),
    "a malformed option": ((*RELEASE, "--option", "magic"), "must be NAME=VALUE"),
    "floats as keys": (("release", "visits.parquet", "--key", "seconds", "--epsilon", 1), "cast it"),
    "a missing folder": ((*RELEASE, "-o", "no/v.sparsedp"), "there is no directory"),
    "a missing ledger": ((*RELEASE, "--ledger", "no.db"), "no.db"),
    "an unknown command": (("relase",), "relase"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_ends_with_2_and_one_clear_line(case: str, visits: Path) -> None:
    arguments, message = WRONG[case]
    output = () if "-o" in arguments or arguments[0] != "release" else ("-o", "v.sparsedp")
    done = run(*arguments, *output, code=2)
    assert message in done.stderr
    assert done.stdout == ""
    assert sorted(os.listdir(visits)) == ["visits.parquet"]


def test_an_output_that_exists_is_kept_unless_forced(visits: Path) -> None:
    run(*RELEASE, "-o", "v.sparsedp")
    before = Path("v.sparsedp").read_bytes()
    assert "pass --force to replace it" in run(*RELEASE, "-o", "v.sparsedp", code=2).stderr
    assert Path("v.sparsedp").read_bytes() == before
    run(*RELEASE, "-o", "v.sparsedp", "--force")
    assert Path("v.sparsedp").read_bytes() != before
    run("verify", "v.sparsedp")


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_what_is_no_release_is_not_replaced(visits: Path, force: tuple[str, ...]) -> None:
    Path("notes.txt").write_text("mine")
    message = "notes.txt exists and is not a release; name another file, or remove it first"
    assert message in run(*RELEASE, "-o", "notes.txt", *force, code=2).stderr
    assert Path("notes.txt").read_text() == "mine"


@pytest.mark.parametrize("output", ["visits.parquet", "./visits.parquet", "link", "budget.db", "pipe"])
def test_force_does_not_replace_what_a_release_is_made_from_or_what_is_no_file(visits: Path, output: str) -> None:
    # Catches a log or a ledger, with all that was ever spent, that becomes a release.
    run("ledger", "create", "budget.db", "--epsilon", "9")
    Path("link").symlink_to("visits.parquet")
    os.mkfifo("pipe")
    before = {name: Path(name).read_bytes() for name in ("visits.parquet", "budget.db")}
    for source in ("visits.parquet", "vis*.parquet"):
        asked = ("release", source, *RELEASE[2:], "--ledger", "budget.db", "-o", output, "--force")
        message = "is a device or pipe" if output == "pipe" else "is read for this release, which would replace it"
        assert message in run(*asked, code=2).stderr
    assert {name: Path(name).read_bytes() for name in before} == before
    assert Path("link").is_symlink()
    assert Path("pipe").is_fifo()


def test_damaged_files_end_with_1(visits: Path) -> None:
    run(*RELEASE, "-o", "v.sparsedp")
    content = bytearray(Path("v.sparsedp").read_bytes())
    content[-1] ^= 1
    Path("v.sparsedp").write_bytes(content)
    assert "fails its checksum" in run("verify", "v.sparsedp", code=1).stderr
    Path("v.sparsedp").write_bytes(b"nothing")
    for command in ("lookup", "info", "top", "verify"):
        more = ("a",) if command == "lookup" else ()
        assert "not a sparsedp release" in run(command, "v.sparsedp", *more, code=1).stderr


def test_releases_made_for_tests_are_refused(tmp_path: Path) -> None:
    make("tight-alp").save(tmp_path / "a.sparsedp")
    assert "protects nobody" in run("lookup", tmp_path / "a.sparsedp", "7", code=1).stderr
    run("lookup", tmp_path / "a.sparsedp", "7", "--allow-reproducible")
    assert "MADE FOR TESTS" in run("info", tmp_path / "a.sparsedp").stdout


def test_a_reader_that_has_enough_is_no_error(visits: Path) -> None:
    run(*RELEASE, "-o", "v.sparsedp")
    keys = "\n".join(map(str, range(300_000)))
    done = subprocess.run(
        f"{sys.executable} -c 'from sparsedp.cli import main; main()' lookup v.sparsedp | head -2",
        shell=True,
        input=keys,
        capture_output=True,
        text=True,
    )
    assert done.stdout.count("\n") == 2
    assert done.stderr == ""


def test_an_interrupt_half_way_leaves_nothing(visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    pd.DataFrame({"user": generator.integers(0, 10**5, 10**6), "url": generator.integers(0, 10**6, 10**6)}).to_parquet(
        "visits.parquet"
    )
    spilled = visits / "spilled"
    spilled.mkdir()
    monkeypatch.setenv("TMPDIR", str(spilled))
    monkeypatch.setenv("SPARSEDP_THREADS", "1")
    command = Command(*RELEASE, "-o", "v.sparsedp")
    wait_until(lambda: any(spilled.iterdir()))  # it counts
    os.kill(command.pid, signal.SIGINT)
    done = command.wait()
    assert "Traceback" not in done.stderr
    if done.returncode:  # it may have been faster
        assert done.returncode == 130
        # Catches typer, which ends without a word.
        told = "sparsedp: interrupted; no file was written, and anything already debited stays debited"
        assert done.stderr.splitlines()[-1] == told
        assert not Path("v.sparsedp").exists()
    # An interrupt right after its folder was made may leave the folder, but nothing in it.
    assert [left for left in spilled.rglob("*") if left.is_file()] == []
    assert [name for name in os.listdir(visits) if name.endswith(".tmp")] == []


def test_help_is_there_for_every_command() -> None:
    for command in (
        "release",
        "lookup",
        "top",
        "info",
        "verify",
        "plan",
        "compare",
        "demo",
        "ledger create",
        "ledger show",
        "ledger plan",
        "ledger upgrade",
    ):
        text = run(*command.split(), "--help").stdout
        assert "Usage" in text


@pytest.mark.parametrize("text", ["1e400", "1e999999999", "9" * 3000 + "^999", "1" * 400 + "/3", "0^-1", "1/0"])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    assert "must be a number" in run("plan", "--nonzero", 100, "--epsilon", text, code=2).stderr


@pytest.mark.parametrize("value", ["1/0", "1e999999999", "1" * 400 + "/3"])
def test_an_option_that_is_no_number_is_text(value: str) -> None:
    assert mechanism_options([f"a={value}", "b=1/2", "c=2^3"]) == {"a": value, "b": 0.5, "c": 8}


def test_integer_keys_of_both_ends_are_looked_up_together(tmp_path: Path) -> None:
    make("stability").save(tmp_path / "a.sparsedp")
    lookup = ("lookup", tmp_path / "a.sparsedp", "--allow-reproducible", "--integer")
    done = run(*lookup, stdin=f"-1\n{2**64 - 1}\n")
    assert [line.partition(",")[0] for line in done.stdout.splitlines()[1:]] == ['"-1"', f'"{2**64 - 1}"']
    assert "line 2 must be a 64-bit integer" in run(*lookup, stdin=f"1\n{2**64}\n", code=2).stderr


def test_a_key_that_is_no_text_is_refused(tmp_path: Path) -> None:
    make("stability").save(tmp_path / "a.sparsedp")
    key = os.fsdecode(b"\xff")
    assert "UTF-8" in run("lookup", tmp_path / "a.sparsedp", "--allow-reproducible", key, code=2).stderr
