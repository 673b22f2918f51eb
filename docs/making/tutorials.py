"""`python docs/making/tutorials.py`: run the notebooks of `docs/tutorials/`, and keep what they show.

A notebook is its JSON file. Cells are plain Python, without magic, so that running them needs no
kernel: each is executed, and the value of its last line is shown as Jupyter would. `page` lays a
notebook out for the site.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

FOLDER = Path(__file__).parents[1] / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

Cell: TypeAlias = dict[str, Any]
Output: TypeAlias = dict[str, Any]

_COLOURS = 64  # of a kept picture
_LANGUAGE = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}
_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def cells(notebook: Path) -> list[Cell]:
    """The cells of a notebook."""
    found: list[Cell] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return found


def source(cell: Cell) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def run(notebook: Path) -> Iterator[tuple[Cell, list[Output]]]:
    """Run the cells of code one after the other in this folder; each with what it shows."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells(notebook):
        if cell["cell_type"] == "code":
            yield cell, _run(source(cell), names)


def _run(code: str, names: dict[str, Any]) -> list[Output]:
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None
    shown: list[Output] = []
    if printed.getvalue():
        shown.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    if value is not None:
        shown.append({"output_type": "execute_result", **_display(value)})
    return shown


def _display(value: Any) -> dict[str, Any]:
    """The richest form that a notebook has for a value."""
    if hasattr(value, "_repr_png_"):
        content, size = value._repr_png_()
        picture = base64.b64encode(content).decode()
        return {"data": {"image/png": picture}, "metadata": {"image/png": size}}
    if hasattr(value, "_repr_html_"):
        return {"data": {"text/html": value._repr_html_()}, "metadata": {}}
    return {"data": {"text/plain": repr(value)}, "metadata": {}}


def kind(output: Output) -> str:
    """What an output consists of."""
    return "text/plain" if output["output_type"] == "stream" else next(iter(output["data"]))


def text(output: Output) -> str:
    """The text of an output that is text."""
    return "".join(output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"])


def write(notebook: Path) -> None:
    """Run a notebook in an empty folder, and keep what it shows."""
    kept = cells(notebook)
    for at, cell in enumerate(kept):
        cell.update(id=f"cell-{at}", metadata={}, source=source(cell).splitlines(keepends=True))
    code = [cell for cell in kept if cell["cell_type"] == "code"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for at, (cell, (_, shown)) in enumerate(zip(code, run(notebook), strict=True), 1):
            cell.update(execution_count=at, outputs=[_kept(output, at) for output in shown])
        os.chdir(FOLDER)
    metadata = {"kernelspec": _KERNEL, "language_info": _LANGUAGE}
    whole = {"cells": kept, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    notebook.write_text(json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def _kept(output: Output, count: int) -> Output:
    if output["output_type"] == "stream":
        return {**output, "text": output["text"].splitlines(keepends=True)}
    ((form, content),) = output["data"].items()
    kept = _smaller(content) if form == "image/png" else content.splitlines(keepends=True)
    return {**output, "data": {form: kept}, "execution_count": count}


def _smaller(picture: str) -> str:
    """A PNG with fewer colours, which takes a third of the space."""
    from PIL import Image

    content = io.BytesIO()
    whole = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    whole.quantize(_COLOURS, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


def page(notebook: Path) -> str:
    """A notebook as a page in Markdown, with what its cells show, and with a link to the notebook."""
    parts = [part for cell in cells(notebook) for part in _laid_out(cell)]
    link = f'*This page is a notebook: <a href="{notebook.name}" download>{notebook.name}</a>, to run and to change.*'
    title, _, rest = parts[0].partition("\n")
    return "\n\n".join([title, link, rest.strip(), *parts[1:]]) + "\n"


def _laid_out(cell: Cell) -> Iterator[str]:
    if cell["cell_type"] == "markdown":
        yield source(cell)
        return
    yield f"```python\n{source(cell)}\n```"
    for output in cell["outputs"]:
        form = kind(output)
        if form == "text/plain":
            yield f"```text\n{text(output).rstrip()}\n```"
        elif form == "text/html":
            shown = re.sub(r"<style.*?</style>", "", "".join(output["data"][form]), flags=re.DOTALL)
            shown = shown.replace(' border="1" class="dataframe"', "")  # of pandas
            whole = re.sub(r"\s*\n\s*", "", shown)  # one block for Markdown
            yield f'<div class="shown">{whole}</div>'
        else:
            size = output["metadata"][form]
            picture = f"data:image/png;base64,{output['data'][form]}"
            yield f'<p class="shown"><img alt="What the cell above draws" width="{size["width"]}" src="{picture}"></p>'


if __name__ == "__main__":
    for chosen in [Path(name).absolute() for name in sys.argv[1:]] or NOTEBOOKS:
        write(chosen)
        print(chosen.name, f"{chosen.stat().st_size:,} bytes")
