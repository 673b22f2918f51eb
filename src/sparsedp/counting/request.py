"""The parameters of a count: the columns, and how much one user may contribute; for DuckDB and for
Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, cast

from .._util.lazy import cached_property
from ..errors import ParameterError
from ..keys.hashing import HASHED_DOMAIN
from ..keys.kinds import COLUMN_KINDS, MOST_COLUMNS, NAMES_IN_WORDS, is_name
from ..planning.request import checked_step
from ..privacy.contributions import Contribution
from ..privacy.neighbours import shown
from ..privacy.numbers import check_flag, positive_fraction, whole_number
from ..structures.table import LARGEST_COUNT
from .files import Reading
from .scans import case_twin

AUTO = "auto"  # max_keys_per_user that `suggest` chooses
KEY_TYPES = ("as stored", *COLUMN_KINDS)

# A real contribution is cut to whole multiples of step/2^20, so that sums are exact and distances
# are as stated.
UNITS_PER_STEP = 1 << 20


@dataclass(frozen=True)
class Counting:
    """The parameters of `count` as given; their meaning is documented there."""

    key: str | Sequence[str]
    user: str | None = None
    value: str | None = None
    max_keys_per_user: int | str | None = None
    max_per_key: float | Fraction = 1
    step: float | Fraction | None = None
    signed: bool = False
    key_type: str | Sequence[str] = "as stored"
    nulls: str = "refuse"
    domain: int | None = None
    memory_limit: str | None = None
    delimiter: str | None = None
    quote: str | None = None
    encoding: str | None = None
    hive: bool = False

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Counting:
        """The request from a function's arguments, by name; anything that is not a parameter is
        left out.
        """
        known = {own.name for own in fields(cls)}
        return cls(**{name: value for name, value in arguments.items() if name in known})

    def __post_init__(self) -> None:
        if not isinstance(self.nulls, str) or self.nulls not in ("refuse", "drop"):
            raise ParameterError(f"nulls must be 'refuse' or 'drop', got {self.nulls!r}")
        check_flag("signed", self.signed)
        _ = self.contribution, self.reading, self.keys, self.key_types  # computing them checks them
        if self.domain is not None and not 1 <= whole_number("domain", self.domain) <= HASHED_DOMAIN:
            raise ParameterError(f"domain must be in 1..2^64, got {self.domain}")
        if self.domain is not None and len(self.keys) > 1:
            raise ParameterError(f"domain is for keys of one column of integers, got {len(self.keys)} columns; omit it")
        for role in ("user", "value"):
            name = getattr(self, role)
            if name is not None and (not isinstance(name, str) or not name):
                raise ParameterError(f"{role} must be the name of a column, got {name!r}")
        for name in self.columns:
            if twin := case_twin(name, self.columns):
                raise ParameterError(
                    f"columns must differ by more than case, which databases ignore, got {name!r} and {twin!r}; rename "
                    "one of them"
                )

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The names of the columns of the key, or `ParameterError`."""
        names = tuple(self.key) if isinstance(self.key, (list, tuple)) else (self.key,)
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ParameterError(f"key must be the name of a column, or a list of such names, got {self.key!r}")
        if len(set(names)) < len(names):
            raise ParameterError(f"key must name every column once, got {', '.join(map(str, names))}")
        if not all(map(is_name, names)):
            raise ParameterError(f"columns of the key must have names of {NAMES_IN_WORDS}; rename them")
        if len(names) > MOST_COLUMNS:
            raise ParameterError(f"key must have at most {MOST_COLUMNS} columns, got {len(names)}")
        return tuple(map(str, names))

    @cached_property
    def key_types(self) -> tuple[str, ...]:
        """How each column of the key is read, or `ParameterError`."""
        several = isinstance(self.key_type, (list, tuple))
        types = tuple(map(str, self.key_type)) if several else (str(self.key_type),) * len(self.keys)
        if not set(types) <= set(KEY_TYPES) or len(types) != len(self.keys):
            count = "" if len(self.keys) == 1 else f", or a list of {len(self.keys)} of them, one for each column"
            names = ", ".join(map(repr, KEY_TYPES))
            raise ParameterError(f"key_type must be one of {names}{count}, got {self.key_type!r}")
        if types == ("boolean",):
            raise ParameterError(
                "key_type 'boolean' is for keys of several columns, as truth values are keys only beside other "
                "columns; pass key_type='text', or name another column beside it"
            )
        return types

    @cached_property
    def contribution(self) -> Contribution:
        """What one user may contribute, or `ParameterError`."""
        user, value, max_keys = self.user, self.value, self.max_keys_per_user
        per_key = positive_fraction("max_per_key", self.max_per_key)
        if self.step is None and per_key.denominator != 1:
            raise ParameterError(
                f"max_per_key must be a whole number, got {self.max_per_key}; pass step= for real values"
            )
        if self.step is not None and value is None:
            raise ParameterError("step is for sums of a value column; pass value=, or omit step=")
        if self.signed and value is None:
            raise ParameterError(
                "signed is for sums of a value column, as numbers of rows are never negative; pass value=, or omit "
                "signed="
            )
        if per_key > LARGEST_COUNT * self.unit:
            most = "2^61" if self.step is None else "2^41 steps"
            raise ParameterError(f"max_per_key must be at most {most}, as counts are, got {shown(per_key)}")
        if user is None:
            if max_keys not in (None, 1):
                raise ParameterError(
                    f"max_keys_per_user needs user=: without it every row is a separate user, got {max_keys}"
                )
            if value is None and per_key != 1:
                raise ParameterError(f"max_per_key needs user= or value=: a row counts once, got {self.max_per_key}")
            return Contribution(1, per_key, None)
        if max_keys is None:
            raise ParameterError(
                "max_keys_per_user must be given: how many different keys may one user contribute to? "
                "10 or 20 is typical; suggest chooses a number privately"
            )
        if max_keys == AUTO:
            raise ParameterError("max_keys_per_user must be a number here; suggest() chooses one, and spends ε on it")
        if (keys := whole_number("max_keys_per_user", cast(int, max_keys))) > LARGEST_COUNT:
            raise ParameterError(f"max_keys_per_user must be at most 2^61, got {shown(Fraction(keys))}")
        return Contribution(keys, per_key, user)

    @property
    def bounds(self) -> dict[str, Any]:
        """What a request for a release gets from this one, in place of bounds of its own."""
        own = self.contribution
        return {
            "contribution": own,
            "sensitivity": own.total,
            "max_keys_per_user": None,
            "max_per_key": None,
        }

    @cached_property
    def grid(self) -> Fraction | None:
        """The grid on which sums of real values will be released."""
        return None if self.step is None else checked_step(self.step)

    @property
    def unit(self) -> Fraction:
        """The value of one unit of the summed integers."""
        return Fraction(1) if self.grid is None else self.grid / UNITS_PER_STEP

    @property
    def most_units(self) -> int:
        """The most that a user may contribute to a key, in units."""
        return int(self.contribution.per_key / self.unit)

    @property
    def drop(self) -> bool:
        """Whether rows without key, user or value are dropped rather than refused."""
        return self.nulls == "drop"

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read."""
        names = [*self.keys, *(name for name in (self.user, self.value) if name is not None)]
        return list(dict.fromkeys(names))

    @cached_property
    def reading(self) -> Reading:
        """How files are read."""
        if self.encoding == "":
            raise ParameterError("encoding must be 'utf-8', 'utf-16' or 'latin-1', got ''; omit it for utf-8")
        return Reading(self.delimiter, self.quote, self.encoding, check_flag("hive", self.hive))
