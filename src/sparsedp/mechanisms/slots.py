"""Answers from the slots of `retrieval`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .. import _native
from .._util.lazy import cached_property
from ..errors import ParameterError
from ..keys.batches import Batch
from ..keys.hashing import Partition
from ..keys.kinds import KeyKind
from ..privacy.randomness import Words
from ..structures.scale import PLAIN, Scale
from .fitted import LEAST_STORED, Posterior, posterior_of_noisy
from .partial import length_of
from .reading import ESTIMATE, HIGH, LOW, Ask, Estimates, Parts, Reader, Single, Summed, tables_of

if TYPE_CHECKING:
    from .retrieval import RetrievalPlan


class SlotFit:
    """What the tables of all parts show about the counts of keys."""

    def __init__(self, plan: RetrievalPlan, parts: Parts) -> None:
        self._plan, self._parts = plan, parts
        self.enough = sum(length_of(arrays, "table.ids") for arrays in parts) >= LEAST_STORED

    @cached_property
    def medians(self) -> Estimates:
        """The answers for noisy values from 0 on."""
        return self._posterior.medians

    @cached_property
    def _posterior(self) -> Posterior:
        values = np.concatenate([arrays["table.values"] for arrays in self._parts])
        problem, buckets = self._plan.problem, self._plan.buckets
        keys = float(problem.entries or 1) if problem.sizing_noise is None else None
        return posterior_of_noisy(problem, buckets, np.abs(values), keys)


class SlotReader(Reader):
    """Stored keys from the table, all others from the buckets that the XORs of their slots fall
    into.

    The prior "flat" gives the noisy values themselves, which are right on average. "fitted" gives
    what they show about a key, given the table; it equals "flat" if hardly anything is stored. If
    the array is empty, all that is known of other keys is that they are not stored, with any prior.
    """

    priors = ("flat", "fitted")
    plan: RetrievalPlan

    def __init__(self, plan: RetrievalPlan, parts: Parts, fit: SlotFit | None = None) -> None:
        self.plan, self._parts = plan.observed(parts), parts
        self._fit = SlotFit(plan, parts) if fit is None else fit
        self._seeds = [arrays["retrieval.seed"] for arrays in parts]
        self._filled = np.array(plan.filled_parts(parts))
        self._lasts = np.array([end - 1 for end in plan.buckets.ends], np.uint64)
        self._noisy = np.arange(plan.buckets.lowest, plan.buckets.threshold)
        self._answering = lru_cache(maxsize=8)(self._new_answering)
        self._fused = lru_cache(maxsize=8)(self._new_fused)

    def over(self, parts: Parts) -> Reader:
        return SlotReader(self.plan, parts, self._fit)

    @cached_property
    def _tables(self) -> list[_native.Table]:
        return [table.index for table in tables_of(self._parts)]

    @cached_property
    def _packed(self) -> list[npt.NDArray[np.uint8]]:
        return [arrays["retrieval.slots"] for arrays in self._parts]

    @property
    def _both_signs(self) -> bool:
        """Whether negative counts are in the same array."""
        return self.plan.problem.signed and self.plan.releases == 1

    def _new_answering(self, fitted: bool, scale: Scale) -> _native.SlotReader:
        values = self._of_buckets(self._fit.medians) if fitted else self._noisy.astype(np.float64)
        return self._reader(values, (0.0,), scale)

    def _reader(self, values: Estimates, offsets: Sequence[float], scale: Scale) -> _native.SlotReader:
        hashed = self.plan.problem.hashed
        return self.plan.system.reader(
            self._tables, self._packed, self._seeds, hashed, self._lasts, scale.apply(values), offsets, scale
        )

    def estimate(self, ids: Words, estimator: str, prior: str) -> Estimates:
        answers = self._answering(self._is_fitted(prior), PLAIN).read(ids)
        return self._where_empty(ids, answers, 0.0, 0.0)

    def on_scale(self, keys: Batch, estimator: str, prior: str, scale: Scale) -> Estimates:
        if not self.plan.filled:
            return super().on_scale(keys, estimator, prior, scale)
        return self._answering(self._is_fitted(prior), scale).read(keys)

    def estimate_one(self, id: int) -> float:
        if self.plan.filled:
            return self._answering(False, PLAIN).read_one(id)
        return float(self.estimate(np.array([id], np.uint64), *self.check(None, self.priors[0]))[0])

    def single(self, seed: tuple[int, int], kind: KeyKind | None, scale: Scale) -> Single:
        if not self.plan.filled:
            return super().single(seed, kind, scale)
        return _native.Single(self._answering(False, scale), *seed, kind or "any")

    def interval(self, ids: Words, failure: float, prior: str) -> tuple[Estimates, Estimates]:
        """From the law of the noise, whatever the prior; the interval contains the answer.

        If nothing else is known of a key, its count + noise is below the threshold.
        """
        low, high = self._around(ids, self._answering(False, PLAIN).read(ids), failure)
        if self._is_fitted(prior):
            answers = self.estimate(ids, self.estimators[0], prior)
            low, high = np.minimum(low, answers), np.maximum(high, answers)
        return low, high

    def fused(self, ask: Ask) -> _native.SlotReader | None:
        return self._fused(ask) if self.plan.filled and not self._is_fitted(ask.prior) else None

    def _new_fused(self, ask: Ask) -> _native.SlotReader:
        noise = self.plan.noise.exceeded_with(ask.failure) + ask.margin
        offsets = {ESTIMATE: 0.0, LOW: -noise, HIGH: noise}
        wanted = [offsets[name] for name in ask.wanted]
        return self._reader(np.add.outer(self._noisy, wanted), wanted, ask.scale)

    def _around(self, ids: Words, values: Estimates, failure: float) -> tuple[Estimates, Estimates]:
        noise = self.plan.noise.exceeded_with(failure)
        highest = self.plan.buckets.threshold - 1 + noise
        lowest = -highest if self._both_signs else 0.0
        low = self._where_empty(ids, values - noise, -noise, lowest)
        return low, self._where_empty(ids, values + noise, noise, highest)

    def sum(self, ids: Words) -> Summed:
        if self.plan.overload is not None:
            raise ParameterError(f"there is nothing unbiased to sum: {self.plan.overload}")
        return super().sum(ids)

    def _where_empty(self, ids: Words, answers: Estimates, offset: float, unstored: float) -> Estimates:
        """The answers; for parts whose array is empty, those that the table alone gives."""
        if not self.plan.filled:
            problem = self.plan.problem
            empty = ~self._filled[Partition(problem.parts, problem.hashed).part_of(ids)]
            table = _native.TableReader(self._tables, problem.hashed, np.array([unstored]), 1.0, [offset])
            answers[empty] = table.read(ids[empty])
        return answers

    def _is_fitted(self, prior: str) -> bool:
        return prior == "fitted" and self._fit.enough

    def _of_buckets(self, answers: Estimates) -> Estimates:
        """The answers for all buckets, from those for noisy values from 0 on."""
        if self._both_signs:
            return np.where(self._noisy < 0, -1.0, 1.0) * answers[np.abs(self._noisy)] + 0.0  # and no -0
        return answers[np.maximum(self._noisy, 0)]
