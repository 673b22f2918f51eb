"""Plans as JSON and back: every field typed, every number exact, every range checked
(docs/format.md, "The plan").

A plan is a tree of frozen dataclasses. `encode` (`mechanisms/stating.py`) writes it field by field;
`decode` follows the type hints of the class and then checks the `faults` of each object, so the
result could have been planned here, whatever wrote the file. A ladder is written as its recipe, and
its masses are computed again.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..errors import FormatError
from ..mechanisms import Arrays
from ..mechanisms.leftover import step_factors
from ..mechanisms.stating import KINDS, LARGEST_JSON_INTEGER, encode_scalar, is_left_out
from ..privacy.cut_laws import CutLaw
from ..structures.ladder import MOST_HEIGHT, Ladder, Recipe
from ..structures.thresholds import PureStage, StableStage

_MATRIX = tuple[tuple[int, ...], ...]

# No plan comes near this; a file beyond it could keep a reader busy for a long time.
_MOST_DIGITS = 4000


@runtime_checkable
class Checked(Protocol):
    """A class that checks its own instances when they come from a file; this room only translates."""

    def faults(self) -> Iterator[str]:
        """What is wrong with the instance, if anything; its parts have already been checked."""


@dataclass(frozen=True)
class Encoded:
    """What a value is decoded from, besides its JSON."""

    version: int  # of the format
    matrices: Arrays  # by their place; removed once they are used
    plan: dict[str, Any]  # the fields of the plan decoded so far


def decode_plan(cls: type, value: Any, place: str, version: int, matrices: Arrays) -> Any:
    """The plan of a file of this format, or `FormatError`; the matrices it uses are removed from
    `matrices`.
    """
    source = Encoded(version, matrices, {})
    return _decode_dataclass(cls, value, place, source, source.plan)


def decode(hint: Any, value: Any, place: str, source: Encoded) -> Any:
    """The value of the hinted type, or `FormatError`."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return _decode_union(hint, value, place, source)
    if hint is Ladder and source.version >= 2 and isinstance(value, dict) and "recipe" in value:
        return _decode_recipe(value, place, source)
    if is_dataclass(hint):
        return _decode_part(typing.cast(type, hint), value, place, source)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise FormatError(f"{place} must be a list, got {_shown(value)}")
        item = typing.get_args(hint)[0]
        return tuple(decode(item, one, f"{place}.{at}", source) for at, one in enumerate(value))
    return _decode_scalar(hint, value, place)


def _decode_union(hint: Any, value: Any, place: str, source: Encoded) -> Any:
    options = typing.get_args(hint)
    if value is None and type(None) in options:
        return None
    classes = [option for option in options if is_dataclass(option)]
    if len(classes) > 1:
        kind = value.get("kind") if isinstance(value, dict) else None
        unnamed = [cls for cls in classes if cls not in KINDS.values()]
        if kind is None and unnamed:
            return decode(unnamed[0], value, place, source)
        if not isinstance(kind, str) or KINDS.get(kind) not in classes:
            raise FormatError(f"{place} must be of a known kind, got {_shown(kind)}")
        return _decode_part(KINDS[kind], value, place, source)
    (only,) = (option for option in options if option is not type(None))
    return decode(only, value, place, source)


def _decode_recipe(value: dict[str, Any], place: str, source: Encoded) -> Ladder:
    """The ladder of a recipe, with its masses checked against their digest."""
    check_names(value, {"recipe", "sha256"}, place)
    recipe: Recipe = decode(Recipe, value["recipe"], f"{place}.recipe", source)
    stage = source.plan.get("stage")
    if not isinstance(stage, (PureStage, StableStage)) or recipe.anchors[-1] >= stage.threshold:
        raise FormatError(f"{place} must end below the threshold")
    ladder = _grown(stage, recipe)
    for part in (*ladder.levels, ladder):
        _refuse_invalid(part, place)
    if value["sha256"] != ladder.digest:
        raise FormatError(f"{place} does not give the masses that the release was made with")
    return ladder


@lru_cache(maxsize=64)
def _grown(stage: PureStage | StableStage, recipe: Recipe) -> Ladder:
    return Ladder.grown(step_factors(stage, recipe.growth, recipe.anchors[-1]), recipe)


def _decode_part(cls: type, value: Any, place: str, source: Encoded) -> Any:
    """A part of a plan. Files of a series state the same laws again and again; a part that has been
    checked is kept under all of its JSON, together with the exact arithmetic it has done since.
    """
    if source.matrices or not _stands_alone(cls):
        return _decode_dataclass(cls, value, place, source, {})
    stated = (cls, source.version, json.dumps(value))
    part = _kept.get(stated)
    if part is None:
        part = _decode_dataclass(cls, value, place, source, {})
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[stated] = part
    return part


_MOST_KEPT = 256
_kept: dict[tuple[type, int, str], Any] = {}


