"""Target: `load`, `verify` and all answers of a release file. Only `FormatError` may come out."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import sparsedp
from sparsedp import FormatError, ParameterError, Release, ReproducibleReleaseError
from sparsedp.format import files
from sparsedp.format.description import HEADER_NAME, part_name
from sparsedp.keys.kinds import ColumnKind, Key, unit_of
from sparsedp.releasing import published

from .forging import join, split
from .mutation import mutate

__all__ = ["check", "mutate", "seeds"]

GOLDEN = Path(__file__).parent.parent / "tests" / "golden"
DIRECTORIES = {1: "tight-alp-parts", 2: "tight-alp-parts", 3: "columns-parts"}  # by format


def seeds() -> Iterator[bytes]:
    """The golden files of every format, parts of directories included."""
    for path in sorted(GOLDEN.rglob("*.sparsedp")):
        if path.is_file():
            yield path.read_bytes()


def check(data: bytes) -> None:
    """Open a file, verify it, ask it everything; what `verify` finds intact must then answer."""
    path = _placed(data)
    try:
        release = sparsedp.load(path, allow_reproducible=True)
    except FormatError:
        _must_refuse(lambda: sparsedp.verify(path))
        return
    with suppress(ReproducibleReleaseError):
        sparsedp.load(path)
    try:
        sparsedp.verify(path)
    except FormatError:
        intact = False
    else:
        intact = True
    for use in USES:
        try:
            use(release)
        except FormatError:
            assert not intact, f"verify found this file intact, but {use.__name__} refuses it"
    if intact and release.plan.problem.parts == 1:
        _survives_saving(release)


def _must_refuse(action: Callable[[], object]) -> None:
    try:
        action()
    except FormatError:
        return
    raise AssertionError("load refuses this file, but verify finds it intact")


def _keys(release: Release) -> Sequence[Key]:
    numbers = range(min(release.key_space.domain, 20))
    if release.key_space.columns:
        rows = [tuple(_value(column.kind or "text", number) for column in release.key_columns) for number in numbers]
        return rows if len(release.key_columns) > 1 else [row[0] for row in rows]
    if release.key_space.kind == "text":
        return list(map(str, numbers))
    return [b"%d" % number for number in numbers] if release.key_space.kind == "bytes" else numbers


def _value(kind: ColumnKind, number: int) -> Any:
    """Some value of a column of this kind."""
    if unit := unit_of(kind):
        return np.array([number]).astype(f"datetime64[{unit}]")[0]
    if kind == "date":
        return np.datetime64(number, "D")
    makers: dict[str, Callable[[int], Any]] = {"text": str, "integer": int, "bytes": bytes, "boolean": bool}
    return makers[kind](number % 2 if kind == "boolean" else number)


def _lookup(release: Release) -> None:
    keys = _keys(release)
    estimates = release.lookup(keys)
    assert np.isfinite(estimates).all()
    for key, estimate in zip(keys[:2], estimates, strict=False):
        assert release[key] == estimate


def _interval(release: Release) -> None:
    low, high = release.interval(_keys(release))
    assert (low <= high).all()


def _sum(release: Release) -> None:
    with suppress(ParameterError):  # most mechanisms have no sums
        release.sum(_keys(release))


def _stored(release: Release) -> None:
    keys, values = release.stored()
    assert len(keys) == len(values)


def _kept_keys(release: Release) -> None:
    if release.plan.problem.keep_keys:
        assert len(release.kept_keys()) == len(release.stored().keys)


def _texts(release: Release) -> None:
    assert repr(release)  # but not str(plan), which simulates its errors for seconds


USES: list[Callable[[Release], None]] = [_lookup, _interval, _sum, _stored, _kept_keys, _texts]


def _survives_saving(release: Release) -> None:
    """What is intact is written and read again, and answers the same."""
    again = published._from_bytes(files.to_bytes(release))
    np.testing.assert_array_equal(again.lookup(_keys(again)), release.lookup(_keys(release)))


@cache
def _folder() -> Path:
    holder = tempfile.TemporaryDirectory(prefix="sparsedp-fuzz-")
    _holders.append(holder)  # which removes the folder when the process ends
    return Path(holder.name)


_holders: list[tempfile.TemporaryDirectory[str]] = []


def _placed(data: bytes) -> Path:
    """Where to open it: as a file, or if it belongs to a directory of parts, in one whose other
    files are good.
    """
    description = _description(data)
    part: Any = description.get("part")
    is_part = description.get("kind") == "part" and type(part) is int and part in range(3)
    if not is_part and not description.get("parts"):
        path = _folder() / "file.sparsedp"
        path.write_bytes(data)
        return path
    version = description.get("format")
    known = version if type(version) is int and version in DIRECTORIES else 2
    good = GOLDEN / f"format-{known}" / f"{DIRECTORIES[known]}.sparsedp"
    contents = {path.name: path.read_bytes() for path in good.iterdir()}
    if is_part:
        contents[part_name(part)] = data
        contents[HEADER_NAME] = _listing(contents[HEADER_NAME], part, data[35:99])
    else:
        contents[HEADER_NAME] = data
    directory = _folder() / "directory.sparsedp"
    directory.mkdir(exist_ok=True)
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    return directory


def _listing(header: bytes, part: int, digest: bytes) -> bytes:
    """The header of a directory with another digest of one part."""
    entries, description, data = split(header)
    if description["format"] == 1:
        description["parts"][part]["sha256"] = digest.decode("latin-1")
        return join(entries, description, data)
    start, end = entries["parts.sha256"]["data_offsets"]
    with suppress(ValueError):  # what is no digest stays the old one, and the part is refused
        data = data[: start + 32 * part] + bytes.fromhex(digest.decode("latin-1")) + data[start + 32 * part + 32 :]
    description["checksums"]["parts.sha256"] = hashlib.sha256(data[start:end]).hexdigest()
    return join(entries, description, data)


def _description(data: bytes) -> dict[str, Any]:
    """What a file says of itself, if anything."""
    with suppress(Exception):
        description = split(data)[1]
        return description if isinstance(description, dict) else {}
    return {}
