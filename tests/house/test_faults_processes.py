"""Several processes on one file, files that change under a reader, forks among threads, and too
little memory.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsedp
from faults import HANGS, ending_of_child, in_child
from releases import answers, make
from sparsedp import FormatError, LedgerError, Release, SpentError, _native
from sparsedp.budget import journal, store
from sparsedp.budget.ledger import Ledger
from sparsedp.keys.kept import kept_keys
from sparsedp.mechanisms import Plan
from sparsedp.privacy.randomness import Randomness
from sparsedp.releasing import building

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")

MEGABYTE = 1 << 20


@contextmanager
def meanwhile(*works: Callable[[], object]) -> Iterator[None]:
    """Threads that repeat their work while the block runs; their exceptions are raised here."""
    done = threading.Event()
    errors: list[BaseException] = []

    def repeat(work: Callable[[], object]) -> None:
        try:
            while not done.is_set():
                work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    for error in errors:
        raise error


def test_of_several_savers_of_a_path_one_wins_and_readers_see_whole_files(tmp_path: Path) -> None:
    """Catches a temporary file that savers share, and a file that has its name before it is
    complete.
    """
    path = tmp_path / "a.sparsedp"
    releases = [make("tight-alp", seed) for seed in range(3)]
    known = [answers(release) for release in releases]
    releases[0].save(path)

    def read() -> None:
        sparsedp.verify(path)
        assert answers(sparsedp.load(path, allow_reproducible=True)) in known

    def save(release: Release) -> None:
        for _ in range(15):
            release.save(path)

    with meanwhile(read):
        savers = [threading.Thread(target=in_child, args=(partial(save, release),)) for release in releases]
        for saver in savers:
            saver.start()
        for saver in savers:
            saver.join()
    read()
    assert os.listdir(tmp_path) == ["a.sparsedp"]


def test_of_several_savers_of_a_directory_one_wins(tmp_path: Path) -> None:
    """Catches parts of two releases in one directory."""
    path = tmp_path / "a"
    releases = [make("tight-alp-parts", seed) for seed in range(3)]
    together = threading.Barrier(len(releases))
    won: list[Release] = []
    refused: list[str] = []

    def save(release: Release) -> None:
        together.wait(HANGS)
        try:
            release.save(path)
        except OSError as error:
            refused.append(str(error))
        else:
            won.append(release)

    savers = [threading.Thread(target=save, args=(release,)) for release in releases]
    for saver in savers:
        saver.start()
    for saver in savers:
        saver.join()
    assert len(won) == 1
    assert all(str(path) in message for message in refused)
    sparsedp.verify(path)
    assert answers(sparsedp.load(path, allow_reproducible=True)) == answers(won[0])
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", ["tight-alp", "tight-alp-parts"])
def test_a_file_that_is_replaced_or_removed_answers_as_before_for_who_has_it_open(kind: str, tmp_path: Path) -> None:
    """Catches arrays that are opened again when they are first used."""
    path = tmp_path / "a"
    release = make(kind)
    release.save(path)
    opened = sparsedp.load(path, allow_reproducible=True)  # its arrays were not read yet
    pickled = pickle.dumps(opened)
    path.rename(tmp_path / "b")
    make(kind, seed=6).save(path)
    assert answers(opened) == answers(release)
    with pytest.raises(FormatError, match="has been replaced"):
        pickle.loads(pickled)


@pytest.mark.parametrize("left", [0, 4096])
def test_a_file_that_is_truncated_kills_who_reads_the_rest(left: int, tmp_path: Path) -> None:
    """No reader of a mapped file can do better: the page is gone. No wrong answer is given before
    that.
    """
    path = tmp_path / "a"
    sparsedp.release((np.arange(20_000), np.ones(20_000, int)), epsilon=1, nonzero=20_000).save(path)

    def read_what_is_gone() -> None:
        faulthandler.disable()  # that of pytest would print a traceback
        opened = sparsedp.load(path)
        os.truncate(path, left)
        opened.lookup(np.arange(20_000))

    assert ending_of_child(read_what_is_gone) == -signal.SIGBUS
    with pytest.raises(FormatError):
        sparsedp.load(path)


def noise(stream: Randomness) -> tuple[int, ...]:
    return tuple(stream.words(4).tolist())


def test_forked_children_never_draw_the_same() -> None:
    """Catches a stream that is copied by the fork, also to grandchildren."""
    stream = Randomness()
    draws = [noise(stream)]
    draws += [in_child(partial(noise, stream)) for _ in range(4)]
    draws += [in_child(lambda: in_child(partial(noise, stream))) for _ in range(2)]
    draws += [in_child(lambda: (noise(stream), in_child(partial(noise, stream)))[1])]
    draws.append(noise(stream))
    assert len(set(draws)) == len(draws) == 9

    def values() -> tuple[float, ...]:
        return tuple(sparsedp.release({1: 5}, epsilon=0.1, domain=40, mechanism="laplace").lookup(range(40)).tolist())

    assert len({in_child(values) for _ in range(5)} | {values()}) == 6


def test_a_child_with_the_process_id_of_its_parent_draws_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new container. Catches a stream that identifies its process by the id alone."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    stream = Randomness()
    child = in_child(partial(noise, stream))
    assert child != noise(stream)


def test_a_child_does_not_wait_for_threads_that_it_does_not_have() -> None:
    """Catches a lock that is held at the fork: the thread draws all the time, so it holds the lock
    in most forks.
    """
    stream = Randomness()
    with meanwhile(lambda: stream.words(1 << 22)):
        draws = {in_child(partial(noise, stream)) for _ in range(6)}
    assert len(draws) == 6


def test_a_child_that_is_forked_during_the_first_lookup_can_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches `functools.cached_property`, which before Python 3.12 computes under a lock."""
    release = make("tight-alp")
    inside, finish = threading.Event(), threading.Event()
    plan_class: Any = type(release.plan)
    reader = plan_class.reader

    def slow_in_threads(plan: Plan, side: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            finish.wait(HANGS)
        return reader(plan, side)

    monkeypatch.setattr(plan_class, "reader", slow_in_threads)
    first = threading.Thread(target=release.lookup, args=([1],))
    first.start()
    try:
        assert inside.wait(HANGS)
        found = in_child(lambda: answers(release))
    finally:
        finish.set()
        first.join()
    assert found == answers(release)


def test_children_work_whatever_other_threads_were_doing(tmp_path: Path) -> None:
    """Builds, saves and lookups of other threads, in Python and in the kernels, at the moment of
    the fork.
    """
    keys = np.arange(100_000)
    release = make("tight-alp")
    expected = answers(release)

    def build() -> None:
        sparsedp.release((keys, np.ones(len(keys), int)), epsilon=1, nonzero=len(keys)).save(tmp_path / "parent")

    def use() -> bool:
        sparsedp.release({1: 5}, epsilon=1, nonzero=50, path=tmp_path / "child")
        return answers(release) == expected

    with meanwhile(build, lambda: release.lookup(keys)):
        assert all(in_child(use) for _ in range(6))
    sparsedp.verify(tmp_path / "child")


def test_a_fork_waits_for_threads_that_use_a_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a child that shares the lock of another thread, or waits for locks of SQLite that
    nobody will release.
    """
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=1, timeout=HANGS)
    inside, leave = threading.Event(), threading.Event()
    done: list[str] = []
    check = journal.check

    def slowly_in_threads(*arguments: Any) -> Any:
        checked = check(*arguments)
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            leave.wait(seconds)
            done.append("looked")  # still inside: a fork that waits comes later, one that does not comes earlier
        return checked

    def while_a_thread_looks(work: Callable[[], object]) -> object:
        inside.clear()
        other = threading.Thread(target=ledger.entries)
        other.start()
        assert inside.wait(HANGS)
        try:
            return work()
        finally:
            leave.set()
            other.join()
            leave.clear()

    monkeypatch.setattr(store, "check", slowly_in_threads)
    seconds = 0.2
    in_fork = while_a_thread_looks(lambda: in_child(lambda: (list(done), ledger.spend(epsilon=1).id)))
    assert in_fork == (["looked"], 1)
    assert len(ledger.entries()) == 1
    seconds = HANGS
    with pytest.raises(LedgerError, match=r"waited 0\.01 s for"):
        while_a_thread_looks(lambda: Ledger.open(ledger.path, timeout=0.01))


def test_an_error_without_words_is_named_when_the_debit_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=1)

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(building, "planned", fail)
    with pytest.raises(SpentError, match="and they stay debited: out of memory"):
        sparsedp.release({1: 5}, epsilon=1, ledger=ledger)


def with_memory(megabytes: int, work: Callable[[], object]) -> object:
    """The work in a child, with this much more memory than is in use."""

    def limited() -> object:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * MEGABYTE,) * 2)
        return work()

    return in_child(limited)


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory in use is read from /proc")
# 4.6 GB: far more than a limit, and than the free heap memory that earlier tests may have left in
# this process.
HUGE: dict[str, Any] = {"epsilon": 1, "nonzero": 10**9, "mechanism": "tight-alp"}


@needs_proc
@pytest.mark.parametrize("parts", [1, 3])
def test_a_release_that_does_not_fit_in_memory_says_what_was_spent(
    parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a crash, an error that does not mention the debit, and a debit that is taken back."""
    monkeypatch.setattr(building, "check_room", lambda plan, path: None)  # as if others took the memory later
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=1)
    with pytest.raises(MemoryError):
        with_memory(64, lambda: sparsedp.release({"a": 1}, parts=parts, path=tmp_path / "a", **HUGE))
    with pytest.raises(SpentError, match=r"stay debited: (Unable to allocate|MemoryError|.*bad_alloc)"):
        with_memory(64, lambda: sparsedp.release({"a": 1}, parts=parts, path=tmp_path / "a", ledger=ledger, **HUGE))
    assert [entry.released for entry in ledger.entries()] == [None]
    assert os.listdir(tmp_path) == ["ledger.db"]


