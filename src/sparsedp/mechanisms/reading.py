"""Readers, which answer lookups from the published arrays of one release of non-negative counts, in
cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _native
from ..errors import ParameterError
from ..keys.batches import Batch, ids_of
from ..keys.kinds import KeyKind
from ..privacy.randomness import Words
from ..structures.scale import PLAIN, Scale
from ..structures.table import Table

if TYPE_CHECKING:
    from .base import Plan

Arrays: TypeAlias = dict[str, np.ndarray]
# Of one release of non-negative counts: each answers for its share of the keys.
Parts: TypeAlias = tuple[Mapping[str, np.ndarray], ...]
Estimates: TypeAlias = npt.NDArray[np.float64]


Single: TypeAlias = Callable[[object], float | None]

WANTED = ESTIMATE, LOW, HIGH = "estimate", "low", "high"


def _no_shortcut(key: object) -> None:
    return None


class Summed(NamedTuple):
    """A sum of estimates, its variance, and a bound on its bias."""

    total: float
    variance: float
    bias: float = 0.0


class Ask(NamedTuple):
    """What is asked of each key, at once."""

    wanted: tuple[str, ...]  # some of WANTED
    failure: float  # how probably a bound may miss the true count
    prior: str
    margin: float = 0.0  # cells by which bounds are moved apart
    scale: Scale = PLAIN


class Reader(ABC):
    """Answers lookups from the parts of one release of non-negative counts, in cells and unclamped."""

    estimators: ClassVar[tuple[str, ...]] = ("paper",)  # the first is the default
    priors: tuple[str, ...] = ("flat",)
    plan: Plan

    @abstractmethod
    def estimate(self, ids: Words, estimator: str, prior: str) -> Estimates:
        """The estimates of many ids, in a new array."""

    @abstractmethod
    def estimate_one(self, id: int) -> float:
        """The default estimate of one id."""

    def on_scale(self, keys: Batch, estimator: str, prior: str, scale: Scale) -> Estimates:
        """The estimates of many keys on a scale."""
        return scale.apply(self.estimate(ids_of(keys), estimator, prior))

    def single(self, seed: tuple[int, int], kind: KeyKind | None, scale: Scale) -> Single:
        """The default estimate of one key on a scale; None for what is not a key of that kind, and
        for mechanisms that have no faster way than `estimate_one`.
        """
        return _no_shortcut

    @abstractmethod
    def over(self, parts: Parts) -> Reader:
        """The same reader for arrays that hold only what some ids need. What it knows of the release
        as a whole (loads, a fitted prior) stays.
        """

    def check(self, estimator: str | None, prior: str | None) -> tuple[str, str]:
        """The estimator and the prior, each by default the first; `ParameterError` lists those of
        the mechanism.
        """
        name = self.plan.mechanism
        if estimator is not None and not (isinstance(estimator, str) and estimator in self.estimators):
            known = ", ".join(map(repr, self.estimators))
            raise ParameterError(f"estimator of mechanism {name!r} must be one of {known}, got {estimator!r}")
        if prior is not None and not (isinstance(prior, str) and prior in self.priors):
            known = ", ".join(map(repr, self.priors))
            raise ParameterError(f"prior of mechanism {name!r} must be one of {known}, got {prior!r}")
        return estimator or self.estimators[0], prior or self.priors[0]

    def interval(self, ids: Words, failure: float, prior: str) -> tuple[Estimates, Estimates]:
        """Bounds that each miss their true count with probability at most `failure`."""
        estimates = self.estimate(ids, self.estimators[0], prior)
        error = self.plan.error_with_probability_cells(failure)
        return estimates - error, estimates + error

    def fused(self, ask: Ask) -> _native.Reader | None:
        """A kernel that answers all of this from keys, reading the memory of a release once; None
        for mechanisms that have none.
        """
        return None

    def answers(self, keys: Batch, ask: Ask) -> list[Estimates]:
        """The default estimates, or bounds on the true counts, or several of these, in new arrays."""
        fused = self.fused(ask)
        if fused is not None:
            return fused.read_all(keys)
        ids, found = ids_of(keys), {}
        if ESTIMATE in ask.wanted:
            found[ESTIMATE] = self.estimate(ids, *self.check(None, ask.prior))
        if LOW in ask.wanted or HIGH in ask.wanted:
            low, high = self.interval(ids, ask.failure, ask.prior)
            found |= {LOW: low - ask.margin, HIGH: high + ask.margin}
        return [ask.scale.apply(found[name]) for name in ask.wanted]

    def sum(self, ids: Words) -> Summed:
        """The sum of estimates that are right on average, or nearly."""
        variance = self.plan.noise_variance
        if variance is None:
            raise ParameterError(f"mechanism {self.plan.mechanism!r} has no unbiased estimates to sum")
        return Summed(float(self.estimate(ids, self.estimators[0], self.priors[0]).sum()), len(ids) * variance)


class ArrayReader(Reader):
    """A reader that needs only a function of the arrays and the ids."""

    def __init__(
        self, plan: Plan, parts: Parts, estimate: Callable[[Mapping[str, np.ndarray], Words], Estimates]
    ) -> None:
        self.plan = plan
        (self._arrays,) = parts
        self._estimate = estimate

    def over(self, parts: Parts) -> Reader:
        return ArrayReader(self.plan, parts, self._estimate)

    def estimate(self, ids: Words, estimator: str, prior: str) -> Estimates:
        return self._estimate(self._arrays, ids)

    def estimate_one(self, id: int) -> float:
        return float(self._estimate(self._arrays, np.array([id], np.uint64))[0])


def tables_of(parts: Parts) -> list[Table]:
    """The explicitly stored pairs of each part, if the mechanism has any."""
    return [Table(arrays["table.ids"], arrays["table.values"]) for arrays in parts if "table.ids" in arrays]
