"""What a release publishes, as a file or a directory of parts, and back with everything checked (docs/format.md)."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FormatError
from ..keys.hashing import KEY_KINDS, KeyKind, KeySpace
from ..keys.kept import wrong_keys
from ..mechanisms import MECHANISMS, Arrays, ArrayShape, DivisiblePlan, Parts, Plan, check_privacy
from ..mechanisms.retrieval import RetrievalPlan
from .codec import Source, check_names, decode, decode_plan, encode, encode_scalar
from .container import (
    NO_DIGEST,
    Container,
    blank_checksums,
    check_writable,
    checksums,
    from_bytes,
    hidden_beside,
    naming,
    read,
    replacing,
    size_of,
    sync_directory,
    write,
)

FORMAT = 2
HEADER_NAME = "release.sparsedp"
_NEGATIVE = "negative."
_PLAN = "plan"
_DIGESTS = "parts.sha256"

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
    format: int = FORMAT  # of the file it is from; saved again, it stays what it was
    digest: str | None = None  # of the header of the file, when there is one


def part_name(part: int) -> str:
    """The name of a part's file."""
    return f"part-{part:05d}.sparsedp"


def save(contents: Contents, path: Path) -> None:
    """Write a file, or a directory if there are several parts; it appears when it is complete."""
    parts = contents.plan.problem.parts
    if parts == 1:
        with replacing(path) as file:
            write(file, *_described(contents, _prefixed([side[0] for side in contents.sides]), [], checksums))
        return
    with staged(path) as directory:
        digests = [
            write_part(directory, part, parts, _own_arrays(contents, part), contents.format) for part in range(parts)
        ]
        _write_header(directory, contents, digests)


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


def write_part(directory: Path, part: int, of: int, sides: Sequence[Arrays], version: int = FORMAT) -> str:
    """Write one part of a release and give the digest that its header file must list."""
    arrays = _prefixed(sides)
    sums = checksums(arrays)
    with replacing(directory / part_name(part)) as file:
        return write(file, _part_description(version, part, of, sums), arrays)


def finish_parts(directory: Path, plan: Plan, space: KeySpace, reproducible: bool, digests: list[str]) -> None:
    """Write the file that makes a release of the parts that are in the directory, whoever has written them."""
    sides: tuple[Parts, ...] = ()
    if plan.shared_shapes:  # what parts share follows from what each of them has published
        pieces = [read(directory / part_name(part)).arrays for part in range(len(digests))]
        built = (tuple(_take(piece, plan.array_shapes, side) for piece in pieces) for side in range(plan.releases))
        sides = tuple(plan.completed(side) for side in built)
    _write_header(directory, Contents(plan, space, sides, reproducible), digests)


def _write_header(directory: Path, contents: Contents, digests: list[str]) -> None:
    with replacing(directory / HEADER_NAME) as file:
        write(file, *_described(contents, _shared_arrays(contents), digests, checksums))


def _own_arrays(contents: Contents, part: int) -> list[Arrays]:
    """The arrays of one of several parts, for each side."""
    names = contents.plan.array_shapes
    return [{name: array for name, array in side[part].items() if name in names} for side in contents.sides]


def _shared_arrays(contents: Contents) -> Arrays:
    """The arrays that all parts share; a file of format 1 has none."""
    names = contents.plan.shared_shapes
    return _prefixed([{name: side[0][name] for name in names if name in side[0]} for side in contents.sides])


def to_bytes(contents: Contents) -> bytes:
    """The file of a release of one part, in memory."""
    file = io.BytesIO()
    write(file, *_described(contents, _prefixed([side[0] for side in contents.sides]), [], checksums))
    return file.getvalue()


def _common(version: int, kind: str) -> dict[str, Any]:
    return {"format": version, "written_by": f"sparsedp {metadata.version('sparsedp')}", "kind": kind}


def _prefixed(sides: Sequence[Arrays]) -> Arrays:
    named = zip(("", _NEGATIVE), sides, strict=False)
    return {prefix + name: array for prefix, side in named for name, array in side.items()}


def nbytes(contents: Contents) -> int:
    """The bytes of the file, or of all files, that `save` writes."""
    parts = contents.plan.problem.parts
    if parts == 1:
        whole = _prefixed([side[0] for side in contents.sides])
        return size_of(*_described(contents, whole, [], blank_checksums))
    each = [_prefixed(_own_arrays(contents, part)) for part in range(parts)]
    header = size_of(*_described(contents, _shared_arrays(contents), [NO_DIGEST] * parts, blank_checksums))
    described = (
        (_part_description(contents.format, part, parts, blank_checksums(own)), own) for part, own in enumerate(each)
    )
    return header + sum(size_of(*file) for file in described)


