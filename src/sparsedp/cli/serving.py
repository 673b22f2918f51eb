"""The command that serves releases over HTTP: serve."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

import typer

from ..errors import FormatError, reason_of
from .app import FAILED, WRONG, app, fail, say, whole_number
from .reading import Reproducible


@app.command()
def serve(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...", help="Releases; each is served under the name of its file, without the ending."
        ),
    ] = None,
    series: Annotated[
        list[str] | None,
        typer.Option(
            "--series",
            metavar="NAME=GLOB",
            help="Serve the releases of a glob or a folder as a series, such as visits='days/*.sparsedp'; repeatable.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Listen here; other machines reach it only at 0.0.0.0 or at an address.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Where to listen; 0 takes a free port, and says which.")
    ] = 8000,
    title: Annotated[str, typer.Option("--title", help="The title of the page.")] = "sparsedp",
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Answer to this name of the machine too; repeatable."),
    ] = None,
    max_body: Annotated[int, whole_number("The most bytes of a request.", "--max-body")] = 64 << 20,
    max_keys: Annotated[int, whole_number("The most keys of a request.", "--max-keys")] = 1_000_000,
    max_seconds: Annotated[float, typer.Option("--max-seconds", min=0.1, help="The most time of a request.")] = 30.0,
    max_requests: Annotated[
        int, whole_number("The most requests that are worked on at a time.", "--max-requests")
    ] = 32,
    log_keys: Annotated[
        bool, typer.Option("--log-keys", help="Log queries and keys too; what people ask for may be private.")
    ] = False,
    header_only: Annotated[
        bool, typer.Option("--header-only", help="Check only the headers of files, not every byte.")
    ] = False,
    allow_reproducible: Reproducible = False,
) -> None:
    """Serve releases, and a page to explore them, over HTTP.

    Without files, it serves the planner alone. Replaced files are taken up while it runs. The log is
    on stderr, a JSON object in each line, without the keys that were asked for.
    """
    begin(
        files or [],
        series or [],
        host=host,
        port=port,
        title=title,
        allow_host=allow_host or [],
        limits=(max_body, max_keys, max_seconds, max_requests),
        log_keys=log_keys,
        checks={"allow_reproducible": allow_reproducible, "thorough": not header_only},
    )


def begin(
    files: list[str],
    series: list[str],
    *,
    host: str = "127.0.0.1",
    port: int,
    title: str,
    allow_host: Sequence[str] = (),
    limits: tuple[Any, ...] = (),
    log_keys: bool = False,
    checks: Mapping[str, bool] = MappingProxyType({}),
) -> None:
    """Serve until a signal comes."""
    from ..serve import running
    from ..serve.catalog import Catalog, Source
    from ..serve.limits import Limits
    from ..serve.logs import Log
    from ..serve.paths import Service

    log = Log(keys=log_keys)
    sources = [*map(Source.of_file, files), *map(Source.of_series, series)]
    try:
        catalog = Catalog(sources, log, **checks)
    except FormatError as error:
        fail(str(error), WRONG)
    listening = _listening(running.listen, host, port)
    service = Service(catalog, Limits(*limits), title, log, running.hosts_for(host, list(allow_host)))
    what = f"{len(catalog)} release{'s' if len(catalog) > 1 else ''}" if sources else "the planner"
    address = running.address_of(listening, host)
    running.serve(service, listening, lambda: say(f"serving {what} at {address} (Ctrl-C ends it)"))


def _listening(listen: Callable[[str, int], socket.socket], host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except UnicodeError:
        fail(f"--host must be the name or the address of this machine, got {host!r}", WRONG)
    except OSError as error:
        elsewhere = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        fix = "--host must be the name or the address of this machine" if elsewhere else "choose another --port"
        fail(f"cannot listen at {host}, port {port}: {reason_of(error)}; {fix}", WRONG if elsewhere else FAILED)
