"""Target: `load`, `verify` and all answers of a release file. Only `FormatError` may come out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import sparsedp
from sparsedp import FormatError, ParameterError, Release, ReproducibleReleaseError, files, published

from .forging import join, split
from .mutation import mutate

__all__ = ["check", "mutate", "seeds"]

GOLDEN = Path(__file__).parent.parent / "tests" / "golden"
DIRECTORY = GOLDEN / "format-1" / "tight-alp-parts.sparsedp"


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


def _keys(release: Release) -> np.ndarray:
    return np.arange(min(release.key_space.domain, 20), dtype=np.uint64)


def _lookup(release: Release) -> None:
    estimates = release.lookup(_keys(release))
    assert np.isfinite(estimates).all()
    for key in range(min(len(estimates), 2)):
        assert release[key] == estimates[key]


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
    contents = files.Contents(release.plan, release.key_space, release.sides, release.reproducible)
    again = published._from_bytes(files.to_bytes(contents))
    np.testing.assert_array_equal(again.lookup(_keys(again)), release.lookup(_keys(release)))


@cache
def _folder() -> Path:
    holder = tempfile.TemporaryDirectory(prefix="sparsedp-fuzz-")
    _holders.append(holder)  # which removes the folder when the process ends
    return Path(holder.name)


_holders: list[tempfile.TemporaryDirectory[str]] = []


def _placed(data: bytes) -> Path:
    """Where to open it: as a file, or if it belongs to a directory of parts, in one whose other files are good."""
    description = _description(data)
    part: Any = description.get("part")
    is_part = description.get("kind") == "part" and type(part) is int and part in range(3)
    if not is_part and not description.get("parts"):
        path = _folder() / "file.sparsedp"
        path.write_bytes(data)
        return path
    contents = {path.name: path.read_bytes() for path in DIRECTORY.iterdir()}
    if is_part:
        contents[files.part_name(part)] = data
        entries, header, rest = split(contents[files.HEADER_NAME])
        header["parts"][part]["sha256"] = data[35:99].decode("latin-1")
        contents[files.HEADER_NAME] = join(entries, header, rest)
    else:
        contents[files.HEADER_NAME] = data
    directory = _folder() / "directory.sparsedp"
    directory.mkdir(exist_ok=True)
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    return directory


def _description(data: bytes) -> dict[str, Any]:
    """What a file says of itself, if anything."""
    with suppress(Exception):
        description = split(data)[1]
        return description if isinstance(description, dict) else {}
    return {}
