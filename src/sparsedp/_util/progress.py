"""Progress of a long release, for a caller who waits at a terminal.

It goes to the caller's own standard error and shows how many of the caller's own keys are done,
which reveals nothing that the caller does not know.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

# Less work than this is done before anyone could read the message.
SHOWN_FROM = 1 << 20


_hushed = False


def hush(hushed: bool = True) -> None:
    """Show nothing in this whole process, for programs whose caller asked for silence."""
    global _hushed
    _hushed = hushed


def _watched() -> bool:
    return not _hushed and sys.stderr is not None and sys.stderr.isatty()


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def task(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """A part of the work with `total` units; the block calls the function with the number of units
    just done.
    """
    if total < SHOWN_FROM or not _watched():
        yield lambda _: None
        return
    with _bar() as shown:
        shown_task = shown.add_task(description, total=total)
        yield lambda done: shown.advance(shown_task, done)


def waiting(description: str, future: Future[Any], percent: Callable[[], float] | None) -> None:
    """Wait for work in another thread; `percent` reports how much of it is done."""
    if not _watched():
        wait([future])
        return
    wait([future], timeout=0.5)
    with _bar() as shown:
        shown_task = shown.add_task(description, total=100.0)
        while not future.done():
            done = -1.0 if percent is None else percent()
            if done >= 0:
                shown.update(shown_task, completed=done)
            wait([future], timeout=0.1)


@contextmanager
def counting(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Work in `total` long steps: a bar on a terminal, otherwise a line at the start."""
    if not _watched():
        if sys.stderr is not None and not _hushed:
            print(f"{description}: {total} steps", file=sys.stderr, flush=True)
        yield lambda _: None
        return
    with _bar() as shown:
        shown_task = shown.add_task(description, total=total)
        yield lambda done: shown.advance(shown_task, done)
