"""What the description of the service (OpenAPI) says of each path, with examples."""

from __future__ import annotations

from typing import Any

from fastapi.responses import Response

from .. import __version__

SUMMARY = "Differentially private counts: estimates with intervals, for any key."
DESCRIPTION = """\
Read-only. Every answer comes from published releases, and holds nothing private. An answer has an
estimate and an interval that contains the true count with the stated confidence; `null` stands for
an end without a bound. Every error is `{"error": "what was wrong, and the fix"}`."""

_ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
_STREAM = {"schema": {"type": "string", "format": "binary"}}
ARROW = "application/vnd.apache.arrow.stream"


def _refused(words: str, message: str) -> dict[str, Any]:
    content = {"application/json": {"schema": _ERROR, "example": {"error": message}}}
    return {"description": words, "content": content}


_WRONG = _refused("Something in the request is wrong.", "confidence must be less than 1, got '2'")
_UNKNOWN = _refused("There is no release of that name.", "there is no release 'visit'; there is 'visits'")
_LARGE = _refused(
    "The body or the list of keys is too large.",
    "a request may have at most 1000000 keys, got 2000000; send them in several",
)
_BUSY = _refused(
    "The service has too much to do, or the request took too long.",
    "the service is working on 32 requests, the most at a time; try again in a moment",
)
_OTHER = _refused("Any other refusal.", "the method must be GET or HEAD or OPTIONS, got DELETE")


def _path(words: str, example: Any, refusals: dict[int | str, Any], **more: Any) -> dict[str, Any]:
    """Arguments of a route: an example of its answer, and of its refusals."""
    content = {"application/json": {"schema": {"type": "object"}, "example": example}, **more.pop("content", {})}
    responses: dict[int | str, Any] = {200: {"description": words, "content": content}, **refusals, "default": _OTHER}
    return {"responses": responses, "response_class": Response, **more}


_SUMMARY: dict[str, Any] = {
    "name": "visits",
    "kind": "release",
    "mechanism": "tight-alp",
    "epsilon": 0.9999,
    "delta": 0.0,
    "nbytes": 103480,
    "keys": [{"name": "url", "kind": "text"}],
    "guarantee": "Whether any one user is in the data or not changes the probability of any outcome by at most a "
    "factor of 2.72 (ε = 0.9999). This holds for at most 20 keys per user and 1 per key.",
    "filled": True,
    "overload": None,
    "labels": None,
    "names": False,
    "reproducible": False,
}
_DETAILS: dict[str, Any] = {
    "mechanism": "tight-alp",
    "epsilon": 0.9999,
    "delta": 0.0,
    "guarantee": _SUMMARY["guarantee"],
    "neighbours": "all contributions of one user",
    "contribution": "at most 20 keys per user and 1 per key",
    "assumption": None,
    "keys": "hashed",
    "key_kind": "text",
    "key_columns": [{"name": "url", "kind": "text"}],
    "nonzero": 20000,
    "estimated_size": None,
    "filled": True,
    "overload": None,
    "stored": 12,
    "bytes": 103480,
    "parts": 1,
    "reproducible": False,
    "format": 2,
}
_ANSWERED: dict[str, Any] = {
    "name": "visits",
    "confidence": 0.95,
    "results": [
        {"key": "/", "estimate": 1963.0, "low": 1921.0, "high": 2005.0},
        {"key": "/nowhere", "estimate": 0.0, "low": 0.0, "high": 29.0},
    ],
}
_PARAMETERS = {
    "reason": "a sparse vector in a large domain, pure privacy: small error at every count",
    "command": "sparsedp release visits.csv --key url --user user --max-keys-per-user 1 --max-per-key 1 --epsilon 1 "
    "--nonzero 100000 -o visits.sparsedp",
    "python": "import sparsedp\n\n"
    'counts = sparsedp.count("visits.csv", key="url", user="user", max_keys_per_user=1, max_per_key=1)\n'
    "release = sparsedp.release(counts, epsilon=1, nonzero=100000)\n"
    'release.save("visits.sparsedp")\n',
}
_PLANNED = {
    "mechanism": "tight-alp",
    "epsilon": 0.9999,
    "delta": 0.0,
    "noise": "geometric",
    "nbytes": 505592,
    "bits_per_entry": 40.0,
}

HEALTH = _path("The service is up.", {"status": "ok", "version": __version__, "releases": 2}, {})
RELEASES = _path("Releases and series.", {"title": "Our counts", "releases": [_SUMMARY]}, {})
RELEASE = _path("A release or a series.", {**_SUMMARY, "plan": _DETAILS}, {404: _UNKNOWN})
_LOOKED_UP: dict[int | str, Any] = {400: _WRONG, 404: _UNKNOWN, 413: _LARGE, 503: _BUSY}
LOOKUP = _path("An estimate and an interval for each key.", _ANSWERED, _LOOKED_UP)
POSTED = _path(
    "An estimate and an interval for each key, in the form of the request.",
    _ANSWERED,
    {
        **_LOOKED_UP,
        415: _refused("Neither JSON nor an Arrow stream.", f"Content-Type must be application/json or {ARROW}"),
    },
    content={ARROW: _STREAM},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["keys"],
                        "additionalProperties": False,
                        "properties": {
                            "keys": {"type": "array", "items": {}},
                            "confidence": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                        },
                    },
                    "example": {"keys": ["/", "/nowhere"], "confidence": 0.95},
                },
                ARROW: _STREAM,
            },
        }
    },
)
TOP = _path("Keys in descending order of their estimates.", _ANSWERED, {400: _WRONG, 404: _UNKNOWN, 503: _BUSY})
_A_PLAN = {
    **_PLANNED,
    "reason": _PARAMETERS["reason"],
    "errors": [{"count": 0, "mean_absolute": 0.65, "bias": 0.65, "low": 0.0, "high": 2.0}],
    **{name: _PARAMETERS[name] for name in ("command", "python")},
}
_A_COMPARISON = {
    "counts": [0, 1],
    "chosen": "tight-alp",
    **_PARAMETERS,
    "mechanisms": [
        {**_PLANNED, "paper": False, "errors": [0.65, 0.66], "note": None},
        {
            **dict.fromkeys(_PLANNED),
            "mechanism": "retrieval",
            "paper": False,
            "errors": [None, None],
            "note": "retrieval needs delta > 0, got 0.0; use mechanism='tight-alp'",
        },
    ],
}
PLAN = _path("A plan.", _A_PLAN, {400: _WRONG, 503: _BUSY})
COMPARE = _path("All mechanisms side by side.", _A_COMPARISON, {400: _WRONG, 503: _BUSY})

_NULLED = {
    "/v1/releases": {"title": "Our counts", "releases": [_SUMMARY]},
    "/v1/releases/{name}": {**_SUMMARY, "plan": _DETAILS},
    "/v1/compare": _A_COMPARISON,
}


def completed(schema: dict[str, Any]) -> dict[str, Any]:
    """The description, with the fields of examples that are null: FastAPI leaves them out."""
    for path, example in _NULLED.items():
        schema["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["example"] = example
    return schema