def _part_description(version: int, part: int, of: int, sums: dict[str, str]) -> dict[str, Any]:
    return {**_common(version, "part"), "part": part, "of": of, "checksums": sums}


def _described(
    contents: Contents, arrays: Arrays, digests: list[str], sums: Callable[[Arrays], dict[str, str]]
) -> tuple[dict[str, Any], Arrays]:
    """The description of a release, and its arrays with those of the plan and the digests of its parts."""
    plan, space, typed = contents.plan, contents.key_space, contents.format >= 2
    own: Arrays = {}
    encoded = encode(plan, _PLAN, own)
    parts: Any = len(digests)
    if not typed:
        parts = [{"file": part_name(part), "sha256": digest} for part, digest in enumerate(digests)]
    elif digests:
        own[_DIGESTS] = np.frombuffer(bytes.fromhex("".join(digests)), np.uint8).reshape(len(digests), -1)
    keys = {
        "domain": encode_scalar(space.domain),
        "seed": None if space.seed is None else [encode_scalar(word) for word in space.seed],
    }
    arrays = arrays | own
    description = {
        **_common(contents.format, "release"),
        "reproducible": contents.reproducible,
        "mechanism": plan.mechanism,
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "keys": {"kind": space.kind, **keys} if typed else keys,
        "plan": encoded,
        "checksums": sums(arrays),
        "parts": parts,
    }
    return description, arrays


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
    listed = _listed_parts(header)
    if bool(listed) != (directory is not None) or len(listed) == 1:
        raise FormatError("a release of several parts is a directory, and one of a single part is a file")
    if directory is None:
        return header, ()

    def open_part(at: int) -> Container:
        with _naming(Path(part_name(at))):
            part = read(directory / part_name(at))
        _check_description(part, "part", _PART_FIELDS)
        if (part.description["part"], part.description["of"]) != (at, len(listed)):
            raise FormatError(f"{part_name(at)} must be part {at} of {len(listed)}")
        if part.digest != listed[at] or part.description["format"] != header.description["format"]:
            raise FormatError(f"{part_name(at)} is not the part that {HEADER_NAME} lists")
        return part

    with ThreadPoolExecutor() as pool:
        return header, tuple(pool.map(open_part, range(len(listed))))


def _listed_parts(header: Container) -> list[str]:
    """The digests of the part files, if there are any; their names follow from their numbers."""
    stated = header.description["parts"]
    if header.description["format"] == 1:
        if not isinstance(stated, list):
            raise FormatError("parts must be a list")
        for at, entry in enumerate(stated):
            check_names(entry, {"file", "sha256"}, f"parts.{at}")
            if entry["file"] != part_name(at):
                raise FormatError(f"part {at} must be called {part_name(at)}, got {entry['file']!r:.60}")
        return [entry["sha256"] for entry in stated]
    if type(stated) is int and stated == 0 and _DIGESTS not in header.arrays:
        return []
    digests = header.arrays.get(_DIGESTS, np.empty(0, np.uint8))
    if type(stated) is not int or digests.dtype != np.uint8 or digests.shape != (stated, 32) or not stated:
        raise FormatError(f"parts must be the number of digests of 32 bytes in {_DIGESTS}")
    if checksums({_DIGESTS: digests})[_DIGESTS] != header.description["checksums"][_DIGESTS]:
        raise FormatError("the list of parts fails its checksum: the file is damaged")
    return [digest.tobytes().hex() for digest in digests]


