"""`release()`: from counts to what may be published."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..budget.spending import DEFAULT_DATASET, Account, LedgerLike, account_of, check_affordable, spending
from ..errors import OverloadWarning
from ..format.addresses import path_of
from ..format.description import format_of
from ..format.files import check_new, finish_parts, new_directory, write_part
from ..keys.hashing import KeySpace, Partition
from ..keys.kinds import ColumnKind
from ..keys.rows import checked_names, told_apart
from ..mechanisms import Sizing
from ..planning.drafts import Draft, draft
from ..planning.request import Request
from ..privacy.contributions import as_bounded
from ..privacy.randomness import Randomness, Words, fresh_randomness
from .cells import NamedSums, Rows, Sums, distinct_rows
from .inputs import CountsLike, Pairs, check_key_type, check_row, key_ids, read_pairs
from .parts import PartWork, planned
from .published import Release, load
from .room import check_room

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..mechanisms import MechanismOptions


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
    key_type: str | Sequence[str] | None = None,
    noise: str = "auto",
    max_keys_per_user: int | None = None,
    max_per_key: float | None = None,
    sizing_share: float | None = None,
    ledger: LedgerLike | None = None,
    dataset: str = DEFAULT_DATASET,
    **options: Unpack[MechanismOptions],
) -> Release:
    """Release counts with (ε, δ)-differential privacy.

    Parameters
    ----------
    counts
        A mapping, a pair (keys, values), a pandas Series, a table whose last column has the values
        and whose other columns are the key (pandas, polars, Arrow, also a LazyFrame or Dataset) or
        a SciPy sparse row, with `domain`. Keys are str, bytes, int, dates or timestamps, or tuples
        of these and of truth values; values of the same key are summed. Or the result of `count`,
        which brings its sensitivity with it.
    epsilon
        The privacy to spend. The release states the exact amount, which is never larger.
    delta
        The probability with which ε may fail; 0 is pure privacy.
    mechanism
        A name from `compare`, or "auto".
    nonzero
        A public bound on the number of non-zero keys. It sets the size of an embedding, and
        exceeding it costs only accuracy (for `compact` see there). Without it and `total` the size
        is estimated.
    total
        A public bound on the sum of the values, which bounds the number of keys too.
    sizing_share
        The share of ε spent on estimating the size, if the size is needed and not public
        (`retrieval` always counts its keys with noise). Planned unless given.
    upper
        A public bound on the values; larger ones are cut.
    domain
        Keys are the integers in [0, domain). Without it, keys are hashed to 64 bits.
    sensitivity
        The largest ℓ1 distance of neighbouring inputs: how much one person can change in all. By
        default 1; for the result of `count`, the bound that was counted with.
    max_keys_per_user, max_per_key
        What one person can change, if you bounded the counts yourself: at most so many keys, each by
        at most so much (1). They replace `sensitivity`, and Gaussian noise needs them. The result of
        `count` brings its own.
    noise
        With δ > 0: "geometric", or "gaussian", which has the smaller error if users have many keys.
        "auto" takes the one with the smaller predicted error.
    step
        Values are real and are rounded at random to multiples of this step.
    signed
        Values may be negative.
    parts
        Build the release in this many parts, each for its share of the keys; `save` then writes a
        directory.
    path
        Write the release there and open it from there. An older release is replaced, and any other
        file refused. Parts are written as they are built, and leave memory.
    keep_keys
        Publish stored keys as they are, not only hashed; needs δ > 0, and every key once. See
        `Release.kept_keys`.
    key_type
        The kind of the keys: "text", "bytes", "integer", "date" or "timestamp[us]" (other units: s,
        ms, ns; "timestamp[us, UTC]" with a time zone); for keys of several columns a list of kinds,
        which may also be "boolean". A release answers for keys of one kind, which is published.
        The type of a column determines it. For a dict or a list the first key does, and if there
        are no keys the kind is text: state it if keys are not text and there may be none.
    ledger
        Debit the budget of the data set in this ledger, before any noise is drawn.
    dataset
        The data set of the ledger.
    options
        Options of the mechanism, such as alpha, size_factor, split, scaling, stored_zeros,
        threshold_rule.

    """
    request = Request.of(locals(), as_bounded(counts))
    check_row(counts, domain)
    account = account_of(ledger, dataset)
    stated = check_key_type(key_type, request.problem.hashed)
    return told(publish(draft(request), counts, stated, None if path is None else path_of(path), account))


def publish(
    drafted: Draft, counts: CountsLike, kinds: tuple[ColumnKind, ...], path: Path | None, account: Account | None
) -> Release:
    """Read the data, debit the account, build the release, and write it if there is a path."""
    problem, event = drafted.problem, None if account is None else drafted.event
    check_affordable(account, problem.epsilon, problem.delta, event)
    read = [] if account is None else [account.ledger.path]
    if path is not None:
        check_new(path, problem.parts, read)
    check_room(drafted.ready, path)
    data = _Data.read(counts, kinds, drafted)
    if path is not None:  # again, for reading may have taken hours
        check_new(path, problem.parts, read)
    # All of the data has been checked. From here on noise is drawn, so from here on the budget is
    # spent.
    with spending(account, problem.epsilon, problem.delta, drafted.label, event, stacklevel=5):
        return _build(drafted, data, path)


def check_readable(drafted: Draft, counts: CountsLike, kinds: tuple[ColumnKind, ...]) -> None:
    """`InputError` for data that `publish` would refuse; nothing is spent, and no noise is drawn."""
    _Data.read(counts, kinds, drafted)


def told(release: Release) -> Release:
    """The release, with a warning if what is published shows that it is overloaded."""
    if release.overload is not None:
        warnings.warn(f"this release is overloaded: {release.overload}", OverloadWarning, stacklevel=3)
    return release


@dataclass
class _Data:
    """The data, checked completely, with the ids of its keys; only their public hash seed has been
    drawn so far.
    """

    pairs: Pairs
    ids: Words
    space: KeySpace
    rows: Rows | None  # ascending by id, if keys will be named
    randomness: Randomness

    @classmethod
    def read(cls, counts: CountsLike, kinds: tuple[ColumnKind, ...], drafted: Draft) -> _Data:
        """The data, or `InputError` with the position of what is malformed."""
        problem = drafted.request.problem  # values are on the grid of the request, not on that of the mechanism
        bounded = as_bounded(counts)
        if bounded is not None and not drafted.request.covers(bounded.contribution, bounded.step, bounded.signed):
            raise AssertionError("the draft promises more privacy than the bounds that the counts were made with")
        pairs = read_pairs(counts, problem.signed, problem.neighbours.step if problem.neighbours.real else None)
        if problem.keep_keys:  # ids and names come from the same rows
            pairs = replace(pairs, keys=checked_names(told_apart(pairs.keys, kinds)))
        randomness = fresh_randomness()
        space = KeySpace.draw(None if problem.hashed else problem.domain, randomness)
        ids, space = key_ids(pairs, space, kinds)
        return cls(pairs, ids, space, distinct_rows(ids, pairs.keys) if problem.keep_keys else None, randomness)

    def by_part(self, partition: Partition) -> list[Any]:
        """The rows of each part's keys."""
        if partition.parts == 1:
            return [slice(None) if self.rows is None else self.rows]
        part_of = partition.part_of(self.ids if self.rows is None else self.ids[self.rows])
        order = np.argsort(part_of, kind="stable")  # stable: ids that ascend still ascend within a part
        edges = np.searchsorted(part_of[order], np.arange(1, partition.parts))
        del part_of
        rows = order if self.rows is None else self.rows[order]
        return np.split(rows, edges)

    def sums(self, rows: Any) -> Sums:
        """The values of some rows, those of equal ids together."""
        values, unit = self.pairs.values, self.pairs.unit
        if self.rows is not None:
            return NamedSums.of_rows(self.ids, values, unit, self.pairs.keys, rows)
        return Sums.of(self.ids[rows], values[rows], unit)

    def sums_of(self, shares: list[Any]) -> Iterator[Sums]:
        """The sums of all parts, one after the other. With the last one, the ids are forgotten: they
        would take as much memory as those of the sums, while the parts are built.
        """
        for part, rows in enumerate(shares, 1):
            sums = self.sums(rows)
            if part == len(shares):
                self.ids = self.ids[:0].copy()
            yield sums


