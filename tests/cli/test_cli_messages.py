"""Messages of the command line: in its own language, before any work, and never showing a cell of
the data.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
import typer.main

import sparsedp
from command_line import COMMAND, run
from commands import Command
from sparsedp.budget.ledger import Ledger
from sparsedp.cli.app import ORDER, app
from sparsedp.cli.wording import flags_of, language, translated
from sparsedp.errors import reason_of

PACKAGE = Path(sparsedp.__file__).parent


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands() -> object:
    """All commands, with those that modules add."""
    from sparsedp.cli import (  # noqa: F401
        auditing,
        budget,
        planning,
        reading,
        releasing,
        reproducing,
        series,
        serving,
        suggesting,
    )

    return typer.main.get_command(app)


def release(*arguments: object, code: int = 0) -> str:
    """What `sparsedp release` says."""
    return run("release", *arguments, "--epsilon", 1, "-o", "out.sparsedp", "-q", code=code).stderr


# In the language of the command line


def messages() -> list[str]:
    """Every message of the library that may reach the command line, with X for what is filled in."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        if "spark" in file.parts or "cli" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("ParameterError", "InputError"):
                for text in node.args[:1]:
                    pieces = text.values if isinstance(text, ast.JoinedStr) else [text]
                    found.append("".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in pieces))
    return found


def test_no_message_names_an_argument_of_python() -> None:
    flags = language(commands(), "release")
    listed = messages()
    assert len(listed) > 100
    for message in listed:
        said = re.sub(r'"{3}.*?"{3}', "", translated(message, flags))
        for name in flags:
            assert not re.search(rf"(?<![\w-]){name}=", said), said
            if "_" in name:
                assert not re.search(rf"(?<!--option )\b{name}\b", said), said
        if said.startswith("releases that were not loaded from files"):  # no command has such
            continue
        # Arguments that no command has; a folder key=… and a glob NAME=… are typed like that.
        assert not re.search(r"(?<![\w-])(?!visits=|name=)[a-z_]+=(?!…)|\bstr\(|\bint\(", said), said


@pytest.mark.parametrize(
    ("python", "typed"),
    [
        ("epsilon must be positive, got -1", "--epsilon must be positive, got -1"),
        ("pass step= for real values", "pass --step for real values"),
        ("fix them or pass nulls='drop'", "fix them or pass --nulls drop"),
        ("negative (pass signed=True to allow it)", "negative (pass --signed to allow it)"),
        ("has one part only, got parts = 3; use x", "has one part only, got --parts 3; use x"),
        ("lower size_factor=", "lower --option size_factor"),
        ("epsilon * step / sensitivity", "--epsilon * --step / (--max-keys-per-user × --max-per-key)"),
        ("non-zero keys only needs delta > 0", "non-zero keys only needs --delta > 0"),
        ("column 'max_per_key' is null", "column 'max_per_key' is null"),
        ("/data/step/max_per_key/a.csv is empty", "/data/step/max_per_key/a.csv is empty"),
        ("needs nonzero= or total=; release() can", "needs --nonzero or --total; sparsedp release can"),
        ("no date in its name; rename it, or pass labels=", "no date in its name; rename it"),
        ("since must be a date such as 2024-01-31", "--since must be a date such as 2024-01-31"),
    ],
)
def test_arguments_become_options(python: str, typed: str) -> None:
    assert translated(python, language(commands(), "release")) == typed


def test_refusals_of_a_comparison_are_translated_too() -> None:
    text = run("compare", "--nonzero", 100).stdout
    assert "pass --domain with integer keys" in text
    assert "use --mechanism tight-alp" in text
    assert "domain=" not in text


def test_options_of_mechanisms_do_not_replace_others() -> None:
    for name in ("epsilon", "parts", "ledger", "path"):
        assert f"{name} is not an option of a mechanism" in run("plan", "--option", f"{name}=3", code=2).stderr


# Tables


