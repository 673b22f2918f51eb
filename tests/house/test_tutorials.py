"""Every cell of the notebooks runs, without a kernel, and shows what the notebook has kept of it."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

from making import tutorials
from test_docs import broken_links
from test_examples import matches

NAMES = [notebook.stem for notebook in tutorials.NOTEBOOKS]


def test_there_are_three_tutorials() -> None:
    assert NAMES == ["every-day", "first-release", "many-keys"]


@pytest.mark.parametrize("notebook", tutorials.NOTEBOOKS, ids=NAMES)
def test_every_cell_shows_what_is_kept_of_it(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for cell, shown in tutorials.run(notebook):
        kept = cell["outputs"]
        assert [tutorials.kind(output) for output in shown] == [tutorials.kind(output) for output in kept]
        for now, then in zip(shown, kept, strict=True):
            if tutorials.kind(now) == "text/plain":
                assert matches(tutorials.text(then), tutorials.text(now), noisy=True), tutorials.source(cell)


@pytest.mark.parametrize("notebook", tutorials.NOTEBOOKS, ids=NAMES)
def test_a_notebook_is_what_jupyter_writes_and_small(notebook: Path) -> None:
    whole = json.loads(notebook.read_text(encoding="utf-8"))
    assert (whole["nbformat"], whole["nbformat_minor"]) == (4, 5)
    assert whole["metadata"]["kernelspec"]["name"] == "python3"
    assert len({cell["id"] for cell in whole["cells"]}) == len(whole["cells"])
    code = [cell for cell in whole["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not any(re.search(r"^\s*[%!]", tutorials.source(cell), re.MULTILINE) for cell in code)
    assert notebook.stat().st_size < 150_000


@pytest.mark.parametrize("notebook", tutorials.NOTEBOOKS, ids=NAMES)
def test_a_notebook_is_a_page_of_the_site(notebook: Path) -> None:
    page = tutorials.page(notebook)
    assert page.startswith("# ")
    assert f'href="{notebook.name}"' in page
    assert "<style" not in page
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert pictures
    assert all(base64.b64decode(picture, validate=True).startswith(b"\x89PNG") for picture in pictures)
    assert page.count("```python\n") == len(list(filter(lambda cell: cell["cell_type"] == "code", _cells(notebook))))
    text = "\n\n".join(tutorials.source(cell) for cell in _cells(notebook) if cell["cell_type"] == "markdown")
    assert broken_links(notebook, text) == []
    nav = (notebook.parents[2] / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"tutorials/{notebook.stem}.md" in nav


def _cells(notebook: Path) -> list[tutorials.Cell]:
    return tutorials.cells(notebook)
