"""One browser with one page, and one service, for all tests of the pages; a visit for each test."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from browsing import Site, Visit, find_browser, launch, make_releases, open_page, serving


@pytest.fixture(scope="session")
def browser_thread() -> Iterator[ThreadPoolExecutor]:
    """Playwright keeps an event loop running in its thread; other tests need theirs without one."""
    with ThreadPoolExecutor(1, "browser") as thread:
        yield thread


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if "visit" not in pyfuncitem.fixturenames:
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    thread: ThreadPoolExecutor = pyfuncitem._request.getfixturevalue("browser_thread")
    thread.submit(pyfuncitem.obj, **given).result()
    return True


@pytest.fixture(scope="session")
def browser(browser_thread: ThreadPoolExecutor) -> Iterator[Any]:
    if (path := find_browser()) is None:
        pytest.skip(
            "no browser was found for the tests of the pages: apt-get install chromium, or set SPARSEDP_BROWSER"
        )
    playwright, browser = browser_thread.submit(launch, path).result()
    yield browser
    browser_thread.submit(browser.close).result()
    browser_thread.submit(playwright.stop).result()


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_releases(tmp_path_factory.mktemp("releases"))


@pytest.fixture(scope="session")
def site(browser: Any, releases: Path) -> Iterator[Site]:
    with serving(releases) as site:
        yield site


@pytest.fixture(scope="session")
def page(browser: Any, browser_thread: ThreadPoolExecutor) -> Any:
    return browser_thread.submit(open_page, browser).result()


@pytest.fixture
def visit(page: Any, browser_thread: ThreadPoolExecutor, site: Site) -> Iterator[Visit]:
    """A visit that must not write errors, break the policy, or ask others."""
    visit = browser_thread.submit(Visit, page, site).result()
    yield visit
    assert browser_thread.submit(visit.end).result() == []
