"""Pieces of work in several threads, for kernels that run without the interpreter lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

from .. import _native

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The result of each item, in the order of the items, which are taken one after the other in
    this thread; a few are under way at a time. A single item is done here: making threads would take
    longer than most.
    """
    threads, left = _native.thread_count(), iter(items)
    first = list(islice(left, 2))
    if threads == 1 or len(first) < 2:
        yield from map(work, chain(first, left))
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in chain(first, left):
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        for future in waiting:
            yield future.result()
