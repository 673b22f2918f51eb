"""What tests measure about the promises (`figure`), and the table of promises that a run writes
(`--promises FILE`).
"""

from __future__ import annotations

import re
import signal
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from promises import PROMISES, page

# The same examples in every run, however slow the machine is; `--hypothesis-profile=fresh` looks
# for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fresh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")

_found: dict[int, tuple[str, str, str]] = {}  # promise → test, outcome, figure


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--promises", metavar="FILE", help="write the table of promises, with what this run measured")


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Records what a test measured."""

    def record(text: str) -> None:
        request.node.user_properties.append(("figure", text))

    return record


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts work even if a shell started this process in the background, where it would ignore
    them.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    found = re.search(r"test_promise_(\d+)_", report.nodeid)
    if found is not None and report.when == "call":
        figures: Any = dict(report.user_properties)
        _found[int(found[1])] = (report.nodeid, report.outcome, str(figures.get("figure", "")))


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--promises")
    if path and not hasattr(session.config, "workerinput"):
        missing = set(PROMISES) - set(_found)
        if missing:
            raise pytest.UsageError(f"promises {sorted(missing)} were not tested in this run")
        Path(path).write_text(page(_found), encoding="utf-8")


@pytest.fixture(scope="session")
def user_level_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows (user, key): the identifiers of each file of the standard library."""
    from benchmarks import identifiers

    folder = tmp_path_factory.mktemp("log")
    return identifiers.write([Path(sysconfig.get_path("stdlib"))], folder / identifiers.NAME).path
