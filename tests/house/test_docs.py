"""The pages name what is there, link to what is there, and have lines that fit."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

import sparsedp
from making.commands import reference
from making.curves import PAGES as PICTURED
from making.curves import visits
from making.figures import FIGURES, stale
from sparsedp.mechanisms import MECHANISMS

REPOSITORY = Path(__file__).parents[2]
DOCS, TESTS = REPOSITORY / "docs", REPOSITORY / "tests"
WIDEST = 100
SECTIONS = ["The idea", "Guarantee", "When to take it", "Cost", "Code"]
PAGES = sorted({*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md")} - {DOCS / "promises.md"})  # that one is generated


def test_every_test_that_the_table_of_faults_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "faults.md").read_text(encoding="utf-8")))
    files = {file.stem for file in TESTS.rglob("test_*.py")}
    sources = "".join(file.read_text(encoding="utf-8") for file in TESTS.rglob("test_*.py"))
    there = set(re.findall(r"^def (test_\w+)", sources, re.MULTILINE))
    assert len(named) > 30
    assert named - files <= there
    in_files = "".join(file.read_text(encoding="utf-8") for file in TESTS.rglob("test_faults_*.py"))
    assert set(re.findall(r"^def (test_\w+)", in_files, re.MULTILINE)) <= named


PUBLISHED: dict[str, dict[str, Any]] = {
    "laplace": {"domain": 10},
    "compact": {"total": 10},
    "alp": {},
    "threshold-alp": {"delta": 1e-6},
    "retrieval": {"delta": 1e-6},
    "tight-alp": {"delta": 1e-6, "keep_keys": True},
}


@pytest.mark.parametrize("mechanism", PUBLISHED)
@pytest.mark.parametrize("parts", [1, 2])
def test_the_page_of_proofs_names_every_field_that_is_published(mechanism: str, parts: int, tmp_path: Path) -> None:
    if parts > 1 and mechanism not in ("retrieval", "tight-alp"):
        pytest.skip("is built in one part")
    counts = dict.fromkeys(range(5), 100)
    path = tmp_path / "release"
    sparsedp.release(counts, epsilon=1, mechanism=mechanism, parts=parts, path=path, **PUBLISHED[mechanism])
    names: set[str] = set()
    for file in [path] if path.is_file() else path.iterdir():
        raw = file.read_bytes()
        header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
        metadata = header.pop("__metadata__")
        description = json.loads(metadata.pop("sparsedp"))
        names |= {*header, *metadata, *description} - {"keys", "part", "of"}
        names |= {f"keys.{field}" for field in description.get("keys", {})}
    text = (DOCS / "privacy.md").read_text(encoding="utf-8")
    table = text[text.index("| field | why it may be published |") : text.index("**The kind of keys**")]
    listed = re.findall(r"`([\w.*]+)`", "".join(row.split("|")[1] for row in table.splitlines() if row))
    assert [name for name in sorted(names) if not any(fnmatchcase(name, pattern) for pattern in listed)] == []


def test_the_modules_and_tests_that_the_documentation_names_are_there() -> None:
    places = (REPOSITORY, REPOSITORY / "src" / "sparsedp", REPOSITORY / "tests")
    for page in (*DOCS.rglob("*.md"), *REPOSITORY.glob("*.md")):
        if page.name == "CHANGELOG.md":  # it names things as they were at the time
            continue
        for name in re.findall(r"`([\w/]+/[\w*]+\.(?:py|hpp|cpp))`", page.read_text(encoding="utf-8")):
            assert any(list(place.glob(name)) for place in places), f"{page.name} names {name}"


README = REPOSITORY / "README.md"


def test_the_readme_is_short_and_shows_first_what_matters() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 110
    assert any("overview.svg" in line for line in lines[:12])
    assert any("pip install" in line for line in lines[:25])
    assert any("counts users per key" in line for line in lines[:40])


CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")


def anchors(page: Path) -> set[str]:
    """What a link may point to in a page: its headings, and the names of the API."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower()).strip() for heading in headings)
    return {re.sub(r"\s", "-", heading) for heading in plain} | set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


