"""`release()` builds a release; a `Release` answers for any key."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import ParameterError
from .hashing import Key, KeySpace
from .inputs import CountsLike, check_domain, cut, key_ids, read_pairs, to_cells
from .mechanisms import Arrays, Plan, Problem, Reader, create_plan, mechanism_named
from .planning import SIZING_SHARE, Sizing, check_sizing_share, make_problem, resolve_mechanism
from .randomness import Randomness, Words, fresh_randomness
from .table import Counts, add_noise

Floats = npt.NDArray[np.float64]


class Stored(NamedTuple):
    """The explicitly stored keys, ascending, and their noisy values.

    Keys are integers of the domain, or 64-bit fingerprints when keys are hashed.
    """

    keys: Words
    values: Floats


class Sum(NamedTuple):
    """A sum over keys and its standard error."""

    total: float
    standard_error: float


@dataclass(frozen=True, repr=False)
class Release:
    """A differentially private sparse vector: everything in it may be published."""

    plan: Plan
    key_space: KeySpace
    parts: tuple[Arrays, ...]  # the counts, and for signed values a second release of their negatives
    reproducible: bool

    @property
    def epsilon(self) -> float:
        """The exact ε that was spent, rounded up."""
        return self.plan.epsilon

    @property
    def delta(self) -> float:
        """The exact δ that was spent, rounded up."""
        return self.plan.delta

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        return self.plan.mechanism

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for part in self.parts for array in part.values())

    def __getitem__(self, key: Key) -> float:
        return float(self._estimates(np.array([self.key_space.id(key)], np.uint64), None, "flat", clamp=True)[0])

    def lookup(self, keys: object, *, estimator: str | None = None, prior: str = "flat", clamp: bool = True) -> Floats:
        """Estimates for many keys at once: a list, a NumPy array, an Arrow, pandas or polars column.

        `tight-alp` has the estimators "median" (its default), "mean" and "paper" (the average of all maximisers), and
        next to the "flat" prior one that is "fitted" to the release, for when the asked keys mostly exist and are
        small. The other mechanisms have "paper" and "flat" only. `clamp` cuts estimates to [0, upper].
        """
        return self._estimates(self.key_space.ids(keys), estimator, prior, clamp)

    def interval(self, keys: object, confidence: float = 0.95, *, prior: str = "flat") -> tuple[Floats, Floats]:
        """Bounds (low, high) that each cover their true value with the given confidence.

        `tight-alp` gives credible intervals, the other mechanisms the guaranteed bounds of the paper.
        """
        if not 0 < confidence < 1:
            raise ParameterError(f"confidence must be in (0, 1), got {confidence}")
        ids = self.key_space.ids(keys)
        failure = (1 - confidence) / len(self.parts)
        bounds = [reader.interval(ids, failure, reader.check(None, prior)[1]) for reader in self._readers]
        low, high = bounds[0]
        if len(bounds) == 2:
            low, high = low - bounds[1][1], high - bounds[1][0]
        if self.plan.problem.neighbours.real:  # values were rounded to a neighbouring cell
            low, high = low - 1, high + 1
        return self.plan.clamp(low) * self._step, self.plan.clamp(high) * self._step

    def sum(self, keys: object) -> Sum:
        """The sum over keys, with its standard error, from unclamped estimates: errors of many keys cancel.

        With `retrieval` and `laplace` it is unbiased. With `tight-alp` it adds posterior means, which are biased
        upwards for keys at and near zero, by about a noise scale for an absent key: sum keys that are larger.
        """
        ids = self.key_space.ids(keys)
        moments = [reader.moments(ids) for reader in self._readers]
        cells = sum(sign * float(estimates.sum()) for sign, (estimates, _) in zip((1, -1), moments, strict=False))
        variance = sum(float(variances.sum()) for _, variances in moments)
        if self.plan.problem.neighbours.real:
            variance += len(ids) / 4  # rounding to the grid
        return Sum(cells * self._step, math.sqrt(variance) * self._step)

    def stored(self) -> Stored:
        """The explicitly stored keys and their values, ascending by key."""
        tables = [self.plan.stored(part) for part in self.parts]
        keys = np.concatenate([table.ids for table in tables])
        values = np.concatenate([sign * table.values for sign, table in zip((1, -1), tables, strict=False)])
        order = np.argsort(keys, kind="stable")
        return Stored(keys[order], values[order] * self._step)

    @property
    def _step(self) -> float:
        return float(self.plan.problem.neighbours.step)

    @cached_property
    def _readers(self) -> tuple[Reader, ...]:
        return tuple(self.plan.reader(part) for part in self.parts)

    def _estimates(self, ids: Words, estimator: str | None, prior: str, clamp: bool) -> Floats:
        first, *second = (reader.estimate(ids, *reader.check(estimator, prior)) for reader in self._readers)
        cells = first - second[0] if second else first
        return (self.plan.clamp(cells) if clamp else cells) * self._step

    def __repr__(self) -> str:
        note = ", reproducible: for tests only" if self.reproducible else ""
        return f"<Release {self.mechanism}, ε = {self.epsilon:.6g}, δ = {self.delta:.3g}, {self.nbytes} bytes{note}>"


def release(
    counts: CountsLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    mechanism: str = "auto",
    nonzero: int | None = None,
    total: float | None = None,
    upper: float | None = None,
    domain: int | None = None,
    sensitivity: float = 1,
    step: float | None = None,
    signed: bool = False,
    sizing_share: float = SIZING_SHARE,
    **options: object,
) -> Release:
    """Release counts with (ε, δ)-differential privacy.

    Parameters
    ----------
    counts
        A mapping, a pair (keys, values), a pandas Series, a two-column table (pandas, polars, Arrow: key, value) or
        a SciPy sparse row. Keys are str, bytes or int; values of the same key are summed.
    epsilon, delta
        The privacy to spend. The release states the exact amounts, which are never larger.
    mechanism
        A name from `compare`, or "auto".
    nonzero, total
        Public bounds on the number of non-zero keys and on the sum of the values. They set the size of an embedding
        and cost accuracy only when broken (for `compact` see there).
    sizing_share
        Without `nonzero` and `total`, this share of ε estimates the size, where one is needed.
    upper
        A public bound on the values; larger ones are cut.
    domain
        Keys are the integers in [0, domain). Without it, keys are hashed to 64 bits.
    sensitivity
        The largest ℓ1 distance of neighbouring inputs: how much one person can change in all.
    step
        Values are real and are rounded at random to multiples of this step.
    signed
        Values may be negative.
    options
        Options of the mechanism, such as alpha, size_factor, split, scaling, stored_zeros, threshold_rule.

    """
    problem = make_problem(
        epsilon=epsilon,
        delta=delta,
        nonzero=nonzero,
        total=total,
        upper=upper,
        domain=domain,
        sensitivity=sensitivity,
        step=step,
        signed=signed,
    )
    share = check_sizing_share(sizing_share)
    # A dry run on the public parameters: whatever is wrong with them is said before the data is read.
    draft = _plan(problem, mechanism, share, options)
    plan = draft.finish(0)

    pairs = read_pairs(counts, problem.signed, problem.neighbours.step if problem.neighbours.real else None)
    domain = check_domain(None if domain is None else problem.domain, pairs)
    if domain is not None and problem.hashed:  # the length of a sparse row
        draft = _plan(replace(problem, domain=domain, hashed=False), mechanism, share, options)
        plan = draft.finish(0)
    randomness = fresh_randomness()
    space = KeySpace.draw(domain, randomness)
    ids, cells = to_cells(key_ids(pairs, space), pairs, draft.problem.neighbours, randomness)
    ids, cells = cut(ids, cells, draft.problem.upper_cells)
    if draft.sizing is not None:
        plan = draft.finish(draft.noisy_sum(cells, randomness))
    parts = _build_parts(plan, ids, cells, randomness)
    return Release(plan.observed(parts[0]), space, parts, randomness.reproducible)


@dataclass(frozen=True)
class _Draft:
    """A plan but for its size, which may have to be estimated from the data."""

    problem: Problem
    name: str
    reason: str
    options: dict[str, object]
    sizing: Sizing | None

    def noisy_sum(self, cells: Counts, randomness: Randomness) -> int:
        """The noisy sum that `Sizing` asks for; 0 when the size is public."""
        if self.sizing is None:
            return 0
        total = int(np.minimum(np.abs(cells), self.sizing.cap).sum())
        return int(add_noise(np.array([total]), self.sizing.law, randomness)[0])

    def finish(self, noisy_sum: int) -> Plan:
        """The plan, its size known."""
        problem = self.problem if self.sizing is None else self.sizing.sized(self.problem, noisy_sum)
        return create_plan(self.name, self.reason, problem, self.options)


def _plan(problem: Problem, mechanism: str, share: float, options: dict[str, object]) -> _Draft:
    name, reason, problem = resolve_mechanism(problem, mechanism, share)
    unsized = problem.entries is None and mechanism_named(name).needs_size
    return _Draft(problem, name, reason, options, Sizing.plan(problem, share) if unsized else None)


def _build_parts(plan: Plan, ids: Words, cells: Counts, randomness: Randomness) -> tuple[Arrays, ...]:
    if plan.releases == 1:
        return (plan.build(ids, cells, randomness),)
    positive, negative = cells > 0, cells < 0
    return (
        plan.build(ids[positive], cells[positive], randomness),
        plan.build(ids[negative], -cells[negative], randomness),
    )
