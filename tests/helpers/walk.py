"""The walk of a row, from a table to the file of a release: `python tests/helpers/walk.py` prints
it.

The command line and `releasing` hold the row and pass it to the rooms to their left. Every such
step is a line here: a function that gets data and is called by one of those two rooms. These are
good places for a breakpoint.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import sparsedp

PACKAGE = Path(sparsedp.__file__).parent
HANDS = ("cli", "releasing")  # rooms that hold the row and pass it on
DATA = {"BoundedCounts", "Pairs", "Sums", "Cells", "Release", "ChunkedArray", "Table", "Built"}


def rows(number: int = 3000) -> Iterator[str]:
    """A log of visits: a user has ten pages."""
    yield "user,page"
    for at in range(number):
        yield f"u{at // 10},page {at * at % 97}"


def is_data(value: object, source: str) -> bool:
    """Whether a value holds the row, among others: a path to it, a column, or what it has become."""
    if isinstance(value, np.ndarray):
        return value.size > 0
    if isinstance(value, (list, tuple)):
        return any(is_data(one, source) for one in value[:3])
    if isinstance(value, dict):
        return any(is_data(one, source) for one in value.values())
    return value == source if isinstance(value, str) else type(value).__name__ in DATA


@cache  # it is asked at every call, and there are few files
def place(file: str) -> tuple[str, ...]:
    """The module of a file, below the package; empty for other code."""
    path = Path(file)
    return path.relative_to(PACKAGE).with_suffix("").parts if path.is_relative_to(PACKAGE) else ()


def walk(source: Path, output: Path, *options: str) -> list[str]:
    """The functions that get the row on its way from the source to the output, in order, each once
    in a row.
    """
    from sparsedp.cli.app import app

    steps: list[str] = []
    asked = ["release", str(source), "--key", "page", "--user", "user", "--max-keys-per-user", "10", "--epsilon", "1"]

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_name.startswith("<"):
            return
        called = place(frame.f_code.co_filename)
        caller = place(frame.f_back.f_code.co_filename) if called and frame.f_back else ()
        if not caller or caller[0] not in HANDS or called[:2] == caller[:2]:
            return
        given = [frame.f_locals[name] for name in frame.f_code.co_varnames[: frame.f_code.co_argcount]]
        step = ".".join((*called, frame.f_code.co_name))
        if any(is_data(one, str(source)) for one in given) and (not steps or steps[-1] != step):
            steps.append(step)

    from sparsedp.cli import releasing  # noqa: F401  # adds its command

    with contextlib.redirect_stderr(io.StringIO()):
        sys.setprofile(watch)
        try:
            app([*asked, "--output", str(output), *options], standalone_mode=False)
        finally:
            sys.setprofile(None)
    # Before this there are only parameters, and afterwards only what may be published.
    last = max(at for at, step in enumerate(steps) if step.startswith("format."))
    written = max(at for at, step in enumerate(steps[: last + 1]) if step.endswith(("save", "finish_parts")))
    return steps[steps.index("counting.local.count_table") : written + 1]


def rooms(steps: list[str]) -> list[str]:
    """The rooms of the steps, each stretch once, without the budget and the rooms that hold the
    row.
    """
    seen = [step.split(".")[0] for step in steps]
    visited = [room for room in seen if room not in (*HANDS, "budget", "_util")]
    return [room for at, room in enumerate(visited) if at == 0 or visited[at - 1] != room]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "visits.csv"
        log.write_text("\n".join(rows()) + "\n")
        print("\n".join(walk(log, Path(folder) / "visits.sparsedp", *sys.argv[1:])))
