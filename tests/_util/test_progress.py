"""Progress is for terminals and long work only, and adds up."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import sparsedp
from sparsedp._util import progress
from sparsedp._util.progress import SHOWN_FROM, task
from sparsedp.mechanisms import retrieval
from sparsedp.releasing import cells, inputs
from sparsedp.structures import embedding, linear_system, thresholds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "total"), [(io.StringIO(), SHOWN_FROM), (Terminal(), SHOWN_FROM - 1)])
def test_nothing_is_shown_elsewhere_or_for_short_work(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, total: int
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with task("Working", total) as advance:
        advance(total)
    assert stream.getvalue() == ""


def test_there_may_be_no_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with task("Working", SHOWN_FROM) as advance:
        advance(1)


def test_a_terminal_is_told_of_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with task("Working hard", SHOWN_FROM) as advance:
        advance(SHOWN_FROM // 2)
    assert "Working hard" in terminal.getvalue()
    with pytest.raises(ZeroDivisionError), task("Failing", SHOWN_FROM):
        raise ZeroDivisionError


@pytest.mark.parametrize("mechanism", ["tight-alp", "retrieval", "threshold", "stability"])
def test_every_stage_of_a_release_is_finished(monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
    stages: list[tuple[str, int, list[int]]] = []

    @contextmanager
    def recorded(description: str, total: int) -> Iterator[Callable[[int], None]]:
        done: list[int] = []
        stages.append((description, total, done))
        yield done.append

    for module in (cells, embedding, inputs, linear_system, retrieval, thresholds):
        assert module.task is progress.task
        monkeypatch.setattr(module, "task", recorded)
    keys = np.arange(300_000)
    delta = 0.0 if mechanism in ("tight-alp", "threshold") else 1e-9
    sparsedp.release((keys, keys % 9 + 1), epsilon=1, delta=delta, nonzero=len(keys), mechanism=mechanism)
    building = ["Building"] if mechanism in ("tight-alp", "retrieval") else []
    assert [name for name, *_ in stages] == ["Reading keys", "Sorting keys", "Adding noise", *building]
    assert all(sum(done) == total for _, total, done in stages)
