"""A service with releases of every kind, and visits to its pages in a real browser.

A test acts, waits until the page has settled (`Visit.settled`), and only then looks, with assertions
that wait for what they expect. The page is busy from within the event of an action until all that
belongs to it is shown, so that what is settled after an action is its result.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import socket
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import uvicorn
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Playwright,
    Request,
    Route,
    expect,
    sync_playwright,
)

import sparsedp
from sparsedp.serve.app import create_app
from sparsedp.serve.catalog import Catalog, Source
from sparsedp.serve.logs import Log
from sparsedp.serve.paths import Service

LONGEST = 60_000  # milliseconds, to end what hangs
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)
DAYS = tuple(datetime.date(2026, 11, day) for day in range(1, 5))
PAGES = {"/": 1900, "/docs": 900, "/pricing": 420, "/blog": 260, "/jobs": 40} | {
    f"/page/{n}": 200 + n for n in range(40)
}


def find_browser() -> str | None:
    """A Chromium or Chrome of this machine."""
    if given := os.environ.get("SPARSEDP_BROWSER"):
        return given
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def launch(path: str) -> tuple[Playwright, Browser]:
    """The browser, without anything that would ask other machines."""
    expect.set_options(timeout=LONGEST)
    playwright = sync_playwright().start()
    return playwright, playwright.chromium.launch(executable_path=path, args=FLAGS.split(), timeout=LONGEST)


def make_releases(folder: Path) -> Path:
    """Releases whose keys are text, with and without names; columns; and days of a series."""
    public: dict[str, Any] = {"epsilon": 1.0, "nonzero": 100}
    sparsedp.release(PAGES, delta=1e-9, keep_keys=True, **public).save(folder / "visits.sparsedp")
    sparsedp.release(PAGES, **public).save(folder / "plain.sparsedp")
    columns = {"day": [*DAYS] * 2, "country": [49] * 4 + [33] * 4, "page": ["/", "/docs"] * 4}
    values = [500 + 10 * at for at in range(8)]
    table = pa.table({name: pa.array(own) for name, own in columns.items()})
    sparsedp.release((table, values), **public).save(folder / "by-day.sparsedp")
    moments = pa.array([datetime.datetime(2026, 11, 1, 9, 30)], pa.timestamp("s", "UTC"))
    other = pa.table({"paid": [True], "at": moments})
    sparsedp.release((other, [700]), **public).save(folder / "sales.sparsedp")
    (folder / "days").mkdir()
    for at, day in enumerate(DAYS):
        counts = {"/": 500 + 50 * at, "/docs": 300 - 20 * at}
        sparsedp.release(counts, **public).save(folder / "days" / f"{day}.sparsedp")
    return folder


@dataclass(frozen=True)
class Site:
    """Where the service is, one without releases, and the releases themselves."""

    address: str
    bare: str
    folder: Path

    def release(self, name: str) -> sparsedp.Release:
        return sparsedp.load(self.folder / f"{name}.sparsedp")


@contextmanager
def _listening(catalog: Catalog, title: str) -> Iterator[str]:
    app = create_app(Service(catalog, title=title, log=Log(StringIO())))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def serving(folder: Path) -> Iterator[Site]:
    """Two services: of all releases, and of none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sparsedp.OverloadWarning)
        names = ("visits", "plain", "by-day", "sales")
        sources = [Source.of_file(str(folder / f"{name}.sparsedp")) for name in names]
        catalog = Catalog([*sources, Source.of_series(f"daily={folder / 'days'}")])
    with _listening(catalog, "Visits of example.org") as address, _listening(Catalog([]), "sparsedp") as bare:
        yield Site(address, bare, folder)


def open_page(browser: Browser) -> Page:
    """A page in a context of its own."""
    context = browser.new_context()
    context.set_default_timeout(LONGEST)
    return context.new_page()


