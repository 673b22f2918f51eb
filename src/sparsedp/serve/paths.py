"""The paths of the service, and what each of them does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from .. import __version__
from ..errors import InputError
from . import answering, asking, documents, pages, planner
from .catalog import MOST_RANKED, Catalog
from .guarding import SEEN, Receive, Scope, Send
from .limits import Limits, RefusedError, Workers
from .logs import Log

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
CONFIDENCE = 0.95
_PIECE = 1 << 20  # bytes
_LOGGED_KEYS = 100  # of a request, where keys are logged at all

Name = Annotated[str, Path(description="The name of a release or a series.", examples=["visits"])]
Confidence = Annotated[
    float,
    Query(gt=0, lt=1, description="The probability that an interval contains its true count.", examples=[CONFIDENCE]),
]
Columns = Annotated[
    list[str],
    Query(
        description="Which columns the answer has: some of key, estimate, low and high, with commas between them or "
        "repeated. By default all. Without low and high no intervals are computed.",
        examples=[["estimate"], ["key,estimate"]],
    ),
]
Written = Annotated[str, Query(description="A number such as 1000, 1e6, 0.5 or 2^64.")]


class Pieces(Response):
    """An answer in pieces, none of which is copied on the way. They are not too large: what does not
    yet fit into the socket may be copied again and again while it waits.
    """

    def __init__(self, pieces: Sequence[bytes | memoryview], media_type: str) -> None:
        views = [memoryview(piece) for piece in pieces]
        self._pieces = [view[at : at + _PIECE] for view in views for at in range(0, len(view), _PIECE)]
        super().__init__(headers={"content-length": str(sum(map(len, self._pieces)))}, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for left, piece in zip(range(len(self._pieces) - 1, -1, -1), self._pieces, strict=True):
            await send({"type": "http.response.body", "body": piece, "more_body": left > 0})


@dataclass(frozen=True)
class Service:
    """What the paths need."""

    catalog: Catalog
    limits: Limits = field(default_factory=Limits)
    title: str = "sparsedp"
    log: Log = field(default_factory=Log)
    hosts: frozenset[str] | None = None  # that it answers to; None is any


def _query(*names: str, repeated: tuple[str, ...] = ()) -> Any:
    """A check of the names in the query: none is unknown, and only some may be repeated. What it gives
    are all pairs, with nothing replaced that is not UTF-8.
    """

    async def check(request: Request) -> list[tuple[str, str]]:
        try:
            raw = request.scope["query_string"].decode("ascii")
            pairs = parse_qsl(raw, keep_blank_values=True, errors="strict")
        except UnicodeError:
            raise RefusedError(400, "the query must be UTF-8 with percent signs, got other bytes") from None
        seen = set()
        for name, _ in pairs:
            if name not in names and name not in repeated:
                there_are = ", ".join([*repeated, *names]) or "none"
                raise RefusedError(400, f"there is no parameter {name[:80]!r}; there are: {there_are}")
            if name in seen and name in names:
                raise RefusedError(400, f"the parameter {name!r} must be given once")
            seen.add(name)
        return pairs

    return Depends(check)


def add_releases(app: FastAPI, service: Service, workers: Workers) -> None:
    """What is served, and lookups."""
    catalog, limits = service.catalog, service.limits

    def noted(request: Request, count: int, values: Any = None) -> None:
        seen = request.scope[SEEN]
        seen["keys"] = count
        if service.log.keys and values is not None:
            seen["asked"] = list(values[:_LOGGED_KEYS])

    @app.get("/healthz", **documents.HEALTH, dependencies=[_query()])
    async def health() -> Response:
        """Whether the service is up."""
        return JSONResponse({"status": "ok", "version": __version__, "releases": len(catalog)})

    @app.get("/v1/releases", **documents.RELEASES, dependencies=[_query()])
    async def releases() -> Response:
        """All releases and series, in the order in which they were given."""
        return JSONResponse({"title": service.title, "releases": [own.summary for own in catalog.all()]})

    @app.get("/v1/releases/{name}", **documents.RELEASE, dependencies=[_query()])
    async def release(name: Name) -> Response:
        """One of them: its guarantee in words, and how it was made."""
        own = catalog[name]
        return JSONResponse({**own.summary, "plan": own.details})

    @app.get("/v1/releases/{name}/lookup", **documents.LOOKUP)
    async def lookup(
        request: Request,
        name: Name,
        pairs: Annotated[list[tuple[str, str]], _query("confidence", repeated=("key", "columns"))],
        key: Annotated[
            list[str], Query(description="A key; repeatable. A key of several columns is a JSON array.")
        ] = [],  # noqa: B006  # FastAPI's way to say that it may be left out
        confidence: Confidence = CONFIDENCE,
        columns: Columns = [],  # noqa: B006  # as above
    ) -> Response:
        """Estimate how often keys occurred, with an interval for each."""
        served, texts, wanted = catalog[name], _all(pairs, "key"), answering.chosen(_all(pairs, "columns"))
        if not texts:
            raise RefusedError(400, "there is no key to look up; add ?key=…, or POST a list of keys")
        answering.check_size(served, len(texts), limits.keys)
        noted(request, len(texts), texts)

        def compute(_: memoryview) -> bytes:
            return answering.as_json(served, asking.from_query(served.first, texts), confidence, wanted)

        return Response(await workers.work(request, workers.answering, compute), media_type=JSON)

    @app.post("/v1/releases/{name}/lookup", **documents.POSTED)
    async def lookup_posted(
        request: Request,
        name: Name,
        pairs: Annotated[list[tuple[str, str]], _query("confidence", repeated=("columns",))],
        confidence: Annotated[Confidence | None, Query(description="By default 0.95.")] = None,
        columns: Columns = [],  # noqa: B006  # as above
    ) -> Response:
        """Estimate how often keys occurred: a list of them as JSON, or columns of an Arrow stream."""
        served, wanted = catalog[name], answering.chosen(_all(pairs, "columns"))
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (JSON, ARROW):
            raise RefusedError(415, f"Content-Type must be {JSON} or {ARROW}, got {kind[:80]!r}")

        def as_json(body: memoryview) -> list[bytes | memoryview]:
            given = asking.parsed_json(body, "the body")
            stated = _stated(given, confidence)
            values = asking.listed(given)
            answering.check_size(served, len(values), limits.keys)
            noted(request, len(values), values)
            return [answering.as_json(served, asking.from_values(served.first, values), stated, wanted)]

        def as_stream(body: memoryview) -> list[bytes | memoryview]:
            asked = asking.from_stream(served.first, body, limits.keys)
            answering.check_size(served, asked.count, limits.keys)
            noted(request, asked.count, asked.shown(_LOGGED_KEYS) if service.log.keys else None)
            return answering.as_stream(served, asked, CONFIDENCE if confidence is None else confidence, wanted)

        compute = as_json if kind == JSON else as_stream
        return Pieces(await workers.work(request, workers.answering, compute, reads_body=True), kind)

    @app.get("/v1/releases/{name}/top", **documents.TOP, dependencies=[_query("n", "confidence")])
    async def top(
        request: Request,
        name: Name,
        n: Annotated[int, Query(ge=1, le=MOST_RANKED, description="How many keys.", examples=[20])] = 20,
        confidence: Confidence = CONFIDENCE,
    ) -> Response:
        """The largest estimates of the keys that a release names."""
        served = catalog[name]

        def compute(_: memoryview) -> bytes:
            return answering.ranked_json(served, n, confidence)

        return Response(await workers.work(request, workers.answering, compute), media_type=JSON)


def _all(pairs: list[tuple[str, str]], name: str) -> list[str]:
    return [value for own, value in pairs if own == name]


def _stated(given: Any, asked: float | None) -> float:
    """The confidence of a request: in its body, or in its query."""
    if not isinstance(given, dict):
        raise InputError('the body must be a JSON object such as {"keys": ["a", "b"]}')
    if unknown := next((name for name in given if name not in ("keys", "confidence")), None):
        raise InputError(f'the body must have "keys" and maybe "confidence", got {unknown[:80]!r}')
    stated = given.get("confidence")
    if stated is None:
        return CONFIDENCE if asked is None else asked
    if asked is not None:
        raise InputError("confidence must be given once, in the body or in the query")
    if isinstance(stated, bool) or not isinstance(stated, (int, float)) or not 0 < stated < 1:
        raise InputError(f"confidence must be a number in (0, 1), got {asking.what_is(stated)}")
    return float(stated)


def add_planner(app: FastAPI, workers: Workers) -> None:
    """Plans and comparisons."""

    def paths(path: str, document: dict[str, Any], make: Callable[[planner.Asked], dict[str, Any]]) -> None:
        @app.get(path, **document, dependencies=[_query(*planner.PARAMETERS)])
        async def handler(
            request: Request,
            epsilon: Written = "1",
            delta: Written = "0",
            max_keys_per_user: Written = "1",
            max_per_key: Written = "1",
            nonzero: Written = "100000",
            domain: Annotated[str, Query(description="Keys are the integers below this; empty for any key.")] = "",
            mechanism: Annotated[str, Query(description="The name of a mechanism, or auto.")] = "auto",
            noise: Annotated[str, Query(description="geometric, gaussian or auto.")] = "auto",
        ) -> Response:
            given = locals()
            asked = planner.Asked.read({name: given[name] for name in planner.PARAMETERS})
            return JSONResponse(await workers.work(request, workers.planning, lambda _: make(asked)))

    paths("/v1/plan", documents.PLAN, planner.planned)
    paths("/v1/compare", documents.COMPARE, planner.compared)


def add_pages(app: FastAPI, service: Service) -> None:
    """The two pages and their files."""

    @app.get("/", include_in_schema=False)
    async def explorer(request: Request) -> Response:
        return pages.page(request, "index.html") if len(service.catalog) else RedirectResponse("/planner")

    @app.get("/planner", include_in_schema=False)
    async def planner_page(request: Request) -> Response:
        return pages.page(request, "planner.html")

    @app.get("/static/{name:path}", include_in_schema=False)
    async def file(request: Request, name: str) -> Response:
        return pages.static(request, name)
