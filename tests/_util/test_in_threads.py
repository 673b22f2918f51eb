"""Pieces of work in several threads: in order, and without threads where there is one piece only."""

from __future__ import annotations

import threading

import pytest

from sparsedp._util.threads import in_threads


@pytest.mark.parametrize("threads", ["1", "2", "7"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_results_have_the_order_of_the_items(count: int, threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Mutant: an item that is looked at and then lost.
    monkeypatch.setenv("SPARSEDP_THREADS", threads)
    assert list(in_threads(lambda item: item**2, iter(range(count)))) == [item**2 for item in range(count)]


def test_a_single_item_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARSEDP_THREADS", "2")
    here = threading.current_thread()
    assert list(in_threads(lambda _: threading.current_thread(), [0])) == [here]
    assert here not in list(in_threads(lambda _: threading.current_thread(), [0, 1]))
