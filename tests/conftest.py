"""What tests measure about the promises (`figure`, `measured`), and the table of promises that a run
writes (`--promises FILE`).
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from promises import Found, page
from sparsedp import mechanisms
from sparsedp.format import codec, guarantee

# The same examples in every run, however slow the machine is; `--hypothesis-profile=fresh` looks
# for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fresh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")

# Parts of the program that no plan depends on (`docs/contributing.md`, a package knows only those to
# its left).
OUTSIDE_OF_PLANS = ("sparsedp.counting", "sparsedp.budget", "sparsedp.cli", "sparsedp.reach", "sparsedp.serve")

MEMORY, ROOM = "/dev/shm", 4 << 30

_found: dict[int, Found] = {}  # by promise


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--promises", metavar="FILE", help="write the table of promises, with what this run measured")


def pytest_configure(config: pytest.Config) -> None:
    """Temporary folders in memory, where there is room for them: tests write tens of thousands of
    small files, and wait for a disk with each. What depends on a disk is tested on one that is
    mounted for it (`test_faults_disk.py`). With `--basetemp` they are elsewhere, and stay.
    """
    if config.option.basetemp is not None or hasattr(config, "workerinput") or not os.access(MEMORY, os.W_OK):
        return
    there = os.statvfs(MEMORY)
    if there.f_bavail * there.f_frsize >= ROOM and not there.f_flag & os.ST_NOEXEC:  # tests write programs too
        folder = tempfile.mkdtemp(prefix="sparsedp-tests-", dir=MEMORY)
        config.option.basetemp = os.path.join(folder, "all")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.fixture(scope="session", autouse=True)
def plans_of_a_changed_program() -> Iterator[None]:
    """Plans are kept in a process; those of a program that a test changes are its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("setattr", "setitem"):
            patch.setattr(pytest.MonkeyPatch, name, _forgetting_plans(getattr(pytest.MonkeyPatch, name)))
        patch.setattr(pytest.MonkeyPatch, "undo", _forgetting_plans_of_tests(pytest.MonkeyPatch.undo))
        yield


def _forgetting_plans(change: Callable[..., None]) -> Callable[..., None]:
    def changed(self: pytest.MonkeyPatch, target: Any, *arguments: Any, **options: Any) -> None:
        change(self, target, *arguments, **options)
        if not _is_outside_of_plans(target):
            vars(self)["changes_plans"] = True
            _forget_plans()

    return changed


def _forgetting_plans_of_tests(undo: Callable[..., None]) -> Callable[..., None]:
    def undone(self: pytest.MonkeyPatch) -> None:
        undo(self)
        if vars(self).pop("changes_plans", False):
            _forget_plans()

    return undone


def _is_outside_of_plans(target: Any) -> bool:
    """Whether no plan depends on it: the environment, or a part of the program that plans do not
    know.
    """
    if target is os.environ or target is sys.modules:
        return True
    name = target if isinstance(target, str) else getattr(target, "__module__", None) or getattr(target, "__name__", "")
    return str(name).startswith(OUTSIDE_OF_PLANS)


def _forget_plans() -> None:
    mechanisms._planned.cache_clear()
    codec._grown.cache_clear()
    codec._kept.clear()
    guarantee._kept.clear()


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Records what a test of a promise measured."""
    return lambda text: request.node.user_properties.append(("figure", text))


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Records facts, which are added to those of the other tests of the promise."""
    return lambda **facts: request.node.user_properties.append(("measured", facts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark = item.get_closest_marker("promise")
        if mark is not None:
            item.user_properties.append(("promise", mark.args[0]))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts work even if a shell started this process in the background, where it would ignore
    them.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    properties: dict[str, Any] = dict(report.user_properties)
    if "promise" in properties and (report.when == "call" or report.failed):
        _found.setdefault(properties["promise"], Found()).add(report.nodeid, report.outcome, properties)


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--promises")
    ran = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)  # to the end
    if path and ran and not hasattr(session.config, "workerinput"):
        try:
            text = page(_found)
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def user_level_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows (user, key): the identifiers of each file of the standard library."""
    from sparsedp.experiments import identifiers

    folder = tmp_path_factory.mktemp("log")
    return identifiers.write([Path(sysconfig.get_path("stdlib"))], folder / identifiers.NAME).path


def pytest_collection_finish() -> None:
    """What is there before the first test stays: collecting garbage need not look at it again, and
    forked children do not copy it.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """At the end of a process it is collected like everything else."""
    gc.unfreeze()
