"""The request: every public parameter of a release, checked once.

`release`, `plan`, `compare`, Spark and the command line all turn their arguments into a `Request`.
Parameters are checked here, before any data is read; their meaning is documented at `release`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any

from .._util.lazy import cached_property
from ..errors import ParameterError
from ..keys.hashing import HASHED_DOMAIN
from ..mechanisms import MECHANISMS, Problem
from ..mechanisms.problem import GAUSSIAN, MOST_PARTS, NOISES
from ..privacy.contributions import BoundedCounts, Contribution
from ..privacy.neighbours import Neighbours, shown
from ..privacy.numbers import check_delta, check_epsilon, check_flag, positive_fraction, whole_number
from ..structures.table import LARGEST_COUNT

# The most that counts can add up to: 2^64 keys with the largest count. And a share of ε below which
# the size would be estimated with noise of millions of keys.
MOST_TOTAL, LEAST_SHARE = (HASHED_DOMAIN * LARGEST_COUNT), 1e-6
KEPT_INTEGERS = "keep_keys is for hashed keys; integers of a domain are stored as they are anyway"


@dataclass(frozen=True)
class Request:
    """The public parameters as given; `problem` is what follows from them."""

    epsilon: float
    delta: float = 0.0
    mechanism: str = "auto"
    nonzero: int | None = None
    total: float | None = None
    upper: float | None = None
    domain: int | None = None
    sensitivity: float | Fraction | None = None
    step: float | Fraction | None = None
    signed: bool = False
    parts: int = 1
    keep_keys: bool = False
    sizing_share: float | None = None
    noise: str = "auto"
    max_keys_per_user: int | None = None
    max_per_key: float | Fraction | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    contribution: Contribution | None = None  # of counts that carry one

    @classmethod
    def of(cls, arguments: Mapping[str, Any], counts: BoundedCounts | None = None) -> Request:
        """The request from a function's arguments, by name; anything that is not a parameter is
        left out.

        Counts that carry their bounds bring them along.
        """
        known = {own.name for own in fields(cls)}
        asked = {name: value for name, value in arguments.items() if name in known}
        return cls(**asked if counts is None else asked | _as_counted(counts, asked))

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, str):
            names = ", ".join(MECHANISMS)
            raise ParameterError(f"there is no mechanism {self.mechanism!r:.250}; choose one of {names}")
        if not isinstance(self.noise, str) or self.noise not in ("auto", *NOISES):
            raise ParameterError(f"noise must be 'auto', 'geometric' or 'gaussian', got {self.noise!r}")
        check_flag("signed", self.signed)
        check_flag("keep_keys", self.keep_keys)
        declared = {option.name for mechanism in MECHANISMS.values() for option in mechanism.options}
        parameters = {own.name for own in fields(self)} - {"options", "contribution"}
        for name in self.options.keys() - declared:
            what = f"mechanism {self.mechanism!r} has no option {name!r}"
            if name in parameters:
                raise ParameterError(f"{what}, and this function does not take {name}")
            if near := difflib.get_close_matches(name, parameters, n=1, cutoff=0.7):
                raise ParameterError(f"{what}; did you mean {near[0]!r}?")
        _ = self.problem  # computing it checks it

    @cached_property
    def share(self) -> float | None:
        """The share of ε for an estimated size, or None for the mechanism's default."""
        if self.sizing_share is None:
            return None
        if positive_fraction("sizing_share", self.sizing_share) >= 1:
            raise ParameterError(f"sizing_share must be in (0, 1), got {self.sizing_share}")
        if self.sizing_share < LEAST_SHARE:
            raise ParameterError(
                f"sizing_share must be at least {LEAST_SHARE:g}, got {self.sizing_share}: a smaller share would "
                "estimate a size of many millions of keys"
            )
        return float(self.sizing_share)

    @cached_property
    def problem(self) -> Problem:
        """The parameters in the form that mechanisms take, or `ParameterError`."""
        epsilon, delta, _ = check_epsilon(self.epsilon), check_delta(self.delta), self.share
        neighbours, contribution = self._neighbours, self._contribution
        neighbours.check_spendable(epsilon)
        if self.noise == GAUSSIAN and delta == 0:
            raise ParameterError(
                "gaussian noise needs delta > 0; use noise='geometric', or a delta far below 1 / users"
            )
        if self.domain is not None and not 1 <= whole_number("domain", self.domain) <= HASHED_DOMAIN:
            raise ParameterError(f"domain must be in 1..2^64, got {self.domain}")
        if self.nonzero is not None and whole_number("nonzero", self.nonzero) > HASHED_DOMAIN:
            raise ParameterError(f"nonzero must be in 1..2^64, got {self.nonzero}")
        if not 1 <= whole_number("parts", self.parts) <= MOST_PARTS:
            raise ParameterError(f"parts must be in 1..{MOST_PARTS}, got {self.parts}")
        if self.keep_keys and self.domain is not None:
            raise ParameterError(KEPT_INTEGERS)
        if self.keep_keys and delta == 0:
            raise ParameterError(
                "keep_keys needs delta > 0: under pure privacy keys that never occurred are stored too"
            )
        return Problem(
            epsilon=epsilon,
            delta=delta,
            neighbours=neighbours,
            domain=HASHED_DOMAIN if self.domain is None else int(self.domain),
            hashed=self.domain is None,
            nonzero=None if self.nonzero is None else int(self.nonzero),
            total=None if self.total is None else _checked_total(self.total, neighbours.step),
            upper=None if self.upper is None else positive_fraction("upper", self.upper),
            signed=bool(self.signed),
            contribution=contribution,
            parts=int(self.parts),
            keep_keys=bool(self.keep_keys),
        )

    @property
    def _contribution(self) -> Contribution | None:
        """What a user may change: as counted, or as stated beside counts that a caller bounded."""
        if self.max_keys_per_user is None and self.max_per_key is None:
            return self.contribution
        keys = 1 if self.max_keys_per_user is None else whole_number("max_keys_per_user", self.max_keys_per_user)
        per_key = Fraction(1) if self.max_per_key is None else positive_fraction("max_per_key", self.max_per_key)
        if keys < 1:
            raise ParameterError(f"max_keys_per_user must be at least 1, got {self.max_keys_per_user}")
        own = self.contribution
        if own is None:
            return Contribution(keys, per_key, stated=True)
        if (keys, per_key) != (own.keys, own.per_key):
            raise ParameterError(f"the counts were made for other bounds ({own}); pass bounds to count() only")
        return own

    @property
    def _neighbours(self) -> Neighbours:
        cell = Fraction(1) if self.step is None else checked_step(self.step)
        user = None if self.contribution is not None else self._contribution
        stated: float | Fraction = 1 if self.sensitivity is None else self.sensitivity
        if user is not None:
            if self.sensitivity is not None and Fraction(self.sensitivity) != user.total:
                raise ParameterError(
                    f"sensitivity follows from max_keys_per_user and max_per_key ({float(user.total):g}), got "
                    f"{self.sensitivity}; leave it out"
                )
            stated = user.total
        distance = positive_fraction("sensitivity", stated)
        if self.step is None and distance < 1:
            raise ParameterError(f"sensitivity must be at least 1 (one count), got {stated}")
        return Neighbours(distance, cell, real=self.step is not None)

    def covers(self, contribution: Contribution, step: Fraction | None, signed: bool) -> bool:
        """Whether the request promises no more than the bounds that counts were made with allow."""
        neighbours = self.problem.neighbours
        grid = neighbours.step if neighbours.real else None
        near = contribution.total <= neighbours.sensitivity
        return near and grid == step and (self.problem.signed or not signed)


