"""Addresses of files that are elsewhere: what is one, and how it is shown."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from ..errors import ParameterError

# Two letters at least: C:\visits.sparsedp is a path. Chained addresses of fsspec have :: between
# them.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(://|::)")
_WEB = ("http", "https")
_FLATTENED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:)/+")  # what is left of a scheme in a path


@dataclass(frozen=True, repr=False)
class Address:
    """The address of a file or a directory, with everything that is needed to open it.

    Shown, it has no user, no password and no query, which may hold a signature.
    """

    full: str

    @property
    def is_directory(self) -> bool:
        """Whether it says that it is one."""
        return (urlsplit(self.full).path if self.is_web else self.full).endswith("/")

    @property
    def is_web(self) -> bool:
        """Whether it is that of a web server."""
        return self.full.partition("://")[0].lower() in _WEB

    def __truediv__(self, name: str) -> Address:
        if not self.is_web:
            return Address(f"{self.full.rstrip('/')}/{name}")
        parts = urlsplit(self.full)
        return Address(urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}", fragment="")))

    def __str__(self) -> str:
        return "::".join(map(_shown, self.full.split("::")))

    def __repr__(self) -> str:
        return f"<Address {self}>"


def _shown(link: str) -> str:
    scheme, separator, rest = link.partition("://")
    if not separator:
        return link
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{re.split('[?#]', path)[0]}".split("?")[0]


def address_of(path: str | os.PathLike[str]) -> Address | None:
    """The address, if this is one, and not a path of this machine."""
    return Address(path) if isinstance(path, str) and _SCHEME.match(path) else None


def path_of(path: object, name: str = "path") -> Path:
    """The path that a caller means, or `ParameterError` for what can name no file."""
    try:
        text = os.fspath(path)  # type: ignore[call-overload]  # whatever it is, the next lines say so
    except TypeError:
        text = None
    if not isinstance(text, str) or not text:
        raise ParameterError(f"{name} must be the path of a file, got {path!r:.250}; pass a str or pathlib.Path")
    try:
        usable = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise ParameterError(f"{name} must have only characters that file names can have, got {text!r:.250}")
    return Path(text)


def check_local(path: Path) -> None:
    """`ParameterError` for an address that was taken for a path: files are written to this machine."""
    if shown := taken_for_path(path):
        raise ParameterError(f"files are written to this machine only, got {shown}; write it here, and upload it")


def taken_for_path(path: Path) -> Address | None:
    """The address that this path once was, if it was one."""
    found = _FLATTENED.match(str(path))
    if found is None or os.path.isdir(found[1]):
        return None
    return Address(_FLATTENED.sub(r"\1//", str(path), count=1))
