"""Files that tests change, and what they change in descriptions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sparsedp
from releases import COMPOSITE, VARIANTS

FILES = [*VARIANTS, *(name for name, options in COMPOSITE.items() if "parts" not in options)]


def load(path: Path, content: bytes) -> sparsedp.Release:
    path.write_bytes(content)
    return sparsedp.load(path, allow_reproducible=True)


def changed(value: Any, place: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    copy = json.loads(json.dumps(value))
    inner = copy
    for name in place[:-1]:
        inner = inner[name]
    change(inner, place[-1])
    return copy


def replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    return changed(value, place, lambda inner, last: inner.__setitem__(last, new))
