"""A published release: it answers for any key, and can be saved and loaded."""

from __future__ import annotations

import math
import os
from pickle import PicklingError
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from .. import _native
from .._util.lazy import cached_property
from ..errors import FormatError, ParameterError, ReproducibleReleaseError
from ..format import files
from ..format.addresses import address_of, path_of
from ..format.description import Contents
from ..keys.batches import Batch, ids_of
from ..keys.kept import kept_keys
from ..keys.kinds import Key, KeyColumn, columns_in_words
from ..keys.rows import is_one_key, rereadable_keys, take
from ..mechanisms import WANTED, Ask, Plan, Reader, Single, Summed, notebook, tables_of
from ..mechanisms.gathering import reader_of
from ..mechanisms.partial import length_of
from ..privacy.numbers import check_flag, whole_number
from ..privacy.randomness import Words
from ..structures.scale import PLAIN, Scale
from . import pictures
from .answers import Answer, Stored, Sum, check_confidence
from .ranking import Fingerprint, Ranking, as_frame, largest

Floats = npt.NDArray[np.float64]


class Release(Contents):
    """A differentially private sparse vector: everything in it may be published.

    It never changes and may be shared between threads. It pickles as the path or address of its file
    if it was loaded from one.
    """

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
    def key_columns(self) -> tuple[KeyColumn, ...]:
        """The columns of the key, with names and kinds; simple keys have one without a name."""
        return self.key_space.columns or (KeyColumn(None, self.key_space.kind),)

    @property
    def filled(self) -> bool:
        """Whether it estimates counts of keys that are not stored; if not, it answers 0 for them
        (see `overload`).
        """
        return all(plan.filled for plan in self._observed)

    @property
    def overload(self) -> str | None:
        """A message if the release shows that it is far fuller than it was planned for; otherwise
        None.
        """
        return next((plan.overload for plan in self._observed if plan.overload is not None), None)

    @property
    def _observed(self) -> list[Plan]:
        return [self.plan.observed(side) for side in self.sides]

    @cached_property
    def nbytes(self) -> int:
        """The size in bytes of the file, or of all files, that `save` writes."""
        return files.nbytes(self)

    def __getitem__(self, key: Key) -> float:
        answer = self._single(key)
        return self._one(key) if answer is None else answer

    def _one(self, key: Key) -> float:
        id = self.key_space.id(key)
        low, high, step = self._scale
        readers = self._readers
        cells = readers[0].estimate_one(id)
        if len(readers) == 2:
            cells -= readers[1].estimate_one(id)
        return min(max(cells, low), high) * step

    def lookup(
        self, keys: object, *, estimator: str | None = None, prior: str | None = None, clamp: bool = True
    ) -> Floats:
        """Estimates for many keys at once, given as a list, a NumPy array, or an Arrow, pandas or
        polars column. Keys of several columns are a list of tuples, a table with those columns
        (pandas, polars, Arrow, or a dict of columns; other columns are ignored), or a tuple of
        columns.

        `tight-alp` has the estimators "median" (its default), "mean" and "paper" (the average of
        all maximisers). Its median uses the prior "balanced" by default: no count is answered much
        worse than dense noise would answer it. Other priors are "flat" and, for `tight-alp` and
        `retrieval`, one "fitted" to the release: a law of the counts of keys that occur, for tables
        of many keys. The other mechanisms have "paper" and "flat" only. `clamp` cuts estimates to
        [0, upper].
        """
        return self._estimates(self.key_space.batch(keys), estimator, prior, clamp)

    def interval(self, keys: object, confidence: float = 0.95, *, prior: str | None = None) -> tuple[Floats, Floats]:
        """Bounds (low, high) that each cover their true value with the given confidence.

        `tight-alp` gives the counts that are not rejected by what is published, the other
        mechanisms the guaranteed bounds of the paper. The prior only determines which answer the
        bounds must also contain: the one of the default estimator. Other estimators may give
        answers outside of them, as the "mean" of `tight-alp` does for about one key in a hundred.
        """
        check_confidence(confidence)
        low, high = self._answers(self.key_space.batch(keys), ("low", "high"), confidence, prior)
        return low, high

    def answer(self, keys: object, confidence: float = 0.95) -> Answer:
        """What `lookup` and `interval` give together; keys are read and hashed once."""
        check_confidence(confidence)
        return Answer(*self._answers(self.key_space.batch(keys), WANTED, confidence, prior=None))

    def _estimates(self, keys: Batch, estimator: str | None, prior: str | None, clamp: bool) -> Floats:
        scale = self._scale if check_flag("clamp", clamp) else self._scale.uncut
        if len(self._readers) == 1:
            (reader,) = self._readers
            return reader.on_scale(keys, *reader.check(estimator, prior), scale)
        ids = ids_of(keys)
        first, second = [reader.estimate(ids, *reader.check(estimator, prior)) for reader in self._readers]
        first -= second
        return scale.apply(first)

    def kernel(self, wanted: str, confidence: float) -> _native.Reader | None:
        """What answers this from keys in a single call, if something does."""
        return self._readers[0].fused(self._ask((wanted,), confidence, None)) if len(self._readers) == 1 else None

    def _answers(self, keys: Batch, wanted: tuple[str, ...], confidence: float, prior: str | None) -> list[Floats]:
        ask = self._ask(wanted, confidence, prior)
        if len(self._readers) == 1:
            return self._readers[0].answers(keys, ask)
        ids, whole = ids_of(keys), ask._replace(wanted=WANTED, margin=0.0, scale=PLAIN)
        first, second = [reader.answers(ids, whole) for reader in self._readers]
        ends = first[0] - second[0], first[1] - second[2] - ask.margin, first[2] - second[1] + ask.margin
        return [self._scale.apply(ends[WANTED.index(name)]) for name in wanted]

    def _ask(self, wanted: tuple[str, ...], confidence: float, prior: str | None) -> Ask:
        margin = float(self.plan.problem.neighbours.real)  # values were rounded to a neighbouring cell
        prior = self._readers[0].check(None, prior)[1]
        return Ask(wanted, (1 - confidence) / len(self.sides), prior, margin, self._scale)

    def sum(self, keys: object) -> Sum:
        """The sum over keys, with its standard error, from unclamped estimates, so that errors of
        many keys cancel.

        With `retrieval` and `laplace` it is unbiased. With `tight-alp` it is for absent keys, and
        nearly so for others: any bias that may be left is part of the standard error. Where cells
        are crowded, that is nearly the whole count of each key far below the noise, and the true
        sum is then larger than the estimate by about one standard error. The other mechanisms have
        no sums.
        """
        total, variance, bias = self.summed(keys)
        return Sum(total, math.sqrt(variance + bias**2))

    def summed(self, keys: object) -> Summed:
        """The sum over keys, its variance, and a bound on its bias: what `sum` is made of."""
        ids, times = np.unique(self.key_space.ids(keys), return_counts=True)
        total = variance = bias = 0.0
        for many in np.unique(times).tolist() or [1]:  # a key that is asked for again has the same error again
            own = ids[times == many]
            sums = [reader.sum(own) for reader in self._readers]
            total += many * sum(sign * one.total for sign, one in zip((1, -1), sums, strict=False))
            variance += many**2 * sum(one.variance for one in sums)
            if self.plan.problem.neighbours.real:
                variance += many**2 * len(own) / 4  # rounding to the grid
            bias += many * sum(one.bias for one in sums)
        return Summed(total * self._step, variance * self._step**2, bias * self._step)

    def stored(self) -> Stored:
        """The explicitly stored keys and their values, ascending by key."""
        tables = [(sign, table) for sign, side in zip((1, -1), self.sides, strict=False) for table in tables_of(side)]
        for _, table in tables:
            _ = table.index  # refuses a file whose ids are out of order
        keys = np.concatenate([np.empty(0, np.uint64), *(table.ids for _, table in tables)])
        values = np.concatenate([np.empty(0, np.int64), *(sign * table.values for sign, table in tables)])
        order = np.argsort(keys, kind="stable")
        return Stored(keys[order], values[order] * self._step)

    @property
    def stored_count(self) -> int:
        """How many keys are stored explicitly."""
        parts = (part for side in self.sides for part in side if "table.ids" in part)
        return sum(length_of(part, "table.ids") for part in parts)

    def kept_keys(self) -> list[Key]:
        """The original stored keys, in the order of `stored()`; only for releases with `keep_keys`."""
        if not self.plan.problem.keep_keys:
            raise ParameterError("this release knows its stored keys by their hashes only; build it with keep_keys")
        tables = [arrays for side in self.sides for arrays in side]
        ids = np.concatenate([arrays["table.ids"] for arrays in tables])
        keys = [key for arrays in tables for key in kept_keys(arrays, self.key_space.columns)]
        return [keys[at] for at in np.argsort(ids, kind="stable").tolist()]

    def top(self, n: int = 20, candidates: object = None, *, confidence: float = 0.95) -> Ranking:
        """The n largest estimates with their intervals: of the candidates, or else of the stored
        keys.

        Candidates are keys as in `lookup`; each is listed once. Stored keys are listed by their
        names if the release kept them (`keep_keys`) or has integer keys of a `domain`, and
        otherwise as `Fingerprint`, which names nothing. `laplace` stores every key of its domain.
        Mechanisms that store none need candidates. Keys that are not stored are not seen here: a
        stored key is large, or was stored by chance. An interval's promise is for keys that you ask
        for: the largest of many estimates are too large on average. Estimates and intervals are
        those of the prior "fitted", if the mechanism has it.
        """
        count = whole_number("n", n)
        check_confidence(confidence)
        if candidates is not None:
            keys = rereadable_keys(candidates, self.key_space.columns)
            ids = self.key_space.ids(keys)
        else:
            keys, ids = None, self._stored_ids()
        prior = self.table_prior
        rows = largest(ids, self._estimates(ids, None, prior, clamp=True), count)
        names = self._names(rows, ids) if candidates is None else take(keys, rows)
        estimates, low, high = self._answers(ids[rows], WANTED, confidence, prior)
        return Ranking.of(list(names), estimates, low, high, columns=self.key_space.columns)

    def to_pandas(self, keys: object, confidence: float = 0.95) -> Any:
        """A pandas DataFrame of keys with their estimates and intervals: the columns key (or those
        of the key, if it has several), estimate, low, high.

        They are those of the prior "fitted", if the mechanism has it.
        """
        keys = rereadable_keys(keys, self.key_space.columns)
        prior = self.table_prior
        return as_frame(keys, self.lookup(keys, prior=prior), *self.interval(keys, confidence, prior=prior))

    def plot(
        self, keys: object = None, path: str | os.PathLike[str] | None = None, *, n: int = 10, confidence: float = 0.95
    ) -> Any:
        """Estimates with their intervals: a figure of matplotlib, which notebooks show.

        `keys` are one key or up to 60, with the answers of `lookup` and `interval`; without them, the
        n largest stored keys are shown, as `top` has them. With a path the figure is also written
        there (PNG, SVG or PDF, by the extension).
        """
        if keys is None:
            return pictures.dots(*self.top(n, confidence=confidence), confidence, path)
        columns = self.key_space.columns
        keys = rereadable_keys([keys] if is_one_key(keys, len(columns)) else keys, columns)
        estimates = self.lookup(keys)
        names = take(keys, np.arange(len(estimates)))
        return pictures.dots(names, estimates, *self.interval(keys, confidence), confidence, path)

    @property
    def table_prior(self) -> str:
        """The prior of `top` and `to_pandas`: "fitted" if the mechanism has it."""
        return "fitted" if "fitted" in self._readers[0].priors else "flat"

    def _stored_ids(self) -> Words:
        if self.mechanism == "laplace":  # every key of the domain has a counter
            return np.arange(self.plan.problem.domain, dtype=np.uint64)
        if "table.ids" not in self.plan.array_shapes:
            raise ParameterError(
                f"this release ({self.mechanism}) stores no keys to rank; pass candidates, or keys to plot"
            )
        return self.stored().keys

    def _names(self, rows: npt.NDArray[np.int64], ids: Words) -> list[Any]:
        """The names of some of the stored keys."""
        if self.plan.problem.keep_keys:
            return take(self.kept_keys(), rows)
        named = ids[rows].tolist()
        return named if self.key_space.seed is None else [Fingerprint(id) for id in named]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to one file, which appears under its name only when it is complete and
        on disk.

        An older release is replaced, and any other file refused. A release of several parts becomes a
        new directory.
        """
        files.save(self, path_of(path))

    def __reduce__(self) -> tuple[object, ...]:
        if self.source is not None:
            return _reopen, (self.source.locator, self.source.digest)
        if self.plan.problem.parts > 1:
            raise PicklingError("a release of several parts must be saved and loaded before it can be pickled")
        return _from_bytes, (files.to_bytes(self),)

    @cached_property
    def _step(self) -> float:
        return float(self.plan.problem.neighbours.step)

    @cached_property
    def _readers(self) -> tuple[Reader, ...]:
        return tuple(reader_of(self.plan, side) for side in self.sides)

    @cached_property
    def _scale(self) -> Scale:
        return Scale(*self.plan.limits, self._step)

    @cached_property
    def _single(self) -> Single:
        """Answers one key where that takes a single call of a kernel, and otherwise None."""
        space, readers = self.key_space, self._readers
        if space.seed is None or space.columns or len(readers) > 1:
            return lambda key: None
        return readers[0].single(space.seed, space.kind, self._scale)

    # A release answers for any key, so it has no members. Without these, Python would try the keys
    # 0, 1, 2, … forever.

    def __iter__(self) -> NoReturn:
        raise _no_members("iterated over")

    def __contains__(self, key: object) -> NoReturn:
        raise _no_members("asked whether a key is in it")

    def __len__(self) -> NoReturn:
        raise _no_members("counted")

    def __bool__(self) -> bool:
        return True

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if dtype != np.dtype(object):
            raise _no_members("made an array")
        whole = np.empty((), object)  # inside an array of objects
        whole[()] = self
        return whole

    def _repr_html_(self) -> str:
        return notebook.of_release(self.plan, self.key_space, self.nbytes, self.reproducible)

    def __repr__(self) -> str:
        note = ", reproducible: for tests only" if self.reproducible else ""
        if self.key_space.columns:
            note = f", keys: {columns_in_words(self.key_space.columns)}{note}"
        return f"<Release {self.mechanism}, ε = {self.epsilon:.6g}, δ = {self.delta:.3g}, {self.nbytes} bytes{note}>"


def _no_members(what: str) -> TypeError:
    return TypeError(
        f"a release answers for any key, so it cannot be {what}: use release[key] or release.lookup(keys), "
        "and release.stored() or release.top(n) for what it stores"
    )


def load(path: str | os.PathLike[str], *, allow_reproducible: bool = False) -> Release:
    """Open a release: a file, a directory of parts, or the address of one (https://…, s3://…, anything
    that fsspec opens; extra `remote`).

    Its header is checked completely, including the exact ε and δ. Its arrays are memory-mapped, so
    opening takes milliseconds and no memory at any size. `verify` also checks every byte of the
    arrays. Of a remote file, a lookup reads only the ranges of bytes that it needs (docs/remote.md).

    `allow_reproducible` opens releases that were built with the test-only randomness and protect
    nobody.
    """
    check_flag("allow_reproducible", allow_reproducible)
    address = address_of(path)
    opened = files.load(address or path_of(path).absolute(), Release)
    if opened.reproducible and not allow_reproducible:
        raise ReproducibleReleaseError(
            f"{address or path} was built with reproducible randomness, which protects nobody; "
            "pass allow_reproducible=True to open it in a test"
        )
    return opened


def verify(path: str | os.PathLike[str]) -> None:
    """`FormatError` unless every byte of a saved release is as it was written and its guarantee is
    what it states.
    """
    files.verify(address_of(path) or path_of(path))


def _from_bytes(content: bytes) -> Release:
    return files.load_bytes(content, Release)


def _reopen(path: str, digest: str) -> Release:
    """The release that was pickled by its path, or `FormatError` if another one is there now."""
    opened = load(path, allow_reproducible=True)  # it was open when it was pickled
    if opened.source is None or opened.source.digest != digest:
        raise FormatError(f"{address_of(path) or path} has been replaced since the release was pickled")
    return opened
