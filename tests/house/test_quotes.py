"""The figures in the pages are those of the runs that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

import sparsedp
from making import quoted, runs
from making.quotes import Quote

REPOSITORY = Path(__file__).parents[2]
VALUES = runs.values()


@pytest.mark.parametrize("page", sorted({quote.page for quote in quoted.quotes()}))
def test_pages_quote_what_was_measured(page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    faults = [fault for quote in quoted.quotes() if quote.page == page for fault in quote.faults(text, VALUES)]
    assert faults == []


@pytest.mark.parametrize("page", quoted.TABLES)
def test_tables_are_those_of_one_run(page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    assert quoted.with_tables(page, text) == text, "make quotes"


def test_everything_that_is_kept_was_run_whole_with_this_version() -> None:
    report = runs.kept("report")
    assert report["facts"]["command"] == "sparsedp reproduce --out report --peers"
    assert report["facts"]["version"].startswith(f"sparsedp {sparsedp.__version__},")
    assert report["agree"] == report["numbers"]
    assert all(runs.kept(name)["sparsedp"] == sparsedp.__version__ for name in ("bench", "accuracy"))


SENTENCE = Quote("page.md", "errs by {a|error} and {b|whole} in {c|size} (*{d}*)")


def test_a_sentence_is_found_whatever_its_values_and_lines_are() -> None:
    text = "It errs\nby 3.5 and\n   12 345 in 25 KB (*0.16.0*), or so."
    values = {"a": 120.4, "b": 9.6, "c": 1_600_000.0, "d": "1.2.3"}
    assert len(list(SENTENCE.faults(text, values))) == 4
    updated = SENTENCE.updated(text, values)
    assert updated == "It errs\nby 120 and\n   10 in 1.6 MB (*1.2.3*), or so."
    assert list(SENTENCE.faults(updated, values)) == []


@pytest.mark.parametrize(
    "text", ["It errs by 3.5 and 12 in 5.", "errs by 1 and 2 in 3 B (*4*) errs by 1 and 2 in 3 B (*4*)"]
)
def test_a_sentence_that_is_not_there_once_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"has [02] places for: errs by"):
        SENTENCE.found(text)


def test_a_wrong_figure_is_noticed() -> None:
    values = {"a": 1.0, "b": 2, "c": 3, "d": "4"}
    (fault,) = SENTENCE.faults("errs by 1.0 and 2 in 3 B (*5*)", values)
    assert fault == "page.md has 5 for 'd', which is 4: make quotes"
