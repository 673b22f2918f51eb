"""How far a long release has come, for a caller who waits at a terminal.

It goes to the caller's own standard error and says how many of his own keys are done: nothing that he does not know.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Less work than this is done before anybody could read about it.
SHOWN_FROM = 1 << 20


@contextmanager
def stage(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """A part of the work with `total` units; the block calls what it gets with the number of units just done."""
    if total < SHOWN_FROM or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(description, total=total)
        yield lambda done: shown.advance(task, done)
