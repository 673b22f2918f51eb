"""A release as a description and arrays, and back with everything checked (docs/format.md).

Nothing here reads or writes files: `files` does. The plan in a description decides what the file
may hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..errors import FormatError
from ..keys.hashing import KeySpace
from ..keys.kinds import (
    COLUMN_KINDS,
    KEY_KINDS,
    MOST_COLUMNS,
    NAMES_IN_WORDS,
    KeyColumn,
    KeyKind,
    is_column_kind,
    is_name,
    is_simple,
)
from ..mechanisms import MECHANISMS, Arrays, ArrayShape, DivisiblePlan, Parts, Plan
from ..mechanisms.partial import joined, outline, renamed
from ..mechanisms.stating import encode, encode_scalar
from .addresses import Address
from .codec import Encoded, check_names, decode
from .container import Container, checksums
from .guarantee import PLAN, checked_plan

FORMAT = 3
HEADER_NAME = "release.sparsedp"
_NEGATIVE = "negative."
_DIGESTS = "parts.sha256"

_COMMON = {"format", "written_by", "kind", "checksums"}
_FIELDS = {
    "release": _COMMON | {"reproducible", "mechanism", "epsilon", "delta", "keys", "plan", "parts"},
    "part": _COMMON | {"part", "of"},
}


class Source(NamedTuple):
    """The file that a release was loaded from."""

    path: Path | Address
    digest: str  # of its header

    @property
    def locator(self) -> str:
        """What `load` takes to open it again."""
        return self.path.full if isinstance(self.path, Address) else str(self.path)


@dataclass(frozen=True, repr=False, eq=False)
class Contents:
    """Everything that is published, and the file it came from."""

    plan: Plan
    key_space: KeySpace
    sides: tuple[Parts, ...]  # the counts, and for signed values a second release of their negatives
    reproducible: bool
    format: int = 0  # of the file it came from; saving it again keeps the format
    source: Source | None = None

    def __post_init__(self) -> None:
        if not self.format:
            object.__setattr__(self, "format", format_of(self.key_space))


Kind = TypeVar("Kind", bound=Contents)


def format_of(space: KeySpace) -> int:
    """The format of new files: the oldest that has what they need, so that older programs can read
    them. Before format 3, all keys are simple.
    """
    return 3 if space.columns else 2


def own_arrays(contents: Contents, part: int) -> list[Arrays]:
    """The arrays of one of several parts, for each side."""
    names = contents.plan.array_shapes
    return [{name: array for name, array in side[part].items() if name in names} for side in contents.sides]


def shared_arrays(contents: Contents) -> Arrays:
    """The arrays that all parts share; a file of format 1 has none."""
    names = contents.plan.shared_shapes
    return prefixed([{name: side[0][name] for name in names if name in side[0]} for side in contents.sides])


def _common(version: int, kind: str) -> dict[str, Any]:
    return {"format": version, "written_by": f"sparsedp {metadata.version('sparsedp')}", "kind": kind}


def prefixed(sides: Sequence[Mapping[str, np.ndarray]]) -> Arrays:
    """The arrays of all sides under distinct names."""
    named = zip(("", _NEGATIVE), sides, strict=False)
    return {prefix + name: array for prefix, side in named for name, array in side.items()}


def part_description(version: int, part: int, of: int, sums: dict[str, str]) -> dict[str, Any]:
    """The description of a part file."""
    return {**_common(version, "part"), "part": part, "of": of, "checksums": sums}


def described(
    contents: Contents, arrays: Arrays, digests: list[str], sums: Callable[[Arrays], dict[str, str]]
) -> tuple[dict[str, Any], Arrays]:
    """The description of a release, and its arrays with those of the plan and the digests of its
    parts.
    """
    plan, space, typed = contents.plan, contents.key_space, contents.format >= 2
    own: Arrays = {}
    encoded = encode(plan, PLAN, own)
    parts: Any = len(digests)
    if not typed:
        parts = [{"file": part_name(part), "sha256": digest} for part, digest in enumerate(digests)]
    elif digests:
        own[_DIGESTS] = np.frombuffer(bytes.fromhex("".join(digests)), np.uint8).reshape(len(digests), -1)
    keys = {
        "domain": encode_scalar(space.domain),
        "seed": None if space.seed is None else [encode_scalar(word) for word in space.seed],
    }
    if space.columns:
        keys = {"columns": [{"name": own.name, "kind": own.kind} for own in space.columns], **keys}
    elif typed:
        keys = {"kind": space.kind, **keys}
    arrays = arrays | own
    description = {
        **_common(contents.format, "release"),
        "reproducible": contents.reproducible,
        "mechanism": plan.mechanism,
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "keys": keys,
        "plan": encoded,
        "checksums": sums(arrays),
        "parts": parts,
    }
    return description, arrays


def listed_parts(header: Container) -> list[str]:
    """The digests of the part files, if there are any; file names follow from part numbers."""
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
        raise FormatError(f"parts must be the number of 32-byte digests in {_DIGESTS}")
    if checksums({_DIGESTS: digests})[_DIGESTS] != header.description["checksums"][_DIGESTS]:
        raise FormatError("the list of parts fails its checksum: the file is damaged")
    return [digest.tobytes().hex() for digest in digests]


def check_description(container: Container, kind: str) -> None:
    """`FormatError` unless a file has this kind, a known format, and a checksum for each array."""
    description = container.description
    version = description.get("format")
    if type(version) is not int or not 1 <= version <= FORMAT:
        raise FormatError(
            f"the file has format {version!r:.20}, and formats up to {FORMAT} are known; upgrade sparsedp"
        )
    if description.get("kind") != kind:
        raise FormatError(f"the file must be a {kind}, got {description.get('kind')!r:.20}")
    check_names(description, _FIELDS[kind], "the description")
    if not isinstance(description["written_by"], str):
        raise FormatError("written_by must be text")
    sums = description["checksums"]
    check_names(sums, set(container.arrays), "checksums")
    if not all(isinstance(digest, str) and re.fullmatch(r"[0-9a-f]{64}", digest, re.ASCII) for digest in sums.values()):
        raise FormatError("checksums must have 64 hexadecimal digits")


def contents_of(
    header: Container, parts: tuple[Container, ...], kind: type[Kind], path: Path | Address | None = None
) -> Kind:
    """What a header file and its part files hold, as a `Contents` of the given kind."""
    description = header.description
    mechanism = description["mechanism"]
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        raise FormatError(f"there is no mechanism {mechanism!r:.40}; a newer version of sparsedp may have it")
    if type(description["reproducible"]) is not bool:
        raise FormatError("reproducible must be true or false")
    plan = checked_plan(header)
    own = renamed(header.arrays, {name: name for name in header.arrays if not _is_of_header(name)})
    if plan.problem.parts > 1 and not isinstance(plan, DivisiblePlan):
        raise FormatError(f"a release of {mechanism} must have one part")
    if len(parts) != (plan.problem.parts if plan.problem.parts > 1 else 0):
        raise FormatError(f"the plan has {plan.problem.parts} parts, the release {len(parts)}")
    shapes, shared_shapes = plan.array_shapes, plan.shared_shapes if description["format"] >= 2 else {}
    if parts and len(own) != plan.releases * len(shared_shapes):
        raise FormatError(f"{HEADER_NAME} must have no arrays except those of the plan and those that all parts share")
    pieces = [part.arrays for part in parts] or [own]
    each = plan.releases * (len(shapes) + (0 if parts else len(shared_shapes)))
    shared = [arrays_of(own, shared_shapes, side) for side in range(plan.releases)]
    sides = tuple(
        tuple(joined(arrays_of(piece, shapes, side), shared[side]) for piece in pieces) for side in range(plan.releases)
    )
    if any(len(piece) != each for piece in pieces):
        raise FormatError("there are arrays that the mechanism does not have")
    for side_parts in sides:
        refuse(plan.wrong_arrays(side_parts, thorough=False))
    if description["format"] >= 2 and plan.problem.sized_unseen:
        raise FormatError("an estimated size must state its noise")
    if description["format"] >= 2 and plan.of_first_format:
        raise FormatError("only a file of format 1 may state the number of keys of each part")
    if plan.problem.sizing_keys is not None and not plan.may_count_keys:
        raise FormatError(f"the size of {mechanism} does not count keys")
    if plan.problem.keep_keys and not plan.keeps_keys:
        raise FormatError(f"a release of {mechanism} keeps no keys")
    space, version = _key_space(description, plan), description["format"]
    source = None if path is None else Source(path, header.digest)
    return kind(plan.observed(sides[0]), space, sides, description["reproducible"], version, source)


def _is_of_header(name: str) -> bool:
    return name == _DIGESTS or name.startswith(PLAN + ".")


def arrays_of(
    arrays: Mapping[str, np.ndarray], shapes: Mapping[str, ArrayShape], side: int
) -> Mapping[str, np.ndarray]:
    """The arrays of one side, with the types and shapes that the plan requires."""
    labels = {name: (_NEGATIVE if side else "") + name for name in shapes}
    taken: Arrays = {}
    for name, (dtype, shape) in shapes.items():
        label = labels[name]
        array = outline(arrays, label) if label in arrays else None
        if array is None or array.dtype != np.dtype(dtype) or len(array.shape) != len(shape):
            raise FormatError(f"array {label!r} must have the type {np.dtype(dtype)} and {len(shape)} dimensions")
        if any(wanted is not None and wanted != got for wanted, got in zip(shape, array.shape, strict=True)):
            raise FormatError(f"array {label!r} must have the shape {shape}, got {array.shape}")
        taken[name] = array
    if "table.ids" in taken and len(taken["table.ids"]) != len(taken["table.values"]):
        raise FormatError("table.ids and table.values must have the same length")
    return renamed(arrays, labels)


def _key_space(description: Mapping[str, Any], plan: Plan) -> KeySpace:
    keys, version = description["keys"], description["format"]
    typed = version == 2
    described_by = {1: set[str](), 2: {"kind"}, 3: {"columns"}}[version]
    check_names(keys, {"domain", "seed"} | described_by, "keys")
    source = Encoded(description["format"], {}, {})
    domain = decode(int, keys["domain"], "keys.domain", source)
    seed = decode(tuple[int, ...] | None, keys["seed"], "keys.seed", source)
    if domain != plan.problem.domain or (seed is not None) != plan.problem.hashed:
        raise FormatError("keys must be those of the plan")
    if seed is not None and (len(seed) != 2 or not all(0 <= word < 1 << 64 for word in seed)):
        raise FormatError("keys.seed must be two words of 64 bits")
    if version == 3:
        if seed is None:
            raise FormatError("keys of several columns must be hashed")
        return KeySpace(domain, seed, None, _key_columns(keys["columns"]))
    if seed is None:
        kinds: tuple[KeyKind | None, ...] = ("integer",)
    else:  # a file of format 1 does not state it
        kinds = (None, *KEY_KINDS) if typed else (None,)
    stated = keys["kind"] if typed else kinds[0]
    for kind in kinds:
        if stated == kind:
            return KeySpace(domain, seed, kind)
    raise FormatError(f"keys.kind must be one of {', '.join(map(str, kinds))}, got {stated!r:.40}")


def _key_columns(stated: Any) -> tuple[KeyColumn, ...]:
    """The columns of composite keys; a key of one column has a kind that simple keys lack."""
    if not isinstance(stated, list) or not 1 <= len(stated) <= MOST_COLUMNS:
        raise FormatError(f"keys.columns must be a list of 1 to {MOST_COLUMNS} columns")
    columns = []
    for at, own in enumerate(stated):
        check_names(own, {"name", "kind"}, f"keys.columns.{at}")
        name, kind = own["name"], own["kind"]
        if not isinstance(name, str) or not is_name(name):
            raise FormatError(f"keys.columns.{at}.name must be {NAMES_IN_WORDS}, got {name!r:.40}")
        if not isinstance(kind, str) or not is_column_kind(kind):
            raise FormatError(f"keys.columns.{at}.kind must be one of {', '.join(COLUMN_KINDS)}, got {kind!r:.40}")
        columns.append(KeyColumn(name, kind))
    if len({own.name for own in columns}) < len(columns):
        raise FormatError("keys.columns must have different names")
    if len(columns) == 1 and (is_simple(columns[0].kind) or columns[0].kind == "boolean"):
        raise FormatError(f"keys.columns must not be one column of kind {columns[0].kind}, which format 2 has")
    return tuple(columns)


def refuse(wrong: Iterator[str]) -> None:
    """`FormatError` with the first thing that is wrong, if anything."""
    for what in wrong:
        raise FormatError(f"the arrays are damaged: {what}")


def part_name(part: int) -> str:
    """The name of a part's file."""
    return f"part-{part:05d}.sparsedp"