@needs_proc
def test_a_file_that_does_not_fit_in_the_address_space_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a"
    sparsedp.release({"a": 1}, epsilon=1, nonzero=3_000_000).save(path)
    with pytest.raises(OSError, match="Cannot allocate memory") as caught:
        with_memory(4, lambda: sparsedp.load(path))
    assert caught.value.filename == str(path)


@needs_proc
def test_a_lookup_that_does_not_fit_in_memory_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARSEDP_THREADS", "2")  # each needs memory for its stack and its heap
    release = make("tight-alp")
    some = np.zeros(16_000_000, np.int64)
    assert with_memory(512, lambda: release.lookup(some)[0]) == release[0]
    many = np.broadcast_to(np.int64(0), 1 << 28)  # takes no memory; the answers take 2 GB
    for megabytes in (32, 512):
        with pytest.raises(MemoryError):
            with_memory(megabytes, lambda: release.lookup(many))


@needs_proc
def test_a_key_that_does_not_fit_in_memory_is_a_memory_error() -> None:
    """Catches "a lone surrogate": an error of Python that was taken for one of the key."""
    release = sparsedp.release({"a": 1}, epsilon=1, nonzero=10)
    long = "é" * (200 * MEGABYTE)
    for look in (lambda: release[long], lambda: release.lookup([long])):
        with pytest.raises(MemoryError):
            with_memory(64, look)


@needs_proc
def test_one_long_key_of_an_array_takes_memory_once() -> None:
    release = sparsedp.release({"a": 1}, epsilon=1, nonzero=10)
    keys = np.array(["x" * (8 * MEGABYTE)])
    assert with_memory(128, lambda: release.lookup(keys)[0]) == release[keys[0]]


@needs_proc
def test_a_file_that_states_many_ids_takes_no_memory_for_them_if_they_are_wrong() -> None:
    many = np.zeros(1 << 26, np.int64)  # memory that was never touched
    forged = {
        "table.ids": many.view(np.uint64)[:1],
        "keys.offsets": np.array([0, 1]),
        "keys.bytes": many.view(np.uint8),
    }
    with pytest.raises(ValueError, match="the ids of a table must ascend"):
        with_memory(64, lambda: _native.Table(many.view(np.uint64), many))
    with pytest.raises(FormatError, match="one for each stored id"):
        with_memory(64, lambda: kept_keys(forged))