class Visit:
    """A visit in a page that may have seen others, and what went wrong in it.

    A page takes a second of CPU to open, so visits share one. Each begins in a new document, with
    nothing that an earlier one has set. What cannot be taken back must not be done: no script is
    added to all documents.
    """

    def __init__(self, page: Page, site: Site) -> None:
        self.site, self.page, self.context = site, page, page.context
        self.context.clear_permissions()
        page.set_viewport_size({"width": 1100, "height": 900})
        page.emulate_media(color_scheme="light", reduced_motion="no-preference")
        # From a document of the same site, the next link is not only another place in the page, and
        # its process stays: the headers of the site isolate it from all others.
        headers = {"Content-Type": "text/html", "Cross-Origin-Opener-Policy": "same-origin"}
        nothing = '<link rel="icon" href="data:,">'
        page.route(f"{site.address}/between", lambda route: route.fulfill(headers=headers, body=nothing), times=1)
        page.goto(f"{site.address}/between")
        self.expected: list[str] = []  # parts of messages that the test is about
        self._held: list[Route] = []
        self._wrong: list[str] = []
        self._listeners: dict[Any, Any] = {
            "console": self._note,
            "pageerror": lambda error: self._wrong.append(f"error: {error}"),
            "request": self._check,
        }
        for event, listener in self._listeners.items():
            page.on(event, listener)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._wrong.append(f"{message.type}: {message.text}")

    def _check(self, request: Request) -> None:
        if not request.url.startswith((self.site.address, self.site.bare, "blob:", "data:")):
            self._wrong.append(f"asked elsewhere: {request.url}")

    def end(self) -> list[str]:
        """What went wrong, but for what was expected."""
        self.page.evaluate("0")  # messages come in order: all that were written are here now
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        for route in self._held:
            with suppress(Error):  # the page has given it up
                route.abort()
        self.page.unroute_all()
        return [text for text in self._wrong if not any(part in text for part in self.expected)]

    # Going somewhere.

    def explorer(self, release: str | None = None, *keys: Sequence[str], **more: str) -> None:
        """The explorer as a link leads to it."""
        given = [("release", release)] if release else []
        link = urlencode([*given, *more.items(), *(("key", json.dumps(list(key))) for key in keys)])
        self.page.goto(f"{self.site.address}/#{link}")
        self.settled()

    def planner(self, **parameters: str) -> None:
        self.page.goto(f"{self.site.address}/planner#{urlencode(parameters)}")
        self.settled()

    def settled(self) -> None:
        """Wait until all that belongs to the last action is shown."""
        expect(self.page.locator("body")).to_have_attribute("data-state", "ready")
        expect(self.page.locator("#results")).to_have_attribute("aria-busy", "false")

    # Doing something, to its end.

    def at(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def press(self, name: str) -> None:
        self.button(name).click()
        self.settled()

    def choose(self, label: str, value: str) -> None:
        self.page.get_by_label(label, exact=True).select_option(value)
        self.settled()

    def show(self, mode: str) -> None:
        self.page.get_by_role("radio", name=mode).check()
        self.settled()

    def look_up(self, *parts: str) -> None:
        for at, part in enumerate(parts):
            self.at(f"#part-{at}").fill(part)
        self.press("Look up")

    def paste(self, text: str) -> None:
        """What Ctrl+V does; typing a long text would take a browser minutes."""
        self.at("#pasted").evaluate(
            "(field, text) => { const data = new DataTransfer(); data.setData('text/plain', text);"
            " field.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, cancelable: true})); }",
            text,
        )

    def drop(self, name: str, content: bytes) -> None:
        """A file that is dragged onto the page."""
        self.at("#drop").evaluate(
            "(place, [name, bytes]) => { const data = new DataTransfer();"
            " data.items.add(new File([new Uint8Array(bytes)], name));"
            " for (const kind of ['dragover', 'drop'])"
            " place.dispatchEvent(new DragEvent(kind, {dataTransfer: data, cancelable: true})); }",
            [name, list(content)],
        )

    def upload(self, name: str, content: bytes) -> None:
        self.at("#file").set_input_files({"name": name, "mimeType": "text/csv", "buffer": content})

    def download(self) -> str:
        """The file, as text."""
        with self.page.expect_download() as started:
            self.button("Download CSV").click()
        return Path(started.value.path()).read_bytes().decode()

    # The service as it might be.

    def hold(self, url: str) -> list[Route]:
        """The next request is not answered, until the test does or the page is closed."""
        self.page.route(url, lambda route: self._held.append(route), times=1)
        return self._held

    def answer(self, url: str, status: int, body: str, kind: str = "application/json") -> None:
        self.expected.append(f"status of {status}")
        self.page.route(url, lambda route: route.fulfill(status=status, content_type=kind, body=body))

    def mend(self) -> None:
        """The service answers again."""
        self.page.unroute_all()

    # Looking.

    def expect_rows(self, rows: Sequence[Sequence[str]]) -> None:
        """The rows of the table, and no others."""
        expect(self.at("#rows tr")).to_have_count(len(rows))
        expect(self.at("#rows tr > *")).to_have_text([cell for row in rows for cell in row])

    def expect_drawn(self, number: int) -> None:
        expect(self.at("#chart")).to_be_visible()
        expect(self.at("#figure")).to_have_attribute("data-drawn", str(number))


def shown(value: float) -> str:
    """A number as the page writes it."""
    digits = Decimal(1) if abs(value) >= 100 else Decimal("0.1")
    rounded = Decimal(repr(float(value))).quantize(digits, ROUND_HALF_UP)
    return f"{rounded:,}".removesuffix(".0")


def answers(release: sparsedp.Release, keys: Sequence[Any], confidence: float = 0.95) -> list[list[str]]:
    """Estimate, low and high of each key, as the page writes them."""
    estimates = release.lookup(keys)
    low, high = release.interval(keys, confidence=confidence)
    return [[shown(value) for value in row] for row in zip(estimates, low, high, strict=True)]
