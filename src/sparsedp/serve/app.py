"""The service put together: its paths, what guards them, and how errors are answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from .. import __version__
from ..errors import FormatError, SparseDPError
from . import documents, paths
from .catalog import Watcher
from .guarding import Guard
from .limits import RefusedError, Workers
from .paths import Service


class _Described(FastAPI):
    """An application whose description has complete examples."""

    def openapi(self) -> dict[str, Any]:
        """The description."""
        return documents.completed(super().openapi())


def create_app(service: Service, watch: bool = False) -> FastAPI:
    """The service as an ASGI application; `watch` looks for replaced files while it runs."""
    workers = Workers(service.limits)

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        watcher = Watcher(service.catalog, service.log)
        if watch:
            watcher.start()
        yield
        watcher.stop()
        workers.close()

    app = _Described(
        title=service.title,
        version=__version__,
        summary=documents.SUMMARY,
        description=documents.DESCRIPTION,
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=living,
    )
    app.add_middleware(Guard, log=service.log, hosts=service.hosts)
    _add_refusals(app)
    paths.add_releases(app, service, workers)
    paths.add_planner(app, workers)
    paths.add_pages(app, service)
    return app


def _add_refusals(app: FastAPI) -> None:
    """Every error has the same form: a status, and {"error": "what was wrong, and the fix"}."""

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> Response:
        return refusal(error.status, str(error), error.headers)

    @app.exception_handler(SparseDPError)
    async def wrong(_: Request, error: SparseDPError) -> Response:
        if isinstance(error, FormatError):
            return refusal(500, "the file of this release is damaged; the log of the service says which")
        return refusal(400, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        message = first["msg"].replace("Input should be", "must be")
        return refusal(400, f"{first['loc'][-1]} {message}, got {str(first['input'])[:80]!r}")

    @app.exception_handler(MemoryError)
    async def crowded(_: Request, error: MemoryError) -> Response:
        return refusal(503, "there is not enough memory for this request; ask for less at a time")

    @app.exception_handler(404)
    async def unknown(_: Request, error: Exception) -> Response:
        return refusal(404, "there is nothing at this path; /openapi.json lists what there is")

    @app.exception_handler(405)
    async def not_allowed(request: Request, error: Exception) -> Response:
        methods = _methods(app, request)
        allowed = {"Allow": ", ".join(methods)}
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=allowed)
        return refusal(405, f"the method must be {' or '.join(methods)}, got {request.method}", allowed)


def _methods(app: FastAPI, request: Request) -> list[str]:
    """The methods that the path of a request has."""
    found = {"OPTIONS"}
    for route in app.routes:
        methods = getattr(route, "methods", None) or ()
        for method in methods:
            if route.matches({**request.scope, "method": method})[0].value == 2:
                found.add(method)
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """An answer that is not a result."""
    return JSONResponse({"error": message}, status, headers)