def broken_links(page: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere within the repository."""
    broken = []
    for target in (link or attribute for link, attribute in LINK.findall(CODE.sub("", text))):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", [*PAGES, DOCS / "promises.md"], ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_noticed() -> None:
    page = DOCS / "guide.md"
    text = "[a](no.md) [b](privacy.md#no) [c](#no) [d](privacy.md#kept-keys) [e](#a-budget) [f](https://example.org)"
    assert broken_links(page, f"{text} ![](figures/no.svg)") == ["no.md", "privacy.md#no", "#no", "figures/no.svg"]


def test_every_public_name_is_in_the_reference() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    listed = set(re.findall(r"^::: (\S+)$", pages, re.MULTILINE))
    spark = {f"sparsedp.spark.{name}" for name in sparsedp.spark.__all__}
    tools = {
        *(f"sparsedp.reach.duckdb.{name}" for name in ("register", "unregister")),
        *(f"sparsedp.reach.polars.{name}" for name in ("ExprAnswers", "SeriesAnswers")),
        *(f"sparsedp.reach.pandas.{name}" for name in ("SeriesAnswers", "FrameAnswers")),
        "sparsedp.reach.opendp.make_release",
    }
    assert listed == {f"sparsedp.{name}" for name in sparsedp.__all__} | spark | tools


def test_every_mechanism_has_a_page_with_all_of_its_sections() -> None:
    for name in MECHANISMS:
        text = (DOCS / "mechanisms" / f"{name}.md").read_text(encoding="utf-8")
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS, name
        assert re.search(r"!\[[^]]+\]\(\.\./figures/", text), name
        assert "(../privacy.md#" in text, name


def test_the_page_of_commands_has_every_command_and_option() -> None:
    text = reference()
    shown = (DOCS / "commands.md").read_text(encoding="utf-8").partition("Commands:\n")[2]  # by the program, and tested
    listed = re.findall(r"^  (\w+) ", shown.partition("```")[0], re.MULTILINE)
    assert len(listed) > 10
    assert re.findall(r"^## sparsedp (\w+)$", text, re.MULTILINE) == listed
    for command in ("create", "show"):
        assert f"\n### sparsedp ledger {command}\n" in text, command
    assert "| `--max-keys-per-user" in text
    assert "<!-- commands -->" in (DOCS / "commands.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_up_to_date(name: str) -> None:
    assert stale(name) is None, f"{stale(name)}: make figures"


def test_a_figure_of_other_values_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, values = FIGURES["laplace"]
    monkeypatch.setitem(FIGURES, "laplace", (draw, lambda: [[*values()[0]], [value + 1 for value in values()[1]]]))
    assert stale("laplace") == "laplace.svg shows other values"


def test_the_first_picture_shows_what_the_text_says_of_its_intervals() -> None:
    true, _, low, high = visits()
    missed = [page for page, *row in zip(PICTURED, true, low, high, strict=True) if not row[1] <= row[0] <= row[2]]
    assert (len(true), missed) == (7, ["/page/2"])
    assert "six of the seven 95 % intervals contain" in README.read_text(encoding="utf-8")
    index = " ".join((DOCS / "index.md").read_text(encoding="utf-8").split())
    assert "Six of the seven intervals contain the true count; that of `/page/2` misses" in index


def test_every_figure_is_shown_somewhere() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for figure in (DOCS / "figures").iterdir():
        assert f"figures/{figure.name}" in pages or figure.stem.removesuffix("-dark") in FIGURES, figure.name
    assert all(f"figures/{name}.svg" in pages for name in FIGURES)


# Laid out by hand or generated: fenced and indented code, comments, generated tables; and versions
# that are out.
LAID_OUT = re.compile(
    r"^```.*?^```$"
    r"|(?<=\n\n)(?: {4}[^\n]*\n)+"
    r"|^<!-- (?P<name>[\w.]+) begins -->$.*?^<!-- (?P=name) ends -->$"
    r"|^<!--.*?-->$"
    r"|^<picture>$.*?^</picture>$"
    r"|^## \[\d.*",
    re.MULTILINE | re.DOTALL,
)
UNBREAKABLE = re.compile(r"\s*(?:(?:[-*+>]|\d+\.)\s+)?(?:\S+|!?\[[^]]*\]\(\S+\)\S*)")


def wide_lines(page: str) -> list[str]:
    """The lines of prose that are too wide, and could be broken."""
    lines = LAID_OUT.sub("", page).splitlines()
    return [
        line for line in lines if len(line) > WIDEST and not line.startswith("|") and not UNBREAKABLE.fullmatch(line)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_lines_of_prose_are_not_too_wide(page: Path) -> None:
    assert wide_lines(page.read_text(encoding="utf-8")) == []


WIDE = "word " * 30


@pytest.mark.parametrize(
    "prose",
    [WIDE, f"Text.\n{WIDE}", f"- {WIDE}", f"> {WIDE}", f"    code\n\n{WIDE}", f"```\n```\n{WIDE}"],
)
def test_a_line_of_prose_that_is_too_wide_is_noticed(prose: str) -> None:
    assert wide_lines(f"# Page\n\n{prose}\n\nText.\n") != []


@pytest.mark.parametrize(
    "other",
    [f"| {WIDE} |", f"```\n{WIDE}\n```", f"    {WIDE}", f"<!-- {WIDE} -->", "w" * 200, f"- [{WIDE}](page.md)"],
)
def test_lines_that_are_laid_out_otherwise_may_be_wide(other: str) -> None:
    assert wide_lines(f"# Page\n\n{other}\n\nText.\n") == []