@lru_cache(maxsize=64)
def _stands_alone(cls: type) -> bool:
    """Whether all of a class is in its own JSON: a ladder also depends on the stage of its plan."""
    inner = {part for _, hint in _hints(cls) for part in _classes_in(hint)}
    return Ladder not in inner and all(map(_stands_alone, inner))


def _classes_in(hint: Any) -> Iterator[type]:
    if is_dataclass(hint):
        yield typing.cast(type, hint)
    for one in typing.get_args(hint):
        yield from _classes_in(one)


def _decode_dataclass(cls: type, value: Any, place: str, source: Encoded, decoded: dict[str, Any]) -> Any:
    hints = dict(_hints(cls))
    of_matrices = {name for name, hint in hints.items() if hint == _MATRIX}
    if not isinstance(value, dict):
        raise FormatError(f"{place} must be an object, got {_shown(value)}")
    named = cls in KINDS.values()
    if named and KINDS.get(str(value.get("kind"))) is not cls:
        raise FormatError(f"{place} has the wrong kind, got {_shown(value.get('kind'))}")
    absent = {field.name for field in fields(cls) if field.metadata and field.name not in value}
    besides = ({"kind"} if named else set()) | ({"sha256"} if issubclass(cls, CutLaw) else set())
    check_names(value, (set(hints) | besides) - of_matrices - absent, place)
    for name, hint in hints.items():
        if name in absent:
            continue
        own = f"{place}.{name}"
        if name in of_matrices:
            decoded[name] = _decode_matrix(source.matrices, own)
        else:
            decoded[name] = decode(hint, value[name], own, source)
    result = cls(**decoded)
    if any(field.name in decoded and is_left_out(field, decoded[field.name]) for field in fields(cls)):
        raise FormatError(f"{place} states a default, which must be left out")
    _refuse_invalid(result, place)
    if isinstance(result, CutLaw) and value["sha256"] != result.digest:
        raise FormatError(f"{place} does not give the masses that the release was made with")
    return result


def _refuse_invalid(value: object, place: str) -> None:
    try:
        wrong = next(value.faults(), None) if isinstance(value, Checked) else None
    except (ArithmeticError, ValueError) as error:
        wrong = str(error)
    if wrong is not None:
        raise FormatError(f"{place} is not a valid {type(value).__name__}: {wrong}")


@lru_cache(maxsize=64)
def _hints(cls: type) -> tuple[tuple[str, Any], ...]:
    hints = typing.get_type_hints(cls)
    return tuple((field.name, hints[field.name]) for field in fields(cls) if field.compare)


def _decode_matrix(matrices: Arrays, place: str) -> tuple[tuple[int, ...], ...]:
    array = matrices.pop(place, None)
    if array is None or array.ndim != 2 or array.dtype != np.uint64:
        raise FormatError(f"{place} must be a matrix of U64")
    if array.shape[0] > MOST_HEIGHT + 1 or array.shape[1] > 256:
        raise FormatError(f"{place} must have at most {MOST_HEIGHT + 1} rows of 256, got {array.shape}")
    return tuple(map(tuple, array.tolist()))


def _decode_scalar(hint: Any, value: Any, place: str) -> Any:
    decoded = _SCALARS[hint](value)
    if decoded is None:
        raise FormatError(f"{place} must be {hint.__name__}, got {_shown(value)}")
    return decoded


def _integer(value: Any) -> int | None:
    if type(value) is int:
        return value if _small_integer(value) else None
    if not _matches(r"-?[1-9][0-9]*", value):
        return None
    return int(value) if abs(int(value)) > LARGEST_JSON_INTEGER else None


def _small_integer(value: Any) -> bool:
    return type(value) is int and abs(value) <= LARGEST_JSON_INTEGER


def _fraction(value: Any) -> Fraction | None:
    exact = Fraction(value) if _matches(r"-?[0-9]+/[1-9][0-9]*", value) else None
    return exact if encode_scalar(exact) == value else None


def _decimal(value: Any) -> Decimal | None:
    if not _matches(r"[0-9.]{1,80}(E[-+][0-9]{1,2})?", value):
        return None
    with suppress(InvalidOperation):
        return Decimal(value)
    return None


def _matches(pattern: str, value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_DIGITS and re.fullmatch(pattern, value, re.ASCII) is not None


_SCALARS: dict[type, Callable[[Any], Any]] = {
    int: _integer,
    float: lambda value: float(value) if type(value) is float or _small_integer(value) else None,
    bool: lambda value: value if type(value) is bool else None,
    str: lambda value: value if type(value) is str else None,
    Fraction: _fraction,
    Decimal: _decimal,
}


def check_names(value: Any, names: set[str], place: str) -> None:
    """`FormatError` unless the object has exactly these names."""
    if not isinstance(value, dict) or set(value) != names:
        got = sorted(map(str, value)) if isinstance(value, dict) else type(value).__name__
        raise FormatError(f"{place} must have the fields {', '.join(sorted(names))}, got {_shown(got)}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
