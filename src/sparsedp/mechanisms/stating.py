"""What a plan says of itself: its fields as JSON, with every number exact (docs/format.md, "The
plan"). Files hold this, and `format/codec.py` reads it back.
"""

from __future__ import annotations

from dataclasses import Field, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ..privacy.cut_laws import CutGaussian, CutGeometric, CutLaw
from ..structures.ladder import Ladder
from ..structures.thresholds import GaussianStage, PureStage, StableStage
from .reading import Arrays

# Classes between which a field may choose. Without a kind, it has the class that is not among them.
KINDS: dict[str, type] = {
    "pure": PureStage,
    "stable": StableStage,
    "geometric": CutGeometric,
    "gaussian": CutGaussian,
    "gaussian names": GaussianStage,
}
LARGEST_JSON_INTEGER = (1 << 53) - 1


def encode(value: Any, place: str, matrices: Arrays) -> Any:
    """The value as JSON; matrices of integers are put into `matrices` under their place."""
    if isinstance(value, Ladder) and value.recipe is not None:
        return {"recipe": encode(value.recipe, f"{place}.recipe", matrices), "sha256": value.digest}
    if is_dataclass(value) and not isinstance(value, type):
        kind = [name for name, cls in KINDS.items() if type(value) is cls]
        encoded: dict[str, Any] = {"kind": kind[0]} if kind else {}
        for field in fields(value):
            if field.compare and not is_left_out(field, getattr(value, field.name)):  # others are derived
                encoded[field.name] = encode(getattr(value, field.name), f"{place}.{field.name}", matrices)
        if isinstance(value, CutLaw):
            encoded["sha256"] = value.digest
        return {name: item for name, item in encoded.items() if item is not _IN_MATRICES}
    if isinstance(value, tuple):
        if value and isinstance(value[0], tuple):
            matrices[place] = np.array(value, np.uint64)
            return _IN_MATRICES
        return [encode(item, f"{place}.{at}", matrices) for at, item in enumerate(value)]
    return encode_scalar(value)


_IN_MATRICES = object()


def is_left_out(field: Field[Any], value: Any) -> bool:
    """Whether a file leaves the field out: it is newer than the first files, and has its default."""
    return bool(field.metadata) and value == field.default


def encode_scalar(value: Any) -> Any:
    """A number, text, truth value or None as JSON."""
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, int) and abs(value) > LARGEST_JSON_INTEGER:
        return str(value)
    return value
