"""Release files taken apart, changed, and sealed again, so that an attack gets past the checksum of
the header.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sparsedp.format import container as storage

Header = dict[str, Any]
Place = tuple[Any, ...]

NASTY: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**53,
    10**30,
    0.5,
    -0.0,
    1e308,
    "",
    "x",
    "-1",
    str(2**64),
    str(2**200),
    "1" * 4001,
    "1/3",
    "1/0",
    "0/1",
    "-1/2",
    "2/4",
    "1e9",
    "NaN",
    "1E-99",
    "∞",
    "١",
    "kind",
    [],
    [[]],
    [1] * 70,
    ["1"],
    {},
    {"kind": "pure"},
    {"a": 1},
]


def split(content: bytes) -> tuple[Header, Header, bytes]:
    """The entries of the header, the description and the data."""
    end = 8 + int.from_bytes(content[:8], "little")
    entries = json.loads(content[8:end])
    return entries, json.loads(entries.pop("__metadata__")["sparsedp"]), content[end:]


def sealed(text: str, data: bytes) -> bytes:
    """A file whose header has the right checksum, whatever it says."""
    header = text.encode()
    header += b" " * (-(8 + len(header)) % 64)
    at = header.index(b'"sha256":"') + 10
    digest = hashlib.sha256(header[:at] + b"0" * 64 + header[at + 64 :]).hexdigest().encode()
    header = header[:at] + digest + header[at + 64 :]
    return len(header).to_bytes(8, "little") + header + data


def join(entries: Header, description: Header | str, data: bytes) -> bytes:
    """The file of these entries, this description and these data, sealed."""
    inner = description if isinstance(description, str) else json.dumps(description, separators=(",", ":"))
    metadata = {"sha256": "0" * 64, "sparsedp": inner}
    return sealed(json.dumps({"__metadata__": metadata, **entries}, separators=(",", ":")), data)


def with_arrays(description: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The file of other arrays, all checksums right."""
    file = io.BytesIO()
    storage.write(file, {**description, "checksums": storage.checksums(arrays)}, arrays)
    return file.getvalue()


def leaves(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every place of a JSON tree, inner ones included."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for name, item in items:
        yield from leaves(item, (*place, name))
