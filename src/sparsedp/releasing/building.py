"""`release()`: from counts to what may be published."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np

from ..budget.spending import DEFAULT_DATASET, LedgerLike, account_of, spending
from ..errors import OverloadWarning, ParameterError
from ..format.files import check_new, finish_parts, staged, write_part
from ..keys.hashing import KeySpace, Partition
from ..keys.kept import keep
from ..mechanisms import Arrays, DivisiblePlan, Parts, Plan, Problem, Sizing, create_plan, mechanism_named
from ..mechanisms.retrieval import RetrievalPlan
from ..planning.plans import check_sizing_share, make_problem, positive_fraction, resolve_mechanism, weighed
from ..privacy.contributions import BoundedCounts, Contribution
from ..privacy.randomness import Randomness, Words, fresh_randomness
from ..structures.table import Counts
from .inputs import Cells, CountsLike, Pairs, Sums, check_key_type, check_row, cut, key_ids, read_pairs
from .named import NamedCells, Rows, distinct_rows, named_cells, named_sums, rereadable
from .parts import PartWork, Values
from .published import Release, load


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
    sensitivity: float | None = None,
    step: float | None = None,
    signed: bool = False,
    parts: int = 1,
    path: str | os.PathLike[str] | None = None,
    keep_keys: bool = False,
    key_type: str | None = None,
    sizing_share: float | None = None,
    ledger: LedgerLike | None = None,
    dataset: str = DEFAULT_DATASET,
    **options: object,
) -> Release:
    """Release counts with (ε, δ)-differential privacy.

    Parameters
    ----------
    counts
        A mapping, a pair (keys, values), a pandas Series, a two-column table (key, value: pandas, polars, Arrow, also a
        LazyFrame or Dataset) or a SciPy sparse row, with `domain`. Keys are str, bytes or int; values of the same key
        are summed. Or what `count` gives, which brings its sensitivity with it.
    epsilon, delta
        The privacy to spend. The release states the exact amounts, which are never larger.
    mechanism
        A name from `compare`, or "auto".
    nonzero, total
        Public bounds on the number of non-zero keys and on the sum of the values. They set the size of an embedding
        and cost accuracy only when broken (for `compact` see there). Without them the size is
        estimated.
    sizing_share
        The share of ε that estimates the size where it is needed and not public (`retrieval` always counts its keys
        with noise); planned unless given.
    upper
        A public bound on the values; larger ones are cut.
    domain
        Keys are the integers in [0, domain). Without it, keys are hashed to 64 bits.
    sensitivity
        The largest ℓ1 distance of neighbouring inputs: how much one person can change in all. 1 unless given; of
        what `count` gives, the bound that was counted with.
    step
        Values are real and are rounded at random to multiples of this step.
    signed
        Values may be negative.
    parts
        Build the release in this many parts, each for its share of the keys; `save` then writes a directory.
    path
        Write the release there and open it from there. Parts are written as they are built, and leave memory.
    keep_keys
        Publish stored keys as they are, not only hashed; needs δ > 0, and every key once. See `Release.kept_keys`.
    key_type
        The kind of the keys: "text", "bytes" or "integer". A release answers for keys of one kind, which is published.
        Columns have a type that tells it. Of a dict or a list the first key tells, and without any key they are taken
        for text: state it if keys are not text and there may be none.
    ledger, dataset
        Debit the budget of a data set in this ledger, before any noise is drawn.
    options
        Options of the mechanism, such as alpha, size_factor, split, scaling, stored_zeros, threshold_rule.

    """
    account = None if ledger is None else account_of(ledger, dataset)
    check_row(counts, domain)
    distance: float | Fraction = 1 if sensitivity is None else sensitivity
    grid: float | Fraction | None = step
    if type(counts) is BoundedCounts:
        distance, grid, signed = _as_counted(counts, sensitivity, step, signed)
    problem = make_problem(
        epsilon=epsilon,
        delta=delta,
        nonzero=nonzero,
        total=total,
        upper=upper,
        domain=domain,
        sensitivity=distance,
        step=grid,
        signed=signed,
        contribution=counts.contribution if type(counts) is BoundedCounts else None,
        parts=parts,
        keep_keys=keep_keys,
    )
    share = check_sizing_share(sizing_share)
    stated = check_key_type(key_type, problem.hashed)
    # A dry run on the public parameters: whatever is wrong with them is said before the data is read.
    draft = draft_plan(problem, mechanism, share, options)
    plan = draft.finish()

    pairs = read_pairs(counts, problem.signed, problem.neighbours.step if problem.neighbours.real else None)
    randomness = fresh_randomness()
    space = KeySpace.draw(None if problem.hashed else problem.domain, randomness)
    if keep_keys:
        pairs = rereadable(pairs)
    ids, space = key_ids(pairs, space, stated)
    rows = distinct_rows(ids, pairs) if keep_keys else None
    if path is not None:
        check_new(Path(path), parts)
    # All of the data has been checked. From here on noise is drawn, so from here on the budget is spent.
    with spending(account, problem.epsilon, problem.delta, draft.label):
        built = _build(draft, plan, space, ids, pairs, rows, randomness, None if path is None else Path(path))
    return told(built)


def _build(
    draft: Draft,
    plan: Plan,
    space: KeySpace,
    ids: Words,
    pairs: Pairs,
    rows: Rows | None,
    randomness: Randomness,
    path: Path | None,
) -> Release:
    """The release; rows are those whose keys are kept."""
    if plan.problem.parts > 1 and rows is None:
        assert isinstance(plan, DivisiblePlan)
        return _release_by_parts(draft, plan, space, ids, pairs, randomness, path)
    neighbours, upper = draft.problem.neighbours, draft.problem.upper_cells
    sums = Sums.of(ids, pairs) if rows is None else named_sums(ids, rows, pairs)
    counts = sums.cells(neighbours, randomness)
    if draft.sizing is not None:
        plan = draft.finish(draft.sizing.noisy([draft.sizing.count(counts, upper)], randomness))
        if not draft.builds_what_it_counted(plan):  # real values are rounded anew, so that the two compose
            counts = sums.cells(neighbours, randomness)
    cells = _cells_of(sums, counts, pairs, rows, upper)
    del sums
    sides = _build_sides(plan, cells, randomness)
    built = Release(plan.observed(sides[0]), space, sides, randomness.reproducible)
    if path is None:
        return built
    built.save(path)
    return load(path, allow_reproducible=randomness.reproducible)


def _cells_of(sums: Sums, counts: Counts, pairs: Pairs, rows: Rows | None, upper: int | None) -> Cells:
    if rows is None:
        return Cells(*cut(sums.ids, counts, upper))
    return named_cells(sums.ids, counts, pairs, rows, upper)


def told(release: Release) -> Release:
    """The release, with a warning if what is published says that it is overloaded."""
    if release.overload is not None:
        warnings.warn(f"this release is overloaded: {release.overload}", OverloadWarning, stacklevel=3)
    return release


def check_parameters(
    contribution: Contribution,
    *,
    epsilon: float,
    delta: float = 0.0,
    mechanism: str = "auto",
    nonzero: int | None = None,
    total: float | None = None,
    upper: float | None = None,
    domain: int | None = None,
    step: float | None = None,
    signed: bool = False,
    parts: int = 1,
    keep_keys: bool = False,
    **options: object,
) -> Plan:
    """The plan of a release of events that are not counted yet, or `ParameterError`.

    If the size has to be estimated, this plan is for the smallest one.
    """
    problem = make_problem(
        epsilon=epsilon,
        delta=delta,
        nonzero=nonzero,
        total=total,
        upper=upper,
        domain=domain,
        sensitivity=contribution.total,
        step=step,
        signed=signed,
        contribution=contribution,
        parts=parts,
        keep_keys=keep_keys,
    )
    return draft_plan(problem, mechanism, None, options).finish()


def _as_counted(
    counts: BoundedCounts, sensitivity: float | None, step: float | None, signed: bool
) -> tuple[Fraction, Fraction | None, bool]:
    """Sensitivity, step and sign of counts that know them; others that are given must not promise more privacy."""
    bound = counts.contribution.total
    if sensitivity is not None and positive_fraction("sensitivity", sensitivity) < bound:
        least = f"at least {float(bound):g}, which one user may change ({counts.contribution})"
        raise ParameterError(f"sensitivity must be {least}, got {sensitivity}")
    if step is not None and (counts.step is None or positive_fraction("step", step) != counts.step):
        raise ParameterError(f"step must be that of the counts ({counts.step}), got {step}; pass it to count() only")
    return max(bound, Fraction(sensitivity or 0)), counts.step, signed or counts.signed


@dataclass(frozen=True)
class Draft:
    """A plan but for its size, which may have to be estimated from the data."""

    problem: Problem
    name: str
    reason: str
    options: dict[str, object]
    sizing: Sizing | None
    open: bool  # whether the size may still decide for another mechanism

    @property
    def label(self) -> str:
        """The mechanism, for the books."""
        return f"{self.name} or tight-alp" if self.open else self.name

    def finish(self, noisy: list[int] | None = None) -> Plan:
        """The plan, its size known; without one, of the size that public bounds tell, or of the smallest."""
        if self.sizing is None:
            return create_plan(self.name, self.reason, self.problem, self.options)
        problem = self.sizing.sized(self.problem, self.sizing.unknown(self.problem) if noisy is None else noisy)
        plan = create_plan(self.name, self.reason, problem, self.options)
        if noisy is None:
            return plan
        if isinstance(plan, RetrievalPlan):
            plan = plan.counted(noisy)
        return weighed(plan, problem) if self.open else plan

    def draw_partition(self, plan: DivisiblePlan, randomness: Randomness) -> Partition:
        """Which key belongs to which part, whatever mechanism the size will decide for."""
        if self.open:  # the parts of hashed keys are ranges of them, and the seeds are for the blocks of tight-alp
            first, second, row = randomness.words(3).tolist()
            return Partition(self.problem.parts, self.problem.hashed, (first, second, row))
        return plan.draw_partition(randomness)

    def builds_what_it_counted(self, plan: Plan) -> bool:
        """Whether the cells of the size are those of the build, rounded once."""
        return self.sizing is not None and self.sizing.of_built_cells and plan.mechanism == self.name


def draft_plan(problem: Problem, mechanism: str, share: float | None, options: dict[str, object]) -> Draft:
    """The plan of a problem, its size open if it has to be estimated."""
    name, reason, problem = resolve_mechanism(problem, mechanism, share)
    if mechanism == "auto" and problem.entries is not None:  # the public size decides, and costs nothing
        chosen = weighed(create_plan(name, reason, problem, options), problem)
        name, reason = chosen.mechanism, chosen.reason
    # Where real values are rounded, the number and what `retrieval` is built from have the same coins: no choice then.
    undecided = mechanism == "auto" and name == "retrieval" and problem.entries is None
    undecided &= not problem.neighbours.real and (problem.hashed or problem.parts == 1)
    draft = Draft(problem, name, reason, options, mechanism_named(name).sizing(problem, share), undecided)
    if mechanism == "auto" and name == "retrieval":
        try:
            draft.finish()
        except ParameterError:  # the other one may have a plan, or says what is wrong
            return draft_plan(problem, "tight-alp", share, options)
    return draft


def _release_by_parts(
    draft: Draft,
    plan: DivisiblePlan,
    space: KeySpace,
    ids: Words,
    pairs: Pairs,
    randomness: Randomness,
    path: Path | None,
) -> Release:
    """Each part from its share of the data; with a path, its arrays are on disk before the next part is built."""
    parts = plan.problem.parts
    partition = draft.draw_partition(plan, randomness)
    order = np.argsort(partition.part_of(ids), kind="stable")
    edges = np.searchsorted(partition.part_of(ids[order]), np.arange(parts + 1)).tolist()

    def share(part: int) -> tuple[int, Words, Values]:
        rows = order[edges[part] : edges[part + 1]]
        return part, ids[rows], pairs.values[rows]

    work = PartWork(plan, partition, pairs.unit, randomness.parts)
    if draft.sizing is not None:
        counted = [work.size(*share(part), draft.sizing) for part in range(parts)]
        plan = cast(DivisiblePlan, draft.finish(draft.sizing.noisy(counted, randomness)))
        work = replace(work, plan=plan, counted=tuple(counted) if draft.builds_what_it_counted(plan) else None)
    if path is None:
        built = zip(*(work.build(*share(part)) for part in range(parts)), strict=True)
        sides = tuple(plan.completed(side) for side in built)
        return Release(plan.observed(sides[0]), space, sides, randomness.reproducible)
    with staged(path) as directory:
        digests = [write_part(directory, part, parts, work.build(*share(part))) for part in range(parts)]
        finish_parts(directory, plan, space, randomness.reproducible, digests)
    return load(path, allow_reproducible=randomness.reproducible)


def _build_sides(plan: Plan, cells: Cells, randomness: Randomness) -> tuple[Parts, ...]:
    if plan.releases == 1:
        return (plan.completed(_build_parts(plan, cells, randomness, 0)),)
    return (
        plan.completed(_build_parts(plan, cells[cells.counts > 0], randomness, 0)),
        plan.completed(_build_parts(plan, cells[cells.counts < 0].negated(), randomness, 1)),
    )


def _build_parts(plan: Plan, cells: Cells, randomness: Randomness, side: int) -> Parts:
    parts = plan.problem.parts
    if not isinstance(plan, DivisiblePlan):
        return (plan.build(cells.ids, cells.counts, randomness),)
    partition = plan.draw_partition(randomness)
    if parts == 1:
        return (_build_part(plan, 0, partition, cells, randomness),)
    cells = cells[np.argsort(partition.part_of(cells.ids), kind="stable")]  # ids ascend within each part
    edges = np.searchsorted(partition.part_of(cells.ids), np.arange(parts + 1))
    # A stream for each part: whoever builds it, and in whatever order.
    return tuple(
        _build_part(plan, part, partition, cells[begin:end], randomness.parts.noise(side, part))
        for part, (begin, end) in enumerate(pairwise(edges.tolist()))
    )


def _build_part(plan: DivisiblePlan, part: int, partition: Partition, cells: Cells, randomness: Randomness) -> Arrays:
    arrays, stored = plan.build_part(part, partition, cells.ids, cells.counts, randomness)
    if not isinstance(cells, NamedCells):
        return arrays
    named = cells[stored]
    return keep(arrays, named.ids, named.names)
