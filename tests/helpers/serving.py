"""The service in this process, with a log that can be read."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from sparsedp.serve.app import create_app
from sparsedp.serve.catalog import Catalog, Source
from sparsedp.serve.guarding import LOOPBACK
from sparsedp.serve.limits import Limits
from sparsedp.serve.logs import Log
from sparsedp.serve.paths import Service

COUNTS = {"a": 1000, "b": 100, "ü": 10, 'say "hi"\\': 500}


@dataclass(frozen=True)
class Running:
    """The service, what it serves, and its log."""

    app: Any
    catalog: Catalog
    log: io.StringIO


def running(what: list[Source] | Catalog, limits: Limits | None = None, log_keys: bool = False) -> Running:
    """A service of its own, for files or for what another one has opened."""
    stream = io.StringIO()
    log = Log(stream, keys=log_keys)
    catalog = what if isinstance(what, Catalog) else Catalog(what, log)
    return Running(create_app(Service(catalog, limits or Limits(), "Our counts", log, LOOPBACK)), catalog, stream)
