"""The reader of `tight-alp`: stored keys from the table, all others from one cache line and a table
of patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from .. import _native
from .._util.lazy import cached_property
from ..errors import ParameterError
from ..keys.batches import Batch
from ..keys.kinds import KeyKind
from ..privacy.randomness import Words
from ..structures.decoding import ESTIMATORS, PRIORS, Floats
from ..structures.scale import PLAIN, Scale
from .fitted import FittedDecoder
from .reading import ESTIMATE, HIGH, LOW, Ask, Estimates, Parts, Reader, Single, Summed, tables_of
from .summing import Sums

if TYPE_CHECKING:
    from .tight_alp import TightAlpPlan

BALANCED, FITTED = "balanced", "fitted"


class PatternAnswers:
    """What the patterns of a release mean, each computed at first use and then kept."""

    def __init__(self, plan: TightAlpPlan, parts: Parts) -> None:
        self.plan, self._parts = plan.observed(parts), parts
        self.values = lru_cache(maxsize=8)(self._values)
        self.intervals = lru_cache(maxsize=8)(self._intervals)

    def _values(self, estimator: str, prior: str) -> Floats:
        own = prior == FITTED and estimator != "paper"
        return self._fitted.estimates(estimator, prior) if own else self.plan.answers(estimator, prior)

    def _intervals(self, failure: float, prior: str) -> tuple[Floats, Floats]:
        return self.plan.intervals(failure, self.values(ESTIMATORS[0], prior))

    @cached_property
    def _fitted(self) -> FittedDecoder:
        fit, rate = self.plan.fit(self._parts), float(self.plan.stage.noise.rate)
        return FittedDecoder(self.plan.blocks.ladder, self.plan.loads, fit.grid, fit.unstored, fit.law, rate=rate)

    @cached_property
    def sums(self) -> Sums:
        """What each pattern adds to a sum."""
        return Sums.of(self.plan, self._parts)


class PatternReader(Reader):
    """Stored keys from the table, all others from one cache line and a table of patterns."""

    estimators = ESTIMATORS
    plan: TightAlpPlan

    def __init__(self, plan: TightAlpPlan, parts: Parts, answers: PatternAnswers | None = None) -> None:
        self._answers = PatternAnswers(plan, parts) if answers is None else answers
        self.plan, self._arrays = self._answers.plan, parts
        self.priors = PRIORS if self.plan.published is None else (BALANCED, *PRIORS)
        self._answering = lru_cache(maxsize=8)(self._new_answering)
        self._fused = lru_cache(maxsize=8)(self._new_fused)

    def over(self, parts: Parts) -> Reader:
        return PatternReader(self.plan, parts, self._answers)

    def check(self, estimator: str | None, prior: str | None) -> tuple[str, str]:
        """Balanced answers are not estimates from a posterior, so they have no mean."""
        if prior is None and isinstance(estimator, str) and estimator != ESTIMATORS[0]:
            prior = PRIORS[0]
        chosen, prior = super().check(estimator, prior)
        if prior == BALANCED and chosen != ESTIMATORS[0]:
            raise ParameterError(f"prior {BALANCED!r} has only the estimator {ESTIMATORS[0]!r}, got {chosen!r}")
        return chosen, prior

    @cached_property
    def _tables(self) -> list[_native.Table]:
        return [table.index for table in tables_of(self._arrays)]

    @cached_property
    def _blocks(self) -> list[Words]:
        return [arrays["embedding.blocks"] for arrays in self._arrays]

    def _reader(
        self, values: Floats, factor: float = 1.0, offsets: Sequence[float] = (0.0,), scale: Scale = PLAIN
    ) -> _native.BlockReader:
        seeds = self._arrays[0]["embedding.seeds"]
        return self.plan.blocks.reader(self._tables, self._blocks, seeds, values, factor, offsets, scale)

    def _new_answering(self, estimator: str, prior: str, scale: Scale) -> _native.BlockReader:
        return self._reader(scale.apply(self._answers.values(estimator, prior).copy()), scale=scale)

    def estimate(self, ids: Words, estimator: str, prior: str) -> Estimates:
        return self.on_scale(ids, estimator, prior, PLAIN)

    def on_scale(self, keys: Batch, estimator: str, prior: str, scale: Scale) -> Estimates:
        return self._answering(estimator, prior, scale).read(keys)

    def estimate_one(self, id: int) -> float:
        return self._answering(*self.check(None, None), PLAIN).read_one(id)

    def single(self, seed: tuple[int, int], kind: KeyKind | None, scale: Scale) -> Single:
        return _native.Single(self._answering(*self.check(None, None), scale), *seed, kind or "any")

    def sum(self, ids: Words) -> Summed:
        own, noise = self._answers.sums, self.plan.stage.noise.variance_of_draws
        total = self._reader(own.each.values).read(ids).sum()
        found = self._reader(own.besides, 0.0, (noise, 0.0, 0.0)).read_all(ids)
        variance, bias, unstored = (float(each.sum()) for each in found)
        return own.summed(len(ids), round(unstored), float(total), variance, bias)

    def interval(self, ids: Words, failure: float, prior: str) -> tuple[Estimates, Estimates]:
        """From the law of the noise for stored keys, from the posterior for all others."""
        low, high = self.answers(ids, Ask((LOW, HIGH), failure, prior))
        return low, high

    def fused(self, ask: Ask) -> _native.BlockReader:
        return self._fused(ask)

    def _new_fused(self, ask: Ask) -> _native.BlockReader:
        chosen, prior = self.check(None, ask.prior)
        noise = self.plan.stage.noise.exceeded_with(ask.failure) + ask.margin
        patterns, offsets = {ESTIMATE: self._answers.values(chosen, prior)}, {ESTIMATE: 0.0, LOW: -noise, HIGH: noise}
        if ask.wanted != (ESTIMATE,):
            below, above = self._answers.intervals(ask.failure, prior)
            patterns |= {LOW: below - ask.margin, HIGH: above + ask.margin}
        values = ask.scale.apply(np.stack([patterns[name] for name in ask.wanted], axis=1))
        return self._reader(values, 1.0, [offsets[name] for name in ask.wanted], ask.scale)
