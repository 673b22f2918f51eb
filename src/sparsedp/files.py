"""What a release publishes, as a file or a directory of parts, and back with everything checked (docs/format.md)."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from .errors import FormatError
from .hashing import KeySpace
from .keeping import wrong_keys
from .mechanisms import MECHANISMS, Arrays, DivisiblePlan, Parts, Plan, check_privacy
from .schema import check_names, decode, encode, encode_scalar
from .storage import (
    Container,
    check_writable,
    checksums,
    from_bytes,
    hidden_beside,
    naming,
    read,
    replacing,
    sync_directory,
    write,
)

FORMAT = 1
HEADER_NAME = "release.sparsedp"
_NEGATIVE = "negative."
_PLAN = "plan"

_RELEASE_FIELDS = {
    "format",
    "written_by",
    "kind",
    "reproducible",
    "mechanism",
    "epsilon",
    "delta",
    "keys",
    "plan",
    "checksums",
    "parts",
}
_PART_FIELDS = {"format", "written_by", "kind", "part", "of", "checksums"}


@dataclass(frozen=True)
class Contents:
    """Everything that is published, and where it came from."""

    plan: Plan
    key_space: KeySpace
    sides: tuple[Parts, ...]
    reproducible: bool
    digest: str | None = None  # of the header of the file, when there is one


def part_name(part: int) -> str:
    """The name of a part's file."""
    return f"part-{part:05d}.sparsedp"


def save(contents: Contents, path: Path) -> None:
    """Write a file, or a directory if there are several parts; it appears when it is complete."""
    parts = contents.plan.problem.parts
    if parts == 1:
        with replacing(path) as file:
            _write_release(file, contents, _prefixed([side[0] for side in contents.sides]), [])
        return
    with staged(path) as directory:
        digests = [write_part(directory, part, parts, [side[part] for side in contents.sides]) for part in range(parts)]
        write_header(directory, contents, digests)