def _build(drafted: Draft, data: _Data, path: Path | None) -> Release:
    """Build one part after the other; with a path, its arrays are on disk before the next part is
    built.
    """
    randomness, space = data.randomness, data.space
    partition = drafted.draw_partition(randomness)
    shares = data.by_part(partition)
    sorted_already: list[Sums] = []  # for the size

    def sizes(work: PartWork, sizing: Sizing) -> list[int]:
        sorted_already.extend(data.sums_of(shares))
        return [work.size(part, sums, sizing) for part, sums in enumerate(sorted_already)]

    plan, work = planned(drafted, randomness, partition, sizes)
    each = (sorted_already.pop(0) for _ in shares) if sorted_already else data.sums_of(shares)
    built_parts = (work.build(part, sums) for part, sums in enumerate(each))
    if path is not None and partition.parts > 1:
        with new_directory(path) as directory:
            version = format_of(space)
            digests = [
                write_part(directory, part, partition.parts, sides, version) for part, sides in enumerate(built_parts)
            ]
            finish_parts(directory, plan, space, randomness.reproducible, digests)
        return load(path, allow_reproducible=randomness.reproducible)
    sides = tuple(plan.completed(side) for side in zip(*built_parts, strict=True))
    built = Release(plan.observed(sides[0]), space, sides, randomness.reproducible)
    if path is None:
        return built
    built.save(path)
    return load(path, allow_reproducible=randomness.reproducible)
