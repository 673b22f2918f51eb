"""Every example of the pages runs as written, in an empty folder, and prints what is shown."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from commands import Command
from sparsedp.privacy.randomness import reproducible_for_tests

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
README, README_SEED = REPOSITORY / "README.md", 4
PAGES = [README, *sorted(DOCS.rglob("*.md"))]

ON_SPARK = {DOCS / "spark.md"}  # run by tests/reach/spark/test_spark_docs.py
SERVED = {DOCS / "serve.md"}  # its requests are run by tests/serve/test_serve_docs.py
MEASURED = {
    DOCS / "accuracy.md",
    DOCS / "performance.md",
}  # they show runs of minutes
RUNNING = ("console", "python", "pycon", "sh")

# These commands draw noise: what they print is compared up to noise. All others print the same each
# time.
NOISY = re.compile(r"sparsedp (release|lookup|top|audit|series)\b")
NUMBER = re.compile(r"(?<![\w/.-])(?<!ε = )(?<!factor of )-?\d+(?:\.\d+)?(?![\w.]*[a-z/])")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
# Counts of the examples have noise of scale 20 at most, so that an answer is off by more than this
# less than once in 10⁸ times.
OFF_BY = 400


class Block(NamedTuple):
    kind: str
    text: str
    shown: str | None  # the output that follows


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, each with the text block that follows it directly."""
    fences = r"^```(\w*)[^\n]*\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?"
    found = re.findall(fences, page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(kind, text, shown or None) for kind, text, shown in found]


def examples(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.kind in RUNNING]


def matches(shown: str, output: str, noisy: bool = False) -> bool:
    """Whether the output matches what is shown: ... stands for anything, and if there is noise,
    numbers are about the same.
    """
    shown, output = (re.sub(r"[ \t]+", " ", text).strip() for text in (shown, output))
    if not output.startswith(
        ('"key"', '"label"', '"first"')
    ):  # commas between numbers of a CSV file are none within them
        shown, output = (THOUSANDS.sub("", text) for text in (shown, output))
    if not noisy:
        pattern = ".*".join(re.escape(piece) for piece in shown.split("..."))
        return re.fullmatch(pattern, output, re.DOTALL) is not None
    pieces = [NUMBER.split(piece) for piece in shown.split("...")]
    pattern = ".*".join(rf"({NUMBER.pattern})".join(map(re.escape, piece)) for piece in pieces)
    found = re.fullmatch(pattern, output, re.DOTALL)
    wanted = [number for piece in shown.split("...") for number in NUMBER.findall(piece)]
    return found is not None and all(map(_near, wanted, found.groups()))


def _near(shown: str, printed: str) -> bool:
    a, b = float(shown), float(printed)
    return abs(a - b) <= OFF_BY + max(abs(a), abs(b)) / 2


def by_key(ranking: str) -> str:
    """The lines of a ranking in the order of their keys."""
    return "\n".join(sorted(ranking.splitlines(), key=lambda line: line.split()[-1]))


def shape(suggestion: str) -> str:
    """A suggestion without its numbers, which are made with a small share of ε, and without the mark
    of the bound that was chosen.
    """
    return NUMBER.sub("N", THOUSANDS.sub("", suggestion.replace("→", " ")))


def run_command(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of ours alone, or anything else as a shell runs it."""
    words = shlex.split(command, comments=True)
    if words[0] == "sparsedp" and not set(command.partition("#")[0]) & set("|<>;&*?$`~"):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("COLUMNS", "100")
            return Command(*words[1:], merged=True).wait()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_commands(block: Block, folder: Path) -> None:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.replace("\\\n", " ").partition("\n")  # a backslash continues the line
        done = run_command(command, folder)
        assert done.returncode == 0, done.stdout
        printed = done.stdout
        if command.startswith("sparsedp top"):  # noise may exchange neighbours
            shown, printed = by_key(shown), by_key(printed)
        if command.startswith("sparsedp suggest"):
            shown, printed = shape(shown), shape(printed)
        assert matches(shown, printed, NOISY.match(command) is not None), f"{command}\n{done.stdout}"


def run_python(block: Block, names: dict[str, Any]) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, "example", "exec"), names)
    noisy = re.search(r"\brelease\b", block.text) is not None
    if block.shown is not None:
        assert matches(block.shown, printed.getvalue(), noisy), printed.getvalue()


def run_session(block: Block) -> None:
    parsed = doctest.DocTestParser().get_doctest(block.text, {}, "session", None, 0)
    assert doctest.DocTestRunner().run(parsed).failed == 0


def check_shell(block: Block) -> None:
    """Commands that install or build: CI runs them, and here they are known by name."""
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for line in block.text.splitlines():
        words = line.partition("#")[0].split()
        assert words[0] in ("pip", "python3", ".", "make"), line
        assert words[0] != "make" or set(words[1:]) <= targets, line


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page not in ON_SPARK | MEASURED | {README} and examples(page)],
    ids=lambda page: str(page.relative_to(REPOSITORY)),
)
def test_the_examples_of_a_page_run_as_shown(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in examples(page):
        if block.kind == "console":
            run_commands(block, tmp_path)
        elif block.kind == "python":
            run_python(block, names)
        elif block.kind == "pycon":
            run_session(block)
        else:
            check_shell(block)


def test_the_examples_of_the_readme_print_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    kinds = [block.kind for block in examples(README)]
    assert {"console", "python", "sh"} <= set(kinds)
    for block in examples(README):
        if block.kind == "python":  # with this seed it prints exactly this
            assert block.shown is not None
            with reproducible_for_tests(README_SEED):
                exec(compile(block.text, str(README), "exec"), {})
            assert capsys.readouterr().out == block.shown
        elif block.kind == "console":
            run_commands(block, tmp_path)
        else:
            check_shell(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_block_of_code_is_of_a_kind_that_is_run(page: Path) -> None:
    """Anything else is output, a format, or a table."""
    kinds = {block.kind for block in blocks(page)}
    others = {""} if page in MEASURED else {"http", "json"} if page in SERVED else set()
    assert kinds <= {*RUNNING, "text"} | others
    assert all(block.text.strip() for block in blocks(page))
    assert "```text\n```" not in page.read_text(encoding="utf-8")


def test_a_page_that_shows_something_else_is_noticed() -> None:
    assert matches("a ... c", "a b c\n")
    assert not matches("a ... c", "a b d\n")
    assert not matches("a", "a\nb")
    assert not matches("1,919.0  /", "1,928.0  /")
    assert matches("1,919.0  /", "  1,928.0  /", noisy=True)
    assert not matches("1,919.0  /page/2", "1,919.0  /page/3", noisy=True)
    assert not matches("1,919.0  /", "19,190.0  /", noisy=True)
    assert not matches("ε = 1, 900 bytes", "ε = 2, 900 bytes", noisy=True)