def check_new(path: Path, parts: int) -> None:
    """`OSError` unless a release can be written there: said before anything is spent on it."""
    if path.is_dir() or (parts > 1 and path.exists()):
        raise FileExistsError(f"{path} exists; a release of several parts is a new directory")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no directory {path.absolute().parent} to write {path.name} into")
    check_writable(path)


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """A new directory for the files of a release; at the end of the block it becomes `path`, or it is gone."""
    check_new(path, parts=2)
    temporary = hidden_beside(path)
    with naming(path):
        try:
            temporary.mkdir()
            yield temporary
            os.rename(temporary, path)
            sync_directory(path.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def write_part(directory: Path, part: int, of: int, sides: Sequence[Arrays]) -> str:
    """Write one part of a release and give the digest that its header file must list."""
    arrays = _prefixed(sides)
    sums = checksums(arrays)
    with replacing(directory / part_name(part)) as file:
        return write(file, {**_common("part"), "part": part, "of": of, "checksums": sums}, arrays)


def write_header(directory: Path, contents: Contents, digests: list[str]) -> None:
    """Write the file that makes a release of its parts."""
    parts = [{"file": part_name(part), "sha256": digest} for part, digest in enumerate(digests)]
    with replacing(directory / HEADER_NAME) as file:
        _write_release(file, contents, {}, parts)


def to_bytes(contents: Contents) -> bytes:
    """The file of a release of one part, in memory."""
    file = io.BytesIO()
    _write_release(file, contents, _prefixed([side[0] for side in contents.sides]), [])
    return file.getvalue()


def _common(kind: str) -> dict[str, Any]:
    return {"format": FORMAT, "written_by": f"sparsedp {metadata.version('sparsedp')}", "kind": kind}


def _prefixed(sides: Sequence[Arrays]) -> Arrays:
    named = zip(("", _NEGATIVE), sides, strict=False)
    return {prefix + name: array for prefix, side in named for name, array in side.items()}


def _write_release(file: Any, contents: Contents, arrays: Arrays, parts: list[dict[str, str]]) -> None:
    plan, space = contents.plan, contents.key_space
    matrices: Arrays = {}
    encoded = encode(plan, _PLAN, matrices)
    arrays = arrays | matrices
    description = {
        **_common("release"),
        "reproducible": contents.reproducible,
        "mechanism": plan.mechanism,
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "keys": {
            "domain": encode_scalar(space.domain),
            "seed": None if space.seed is None else [encode_scalar(word) for word in space.seed],
        },
        "plan": encoded,
        "checksums": checksums(arrays),
        "parts": parts,
    }
    write(file, description, arrays)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What is wrong with a file is said with its name."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def load(path: Path) -> Contents:
    """The release in a file or a directory, mapped, its header checked completely."""
    with _naming(path):
        return _contents(*_open(path))


def load_bytes(content: bytes) -> Contents:
    """The release that `to_bytes` wrote."""
    return _contents(from_bytes(content), ())


def verify(path: Path) -> None:
    """`FormatError` unless every byte of a release is as it was written."""
    with _naming(path):
        header, parts = _open(path)
        for container, name in [(header, "the file"), *((part, part_name(at)) for at, part in enumerate(parts))]:
            stated = container.description["checksums"]
            for array, digest in checksums(container.arrays).items():
                if stated.get(array) != digest:
                    raise FormatError(f"array {array!r} of {name} fails its checksum: the file is damaged")
        contents = _contents(header, parts)
        for side in contents.sides:
            _refuse(contents.plan.wrong_arrays(side, thorough=True))
        if contents.plan.problem.keep_keys:
            _refuse(wrong_keys([arrays for side in contents.sides for arrays in side], contents.key_space))


def _open(path: Path) -> tuple[Container, tuple[Container, ...]]:
    """The header file, and the part files if there are any, described alike."""
    directory = path if path.is_dir() else None
    if directory is not None and not (directory / HEADER_NAME).exists():
        raise FormatError(f"a directory without {HEADER_NAME}: no release, or an unfinished one")
    header = read(path if directory is None else directory / HEADER_NAME)
    _check_description(header, "release", _RELEASE_FIELDS)
    listed = header.description["parts"]
    if not isinstance(listed, list) or bool(listed) != (directory is not None) or len(listed) == 1:
        raise FormatError("a release of several parts is a directory, and one of a single part is a file")
    for at, entry in enumerate(listed):
        check_names(entry, {"file", "sha256"}, f"parts.{at}")
        if entry["file"] != part_name(at):  # also keeps a file from naming files elsewhere
            raise FormatError(f"part {at} must be called {part_name(at)}, got {entry['file']!r:.60}")
    if directory is None:
        return header, ()

    def open_part(at: int) -> Container:
        with _naming(Path(part_name(at))):
            part = read(directory / part_name(at))
        _check_description(part, "part", _PART_FIELDS)
        if (part.description["part"], part.description["of"]) != (at, len(listed)):
            raise FormatError(f"{part_name(at)} must be part {at} of {len(listed)}")
        if part.digest != listed[at]["sha256"]:
            raise FormatError(f"{part_name(at)} is not the part that {HEADER_NAME} lists")
        return part

    with ThreadPoolExecutor() as pool:
        return header, tuple(pool.map(open_part, range(len(listed))))


def _check_description(container: Container, kind: str, names: set[str]) -> None:
    description = container.description
    version = description.get("format")
    if type(version) is not int or version != FORMAT:
        raise FormatError(f"the file has format {version!r:.20}, this version reads format {FORMAT}; upgrade sparsedp")
    if description.get("kind") != kind:
        raise FormatError(f"the file must be a {kind}, got {description.get('kind')!r:.20}")
    check_names(description, names, "the description")
    if not isinstance(description["written_by"], str):
        raise FormatError("written_by must be text")
    sums = description["checksums"]
    check_names(sums, set(container.arrays), "checksums")
    if not all(isinstance(digest, str) and re.fullmatch(r"[0-9a-f]{64}", digest, re.ASCII) for digest in sums.values()):
        raise FormatError("checksums must be of 64 hexadecimal digits")


def _contents(header: Container, parts: tuple[Container, ...]) -> Contents:
    description = header.description
    mechanism = description["mechanism"]
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        raise FormatError(f"there is no mechanism {mechanism!r:.40}; a newer version of sparsedp may have it")
    if type(description["reproducible"]) is not bool:
        raise FormatError("reproducible must be true or false")
    matrices = {name: array for name, array in header.arrays.items() if name.startswith(_PLAN + ".")}
    if checksums(matrices).items() - description["checksums"].items():
        raise FormatError("the thresholds of the plan fail their checksum: the file is damaged")
    plan: Plan = decode(MECHANISMS[mechanism], description["plan"], _PLAN, matrices)
    if matrices:
        raise FormatError(f"array {next(iter(matrices))!r} has no place in the plan")
    _check_guarantee(plan, description)
    own = {name: array for name, array in header.arrays.items() if not name.startswith(_PLAN + ".")}
    if plan.problem.parts > 1 and not isinstance(plan, DivisiblePlan):
        raise FormatError(f"a release of {mechanism} has one part only")
    if len(parts) != (plan.problem.parts if plan.problem.parts > 1 else 0):
        raise FormatError(f"the plan has {plan.problem.parts} parts, the release {len(parts)}")
    if parts and own:
        raise FormatError(f"{HEADER_NAME} must have no arrays but those of the plan")
    pieces = [part.arrays for part in parts] or [own]
    sides = tuple(tuple(_take(piece, plan, side) for piece in pieces) for side in range(plan.releases))
    if any(len(piece) != plan.releases * len(plan.array_shapes) for piece in pieces):
        raise FormatError("there are arrays that the mechanism does not have")
    for side_parts in sides:
        _refuse(plan.wrong_arrays(side_parts, thorough=False))
    if plan.problem.keep_keys and not plan.keeps_keys:
        raise FormatError(f"a release of {mechanism} keeps no keys")
    space = _key_space(description["keys"], plan)
    return Contents(plan.observed(sides[0]), space, sides, description["reproducible"], header.digest)


def _check_guarantee(plan: Plan, description: Mapping[str, Any]) -> None:
    """ε and δ follow from the integers of the plan; a file cannot state others."""
    try:
        check_privacy(plan)
        exact = {"epsilon": plan.epsilon, "delta": plan.delta}
    except (ArithmeticError, AssertionError, ValueError) as error:
        raise FormatError(f"the plan guarantees nothing: {error}") from None
    for name, value in exact.items():
        stated = description[name]
        if type(stated) not in (int, float) or stated != value:
            raise FormatError(f"the file states {name} = {stated!r:.40}, but its thresholds guarantee {value!r}")


def _take(arrays: Arrays, plan: Plan, side: int) -> Arrays:
    """The arrays of one side, of the types and shapes that the plan has."""
    taken: Arrays = {}
    for name, (dtype, shape) in plan.array_shapes.items():
        label = (_NEGATIVE if side else "") + name
        array = arrays.get(label)
        if array is None or array.dtype != np.dtype(dtype) or len(array.shape) != len(shape):
            raise FormatError(f"array {label!r} must be of {np.dtype(dtype)} with {len(shape)} dimensions")
        if any(wanted is not None and wanted != got for wanted, got in zip(shape, array.shape, strict=True)):
            raise FormatError(f"array {label!r} must have the shape {shape}, got {array.shape}")
        taken[name] = array
    if "table.ids" in taken and len(taken["table.ids"]) != len(taken["table.values"]):
        raise FormatError("table.ids and table.values must be equally many")
    return taken


def _key_space(keys: Any, plan: Plan) -> KeySpace:
    check_names(keys, {"domain", "seed"}, "keys")
    domain = decode(int, keys["domain"], "keys.domain", {})
    seed = decode(tuple[int, ...] | None, keys["seed"], "keys.seed", {})
    if domain != plan.problem.domain or (seed is not None) != plan.problem.hashed:
        raise FormatError("keys must be those of the plan")
    if seed is not None and (len(seed) != 2 or not all(0 <= word < 1 << 64 for word in seed)):
        raise FormatError("keys.seed must be two words of 64 bits")
    return KeySpace(domain, seed)


def _refuse(wrong: Any) -> None:
    for what in wrong:
        raise FormatError(f"the arrays are damaged: {what}")
