"""Times as ratios: our work and what it is compared with, one after the other in the same run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Work = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the table: seconds of both sides for the same amount of work, and what their
    ratio should be.
    """

    name: str
    against: str
    ours: float
    theirs: float
    most: float | None = None  # ours/theirs should be at most this
    least: float | None = None  # theirs/ours should be at least this
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """How many times as long we take, or how many times faster we are when that is the claim."""
        return self.theirs / self.ours if self.least is not None else self.ours / self.theirs

    @property
    def target(self) -> str:
        """The target in words."""
        if self.most is not None:
            return f"≤ {self.most:g} ×"
        return f"≥ {self.least:g} ×" if self.least is not None else "report"

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None when there is none."""
        if self.most is not None:
            return self.ratio <= self.most
        return self.ratio >= self.least if self.least is not None else None


def seconds(work: Work, repeats: int = 3) -> float:
    """The best of a few runs: what the machine can do when it is left alone."""
    return min(_once(work) for _ in range(repeats))


def side_by_side(
    ours: Work, theirs: Work, repeats: int = 5, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, float]:
    """The best times of both, taken in turns so that a busy neighbour disturbs both."""
    times = [(_once(ours, clock), _once(theirs, clock)) for _ in range(repeats)]
    return min(own for own, _ in times), min(other for _, other in times)


def _once(work: Work, clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Kernels use this many threads."""
    before = os.environ.get("SPARSEDP_THREADS")
    os.environ["SPARSEDP_THREADS"] = str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SPARSEDP_THREADS"]
        else:
            os.environ["SPARSEDP_THREADS"] = before