def test_a_key_of_another_type_has_a_fix_that_works() -> None:
    days = [datetime.date(2024, 1, 1)] * 300
    table = pd.DataFrame({"day": days, "share": 0.5, "price": decimal.Decimal("1.50"), "raw": b"x", "odd": True})
    table.to_parquet("t.parquet")
    assert "column 'odd' has BOOLEAN values" in (said := release("t.parquet", "--key", "odd", code=2))
    assert "pass --key-type text" in said
    release("t.parquet", "--key", "odd", "--key-type", "text")
    assert float(run("lookup", "out.sparsedp", "true").stdout.splitlines()[1].split(",")[1]) > 200
    release("t.parquet", "--key", "day", "--key-type", "text", "--force")
    assert float(run("lookup", "out.sparsedp", "2024-01-01").stdout.splitlines()[1].split(",")[1]) > 200
    assert sparsedp.count("t.parquet", key="price", key_type="text").keys.to_pylist() == ["1.50"]
    said = release("t.parquet", "--key", "share", "--force", code=2)
    fix = re.search(r'duckdb\.sql\("""(.*)"""\)', said)
    assert fix is not None
    duckdb.sql(fix[1])
    release("cast.parquet", "--key", "share", "--force")
    assert "omit --key-type" in release("t.parquet", "--key", "raw", "--key-type", "text", "--force", code=2)
    for command in (("plan", "t.parquet", "--nonzero", 9, "--key", "share"), ("plan", "t.parquet", "--key", "ady")):
        assert "column" in run(*command, code=2).stderr


@pytest.mark.parametrize("address", ["s3://bucket/a.parquet", "https://host/a.csv", "gs://bucket/*.parquet"])
def test_remote_files_are_refused_by_name(address: str) -> None:
    said = release(address, "--key", "a", code=2)
    assert f"read from this machine only, and {address} is on" in said
    assert f"{address} is on" in run("plan", address, code=2).stderr


