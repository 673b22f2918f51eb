"""The files of the two pages, from this package, and the chart library, from its own."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fastapi import Request
from fastapi.responses import Response

from .limits import RefusedError

FOLDER = Path(__file__).parent / "pages"
# Files that installed packages bring: the name in the page, the package, and the path inside of it.
VENDORED = {"vendor/chart.js": ("chartkick", "django/static/chartkick/Chart.bundle.js")}

_LONGEST_NAME = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_COMPRESSED = (".html", ".js", ".mjs", ".css", ".json", ".svg")


@dataclass(frozen=True)
class _File:
    changed: int
    content: bytes
    packed: bytes | None
    tag: str


_files: dict[Path, _File] = {}


def page(request: Request, name: str) -> Response:
    """One of the pages."""
    return _respond(request, FOLDER / name)


def static(request: Request, name: str) -> Response:
    """A file of the pages; `RefusedError` for any other name."""
    if name in VENDORED:
        return _respond(request, _vendored(name))
    parts = name.split("/")
    if len(name) <= _LONGEST_NAME and all(_NAME.fullmatch(part) for part in parts):
        path = FOLDER.joinpath(*parts)
        if path.is_file() and path.resolve().is_relative_to(FOLDER.resolve()):
            return _respond(request, path)
    raise RefusedError(404, "there is no such file of the pages")


def _vendored(name: str) -> Path:
    package, inside = VENDORED[name]
    found = find_spec(package)
    if found is None or found.origin is None:
        raise RefusedError(404, f"charts need the package {package}: pip install 'sparsedp[serve]'")
    return Path(found.origin).parent / inside


def _respond(request: Request, path: Path) -> Response:
    """The file, or 304 for a browser that has it."""
    file = _read(path)
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    packed = file.packed is not None and "gzip" in request.headers.get("accept-encoding", "")
    tag = f'"{file.tag}-gzip"' if packed else f'"{file.tag}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    known = {own.strip().removeprefix("W/") for own in request.headers.get("if-none-match", "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(file.packed if packed else file.content, media_type=kind, headers=headers)


def _read(path: Path) -> _File:
    """A file, from memory unless it has changed."""
    try:
        changed = path.stat().st_mtime_ns
        known = _files.get(path)
        if known is None or known.changed != changed:
            content = path.read_bytes()
            packed = gzip.compress(content, 6, mtime=0) if path.suffix in _COMPRESSED else None
            known = _File(changed, content, packed, hashlib.sha256(content).hexdigest()[:24])
            _files[path] = known
        return known
    except OSError:
        raise RefusedError(404, "there is no such file of the pages; install sparsedp again") from None
