"""What a release may be written over: nothing but an older release; and what may name a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sparsedp
from releases import make
from sparsedp import ParameterError
from sparsedp.format.container import is_begun_by_us

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("format-*/*.sparsedp"))


@pytest.mark.parametrize("content", ["key,user\na,1\n", "{", '{"__metadata__":{"sha256":"' * 9])
def test_a_file_that_is_no_release_is_not_replaced(content: str, tmp_path: Path) -> None:
    # Catches a log of events that becomes the release of its counts.
    old, ledger = tmp_path / "visits.csv", sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=1.0)
    old.write_text(content)
    message = r"visits\.csv exists and is not a release; name another file, or remove it first$"
    with pytest.raises(FileExistsError, match=message):
        sparsedp.release({"a": 1}, epsilon=1.0, nonzero=10, ledger=ledger, path=old)
    with pytest.raises(FileExistsError, match=message):
        make("tight-alp").save(old)
    assert old.read_text() == content
    assert ledger.datasets()[0].left_epsilon == 1.0


@pytest.mark.parametrize("kept", [0, 200, -1, None])
def test_an_older_release_is_replaced_even_if_it_is_damaged(kept: int | None, tmp_path: Path) -> None:
    path = tmp_path / "a.sparsedp"
    make("threshold").save(path)
    path.write_bytes(path.read_bytes()[:kept])  # of an empty file nothing is lost
    make("tight-alp").save(path)
    sparsedp.verify(path)


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_releases_of_all_formats_are_recognised(file: Path) -> None:
    first = file / "release.sparsedp" if file.is_dir() else file
    assert is_begun_by_us(first)


WRONG_PATHS = [None, 5, b"a.sparsedp", "", "a\0b", "\ud800", ["a"], 1.5]


@pytest.mark.parametrize("wrong", WRONG_PATHS, ids=repr)
def test_what_names_no_file_is_refused_before_anything_is_spent(wrong: Any, tmp_path: Path) -> None:
    ledger = sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=1.0)
    with pytest.raises(ParameterError, match=r"^path must "):
        make("tight-alp").save(wrong)
    for opens in (sparsedp.load, sparsedp.verify):
        with pytest.raises(ParameterError, match=r"^path must "):
            opens(wrong)
    if wrong is not None:
        with pytest.raises(ParameterError, match=r"^path must "):
            sparsedp.release({"a": 1}, epsilon=1.0, ledger=ledger, path=wrong)
    assert ledger.datasets()[0].left_epsilon == 1.0


def test_a_folder_is_not_taken_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match=r"is a directory; name a file$"):
        sparsedp.release({"a": 1}, epsilon=1.0, path=tmp_path)