SECRETS = {
    "ragged.csv": "user,url\n" + "u,secret\n" * 50 + "u,secret,secret,x\n",
    "late.csv": "user,url\n" + "u,secret\n" * 30_000 + "u,secret,x\n",
    "quote.csv": 'user,url\nu,"secret\nu,b\n',
    "no-header.csv": "u,secret\nv,secret\n",
    "bad.json": '{"user": 1, "url": "a"}\n{"user": 2, "url": secret}\n',
    "fake.parquet": "secret",
    "fake.csv.gz": "secret",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_broken_file_is_refused_without_its_cells(name: str) -> None:
    Path(name).write_text(SECRETS[name])
    said = release(name, "--key", "url", code=2)
    assert "secret" not in said
    assert said.count("\n") == 1


def test_where_a_broken_file_is_broken() -> None:
    Path("late.csv").write_text(SECRETS["late.csv"])
    assert "line 30002: it has 3 columns instead of 2" in release("late.csv", "--key", "url", code=2)
    Path("latin.csv").write_bytes(b"user,url\nu,\xff\n")
    assert "it is not valid UTF-8" in release("latin.csv", "--key", "url", code=2)


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_what_separates_columns_is_told(delimiter: str) -> None:
    # This used to be read off the header. That a delimiter is in it is public, but which one is
    # meant the caller says.
    Path("b.csv").write_text(f'\ufeff"user"{delimiter}"the url"\n1{delimiter}"a{delimiter}b"\n')
    Path("b.txt").write_text(Path("b.csv").read_text())
    for name in ("b.csv", "b.txt"):
        assert sparsedp.count(name, key="the url", delimiter=delimiter).keys.to_pylist() == [f"a{delimiter}b"]
        with pytest.raises(sparsedp.InputError, match="did you mean 'the url'"):
            sparsedp.count(name, key="the ulr", delimiter=delimiter)
    if delimiter != ",":
        assert "is another --delimiter needed" in release("b.csv", "--key", "user", code=2)
        Path("b.csv").write_text(f"user{delimiter}url\n1{delimiter}a\n")
        said = release("b.csv", "--key", "user", code=2)
        assert "the first line of b.csv has no column 'user'; is another --delimiter needed" in said
    assert "--delimiter must be given for b.txt" in release("b.txt", "--key", "user", code=2)
    release("b.csv", "--key", "user", "--delimiter", "\\t" if delimiter == "\t" else delimiter)


@pytest.mark.parametrize("text", ["1.5", "0x10", "1_000", "1e3", " 5", "", "abc", "1.0", str(2**64), str(-(2**63) - 1)])
def test_integer_keys_are_decimal_digits(text: str) -> None:
    pd.DataFrame({"id": ["7", text, "8"]}).to_csv("a.csv", index=False, quoting=1)
    with pytest.raises(sparsedp.InputError, match=r"in 1 row, first in row 2") as refused:
        sparsedp.count("a.csv", key="id", key_type="integer")
    assert text.strip() == "" or text not in str(refused.value)


def test_integer_keys_of_64_bits() -> None:
    # A domain states which end a column has: read off the rows, one user's key would make another's
    # be refused.
    signed, unsigned = [0, -5, 2**63 - 1, -(2**63)], [0, 7, 2**64 - 1]
    for numbers, domain in ((signed, None), (unsigned, 2**64)):
        pd.DataFrame({"id": [f"{n:+d}" for n in numbers]}).to_csv("a.csv", index=False)
        counted = sparsedp.count("a.csv", key="id", key_type="integer", domain=domain)
        assert sorted(counted.keys.to_pylist()) == sorted(numbers)
    for numbers, domain in ((signed, 2**64), (unsigned, None)):
        pd.DataFrame({"id": [f"{n:+d}" for n in numbers]}).to_csv("a.csv", index=False)
        with pytest.raises(sparsedp.InputError, match="first in row"):
            sparsedp.count("a.csv", key="id", key_type="integer", domain=domain)
    pd.DataFrame({"id": pd.Categorical(["7", "8"])}).to_parquet("a.parquet")
    assert sorted(sparsedp.count("a.parquet", key="id", key_type="integer").keys.to_pylist()) == [7, 8]


@pytest.mark.parametrize(
    ("column", "kind"),
    # Bytes in a column of objects are refused as objects.
    [([1.0, 2.0], None), ([b"1", b"2"], pd.ArrowDtype(pa.binary())), ([True, False], None)],
)
def test_other_columns_are_not_read_as_integers(column: list[object], kind: Any) -> None:
    with pytest.raises(sparsedp.InputError, match="integer keys must be integers, or text in decimal digits"):
        sparsedp.count(pd.DataFrame({"id": column}, dtype=kind), key="id", key_type="integer")


@pytest.mark.parametrize("text", ["0x10", "1_0", "1.5", "0b1"])
def test_values_to_sum_are_decimal_too(text: str) -> None:
    Path("a.csv").write_text(f"id,v\na,1.0\na,1e3\na,{text}\n")
    with pytest.raises(sparsedp.InputError, match="first in row 3"):
        sparsedp.count("a.csv", key="id", value="v", max_per_key=10)


def test_keys_outside_of_the_domain_are_refused_by_row() -> None:
    Path("a.csv").write_text("id,user\n3,a\n77,b\n")
    assert "pass --key-type integer" in release("a.csv", "--key", "id", "--domain", 5, code=2)
    integers = ("a.csv", "--key", "id", "--key-type", "integer", "--domain", 5)
    for more in ((), ("--user", "user", "--max-keys-per-user", 1)):
        said = release(*integers, *more, code=2)
        assert "column 'id' is not in [0, 5) in 1 row, first in row 2" in said
        assert "77" not in said


# Budgets and outputs


def test_a_missing_ledger_comes_with_the_command_that_makes_it() -> None:
    Path("a.csv").write_text("id\na\n")
    said = release("a.csv", "--key", "id", "--ledger", "my budget.db", code=2)
    assert said.strip().endswith("create it with: sparsedp ledger create 'my budget.db' --epsilon TOTAL")
    assert said == run("ledger", "show", "my budget.db", code=2).stderr
    run("ledger", "create", "b.db", "--epsilon", 1)
    said = release("a.csv", "--key", "id", "--ledger", "b.db", "--dataset", "x", code=1)
    assert "b.db --dataset x --epsilon TOTAL" in said


def test_a_directory_of_parts_is_never_replaced() -> None:
    Path("a.csv").write_text("id\na\n")
    run("ledger", "create", "b.db", "--epsilon", 2)
    parts = ("a.csv", "--key", "id", "--parts", 2, "--ledger", "b.db", "--force")
    release(*parts)
    said = release(*parts, code=2)
    assert "--force replaces single files only; remove it first, or name another directory" in said
    assert len(Ledger.open("b.db").entries()) == 1
    sparsedp.verify("out.sparsedp")


def test_what_the_system_refuses_names_files_that_are_there() -> None:
    error = OSError(28, "No space left on device", "a")
    error.filename2 = None
    assert reason_of(error) == "No space left on device: a"
    assert reason_of(OSError(17, "File exists", "a", None, "b")) == "File exists: a -> b"
    assert reason_of(MemoryError()) == "out of memory"
    Path("report").write_text("a file")
    assert run("reproduce", "--out", "report", code=2).stderr == "sparsedp: File exists: report\n"


# Extremes


@pytest.mark.parametrize(
    "options",
    [
        ("--epsilon", 1000),
        ("--epsilon", "1e300"),
        ("--epsilon", "1e-300"),
        ("--epsilon", "1e-320", "--sensitivity", "1e300"),
        ("--sensitivity", "1e300"),
        ("--sensitivity", "1e-300"),
        ("--step", "1e-300"),
        ("--nonzero", "1e300"),
        ("--total", "1e308"),
        ("--domain", "1e300"),
        ("--delta", "1e-300", "--mechanism", "retrieval"),
        ("--delta", "1e-320", "--mechanism", "retrieval", "--sensitivity", "1e6"),
    ],
)
def test_extremes_are_one_clear_line(options: tuple[object, ...]) -> None:
    said = run("plan", "--nonzero", 1000, *options, code=2).stderr
    assert said.startswith("sparsedp: ")
    assert said.count("\n") == 1
    assert "Warning" not in said


def test_more_than_can_be_spent_is_refused_before_the_debit() -> None:
    ledger = Ledger.create("b.db", epsilon=5000)
    with pytest.raises(sparsedp.ParameterError, match=r"epsilon must be at most 30, .*, got 1000"):
        sparsedp.release({"a": 1}, epsilon=1000, ledger=ledger)
    assert ledger.entries() == []
    sparsedp.plan(30, nonzero=10)
    assert sparsedp.plan(1000, nonzero=10, sensitivity=50).epsilon == pytest.approx(1000, rel=1e-4)


# Silence, and what is missing


def without(*packages: str) -> list[str]:
    """The command in a Python that does not have the packages."""
    gone = "; ".join(f"sys.modules[{package!r}] = None" for package in packages)
    return [sys.executable, "-c", f"import sys; {gone}; {COMMAND[2]}"]


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("matplotlib", ("audit", "--runs", "1e9", "--plot", "a.png")),
        ("matplotlib", ("suggest", "no.csv", "--key", "k", "--user", "u", "--epsilon", "1", "--plot", "a.png")),
        ("matplotlib", ("reproduce",)),
        ("flint", ("reproduce",)),
        ("flint", ("audit", "--mechanism", "all", "--runs", "1e9")),
        ("opendp", ("audit", "--mechanism", "opendp:laplace_threshold", "--runs", "1e9")),
    ],
)
def test_a_missing_package_is_said_before_any_work(package: str, arguments: tuple[str, ...]) -> None:
    submodules = {"matplotlib": ["matplotlib.figure"], "opendp": ["opendp.prelude"]}.get(package, [])
    done = subprocess.run(
        [*without(package, *submodules), *arguments], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 2
    assert "pip install 'sparsedp[" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("report").exists()


def test_a_plot_that_cannot_be_drawn_is_said_before_any_work() -> None:
    many = ("audit", "--runs", "1e9")
    assert "--plot must end in one of" in run(*many, "--plot", "a.xyz", code=2).stderr
    assert "No such file or directory: no/a.png" in run(*many, "--plot", "no/a.png", code=2).stderr
    assert "--plot" in run(*many, "--mechanism", "all", "--plot", "a.png", code=2).stderr
    assert "--confidence must be in" in run(*many, "--mechanism", "all", "--confidence", 2, code=2).stderr


def test_a_quiet_audit_is_quiet() -> None:
    done = run("audit", "--mechanism", "laplace", "--runs", 1000, "--quiet", "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)[0]["mechanism"] == "laplace"
    assert "auditing laplace" in run("audit", "--mechanism", "laplace", "--runs", 1000, "--json").stderr


# Help, and what a release says about itself


def test_version() -> None:
    assert run("--version").stdout == f"sparsedp {sparsedp.__version__}\n"


def test_commands_are_listed_in_the_order_of_their_use() -> None:
    text = run("--help").stdout
    listed = re.findall(r"^  (\w+)  .*$", text.partition("Commands:")[2], re.MULTILINE)
    assert tuple(listed) == ORDER
    assert "..." not in text.partition("Commands:")[2]


def test_help_is_in_whole_sentences() -> None:
    def check(command: object) -> None:
        for option in command.params:  # type: ignore[attr-defined]
            if option.name not in ("install_completion", "show_completion"):
                text = getattr(option, "help", None) or ""
                assert re.match(r"[A-Z].*\.$", text.replace("ε", "E")), (option.name, text)
        for below in getattr(command, "commands", {}).values():
            assert re.match(r"[A-Z].*\.", below.help), below.help
            check(below)

    check(commands())
    assert flags_of(commands())["max_keys_per_user"] == "--max-keys-per-user"


def test_an_unknown_option_has_a_near_one() -> None:
    assert "--epsilon" in run("plan", "--epsilom", 1, code=2).stderr
    assert "--max-keys-per-user" in run("release", "a.csv", "--max_keys_per_user", 1, code=2).stderr


def test_an_estimated_size_is_called_one() -> None:
    Path("a.csv").write_text("id\n" + "".join(f"{at % 50}\n" for at in range(1000)))
    release("a.csv", "--key", "id")
    told = json.loads(run("info", "out.sparsedp", "--json").stdout)
    assert told["nonzero"] is None
    assert told["estimated_size"] == sparsedp.load("out.sparsedp").plan.problem.nonzero
    assert (told["key_kind"], told["format"]) == ("text", sparsedp.load("out.sparsedp").format)
    assert "estimated from the data with noise" in run("info", "out.sparsedp").stdout
    release("a.csv", "--key", "id", "--key-type", "integer", "--nonzero", 50, "--force")
    told = json.loads(run("info", "out.sparsedp", "--json").stdout)
    assert (told["nonzero"], told["estimated_size"], told["key_kind"]) == (50, None, "integer")
    assert "estimated" not in run("info", "out.sparsedp").stdout


def test_a_release_says_why_it_takes_gaussian_noise(tmp_path: Path) -> None:
    """Catches a choice of noise without a reason, and a reason for what was asked for by name."""
    (tmp_path / "t.csv").write_text("u,k\n" + "".join(f"{user},{user % 9}\n" for user in range(50)))
    asked: list[object] = ["release", tmp_path / "t.csv", "--key", "k", "--user", "u", "--max-keys-per-user", 100]
    asked += ["--epsilon", 1, "--delta", "1e-9", "--keep-keys"]
    told = Command(*asked, "-o", tmp_path / "a.sparsedp").wait().stderr
    assert "gaussian noise: a mean error of" in told
    told = Command(*asked, "--noise", "gaussian", "-o", tmp_path / "b.sparsedp").wait().stderr
    assert "gaussian noise: a mean error" not in told