def _check_description(container: Container, kind: str, names: set[str]) -> None:
    description = container.description
    version = description.get("format")
    if type(version) is not int or not 1 <= version <= FORMAT:
        raise FormatError(
            f"the file has format {version!r:.20}, and formats up to {FORMAT} are known; upgrade sparsedp"
        )
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
    plan: Plan = decode_plan(MECHANISMS[mechanism], description["plan"], _PLAN, description["format"], matrices)
    if matrices:
        raise FormatError(f"array {next(iter(matrices))!r} has no place in the plan")
    _check_guarantee(plan, description)
    own = {name: array for name, array in header.arrays.items() if not _is_of_header(name)}
    if plan.problem.parts > 1 and not isinstance(plan, DivisiblePlan):
        raise FormatError(f"a release of {mechanism} has one part only")
    if len(parts) != (plan.problem.parts if plan.problem.parts > 1 else 0):
        raise FormatError(f"the plan has {plan.problem.parts} parts, the release {len(parts)}")
    shapes, shared_shapes = plan.array_shapes, plan.shared_shapes if description["format"] >= 2 else {}
    if parts and len(own) != plan.releases * len(shared_shapes):
        raise FormatError(f"{HEADER_NAME} must have no arrays but those of the plan and those that all parts share")
    pieces = [part.arrays for part in parts] or [own]
    each = plan.releases * (len(shapes) + (0 if parts else len(shared_shapes)))
    shared = [_take(own, shared_shapes, side) for side in range(plan.releases)]
    sides = tuple(tuple(_take(piece, shapes, side) | shared[side] for piece in pieces) for side in range(plan.releases))
    if any(len(piece) != each for piece in pieces):
        raise FormatError("there are arrays that the mechanism does not have")
    for side_parts in sides:
        _refuse(plan.wrong_arrays(side_parts, thorough=False))
    if description["format"] >= 2 and plan.problem.sized_unseen:
        raise FormatError("a size that was estimated must state its noise")
    if description["format"] >= 2 and isinstance(plan, RetrievalPlan) and plan.count_noise is not None:
        raise FormatError("only a file of format 1 has numbers of keys for each part")
    if plan.problem.sizing_keys is not None and not (isinstance(plan, RetrievalPlan) or _chosen_by_number(plan)):
        raise FormatError(f"the size of {mechanism} does not count keys")
    if plan.problem.keep_keys and not plan.keeps_keys:
        raise FormatError(f"a release of {mechanism} keeps no keys")
    space, version = _key_space(description, plan), description["format"]
    return Contents(plan.observed(sides[0]), space, sides, description["reproducible"], version, header.digest)


def _chosen_by_number(plan: Plan) -> bool:
    """Whether `auto` can have taken this plan because there are few keys."""
    return plan.mechanism == "tight-alp" and plan.problem.delta > 0 and plan.problem.counted


def _is_of_header(name: str) -> bool:
    return name == _DIGESTS or name.startswith(_PLAN + ".")


def _check_guarantee(plan: Plan, description: Mapping[str, Any]) -> None:
    """ε and δ follow from the integers of the plan; a file cannot state others.

    A file of format 1 may state a δ of `retrieval` that is above what is proved now, and an ε that trusts the price of
    its estimated size, which nobody can check: the release then states the ε that was asked for.
    """
    try:
        check_privacy(plan)
        exact = {"epsilon": plan.epsilon, "delta": plan.delta}
    except (ArithmeticError, AssertionError, ValueError) as error:
        raise FormatError(f"the plan guarantees nothing: {error}") from None
    for name, value in exact.items():
        stated, first = description[name], description["format"] == 1
        larger = first and name == "delta" and plan.mechanism == "retrieval"
        smaller = first and name == "epsilon" and plan.problem.sized_unseen
        wanted = (plan.exact_epsilon, value) if smaller else (value,)
        if type(stated) not in (int, float) or not (stated >= value if larger else stated in wanted):
            raise FormatError(f"the file states {name} = {stated!r:.40}, but its thresholds guarantee {value!r}")


def _take(arrays: Arrays, shapes: Mapping[str, ArrayShape], side: int) -> Arrays:
    """The arrays of one side, of the types and shapes that the plan has."""
    taken: Arrays = {}
    for name, (dtype, shape) in shapes.items():
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


def _key_space(description: Mapping[str, Any], plan: Plan) -> KeySpace:
    keys, typed = description["keys"], description["format"] >= 2
    check_names(keys, {"domain", "seed"} | ({"kind"} if typed else set()), "keys")
    source = Source(description["format"], {}, {})
    domain = decode(int, keys["domain"], "keys.domain", source)
    seed = decode(tuple[int, ...] | None, keys["seed"], "keys.seed", source)
    if domain != plan.problem.domain or (seed is not None) != plan.problem.hashed:
        raise FormatError("keys must be those of the plan")
    if seed is not None and (len(seed) != 2 or not all(0 <= word < 1 << 64 for word in seed)):
        raise FormatError("keys.seed must be two words of 64 bits")
    if seed is None:
        kinds: tuple[KeyKind | None, ...] = ("integer",)
    else:  # a file of format 1 does not tell
        kinds = (None, *KEY_KINDS) if typed else (None,)
    stated = keys["kind"] if typed else kinds[0]
    for kind in kinds:
        if stated == kind:
            return KeySpace(domain, seed, kind)
    raise FormatError(f"keys.kind must be one of {', '.join(map(str, kinds))}, got {stated!r:.40}")


def _refuse(wrong: Any) -> None:
    for what in wrong:
        raise FormatError(f"the arrays are damaged: {what}")