def checked_step(step: float | Fraction) -> Fraction:
    """The grid of real values, or `ParameterError`."""
    cell = positive_fraction("step", step)
    if max(cell.numerator, cell.denominator) >= 1 << 53:
        raise ParameterError(f"step must be a ratio of integers below 2^53, got {step}; use a rounder one")
    return cell


def _checked_total(total: float, step: Fraction) -> Fraction:
    bound = positive_fraction("total", total)
    if bound > MOST_TOTAL * step:
        unit = "" if step == 1 else f" steps of {shown(step)}"
        raise ParameterError(
            f"total must be at most 2^125{unit}, the most that counts can add up to, got {shown(bound)}; omit total= "
            "to have the size estimated"
        )
    return bound


def _as_counted(counts: BoundedCounts, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds that the counts were made with; the other parameters must not promise more
    privacy.
    """
    bound, sensitivity, step = counts.contribution.total, asked["sensitivity"], asked["step"]
    if sensitivity is not None and positive_fraction("sensitivity", sensitivity) < bound:
        least = f"at least {float(bound):g}, which one user may change ({counts.contribution})"
        raise ParameterError(f"sensitivity must be {least}, got {sensitivity}")
    left = counts.left_epsilon
    if left is not None and asked["epsilon"] > left:
        raise ParameterError(
            f"epsilon must be at most {left:.4g}, what max_keys_per_user='auto' left of the ε that count() was given "
            f"(counts.left_epsilon), got {asked['epsilon']}"
        )
    if step is not None and (counts.step is None or positive_fraction("step", step) != counts.step):
        raise ParameterError(f"step must be that of the counts ({counts.step}), got {step}; pass it to count() only")
    return {
        "contribution": counts.contribution,
        "sensitivity": max(bound, Fraction(sensitivity or 0)),
        "step": counts.step,
        "signed": asked["signed"] or counts.signed,
    }
