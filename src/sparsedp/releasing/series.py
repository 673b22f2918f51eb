"""`series()`: releases of the same thing, day after day, opened as one.

Their noise is independent, so variances of sums over a window add up; what bias there is has the same
sign for the same key every day, so it is added as it is. Nothing here draws noise or spends budget:
what is read was published. Together the releases protect a user who is in all of them by their ε and
δ added up (docs/privacy.md, "Accounting over releases").
"""

from __future__ import annotations

import glob
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import InputError, ParameterError
from ..format.addresses import address_of, path_of
from ..keys.kinds import columns_in_words
from ..keys.rows import is_one_key, rereadable_keys, take
from ..mechanisms import notebook
from ..mechanisms.words import kind_of_keys
from ..privacy.laws import float_up
from ..privacy.numbers import check_flag, whole_number
from . import pictures
from .answers import Sum
from .labels import DAY, MONTH, Label, as_day, is_dated, text_of
from .published import Release, load
from .ranking import as_frame

Floats: TypeAlias = npt.NDArray[np.float64]
Source: TypeAlias = str | os.PathLike[str] | Release


class WindowSums(NamedTuple):
    """Sums over windows of consecutive releases: the labels at their ends, totals, standard errors."""

    first: list[str]
    last: list[str]
    totals: Floats
    standard_errors: Floats


@dataclass(frozen=True, repr=False)
class Series:
    """Releases in order, each with a label, usually a date. It never changes."""

    labels: tuple[str, ...]
    releases: tuple[Release, ...]

    def __len__(self) -> int:
        return len(self.releases)

    def __getitem__(self, label: Label) -> Release:
        return self.releases[self._position(text_of(label))]

    def __contains__(self, label: object) -> bool:
        """Whether `self[label]` is a release; pairs that `iter` gives are contained too."""
        with suppress(ParameterError):
            label = text_of(label)
        return label in self.labels or label in list(self)

    def __reversed__(self) -> Iterator[tuple[str, Release]]:
        return reversed(list(self))

    def __iter__(self) -> Iterator[tuple[str, Release]]:
        return iter(zip(self.labels, self.releases, strict=True))

    def between(self, since: Label | None = None, until: Label | None = None) -> Series:
        """The releases from one label to another, both included.

        If labels are dates, any date will do, and so does a month or a year: all of 2024-02 is until
        2024-02.
        """
        if self._dated:
            given = (("since", since), ("until", until))
            low, high = (None if end is None else self._end(name, end) for name, end in given)
            chosen = [
                at
                for at, own in enumerate(self.labels)
                if (low is None or own >= low) and (high is None or own[: len(high)] <= high)
            ]
        else:
            first = 0 if since is None else self._position(text_of(since))
            chosen = list(range(first, len(self) if until is None else self._position(text_of(until)) + 1))
        if not chosen:
            ends = " ".join(f"{word} {end}" for word, end in (("from", since), ("until", until)) if end is not None)
            raise ParameterError(f"there is no release {ends}; there are {self._span}")
        return Series(tuple(self.labels[at] for at in chosen), tuple(self.releases[at] for at in chosen))

    def lookup(
        self, keys: object, *, estimator: str | None = None, prior: str | None = None, clamp: bool = True
    ) -> Floats:
        """Estimates: a row for each release, a column for each key. Parameters are those of
        `Release.lookup`.
        """
        keys = self._reread(keys)
        return np.array([own.lookup(keys, estimator=estimator, prior=prior, clamp=clamp) for own in self.releases])

    def interval(self, keys: object, confidence: float = 0.95, *, prior: str | None = None) -> tuple[Floats, Floats]:
        """Bounds (low, high) in the same form; each covers its true count with this confidence."""
        keys = self._reread(keys)
        bounds = [own.interval(keys, confidence, prior=prior) for own in self.releases]
        return np.array([low for low, _ in bounds]), np.array([high for _, high in bounds])

    def sum(self, keys: object, since: Label | None = None, until: Label | None = None) -> Sum:
        """The sum over all these keys and all releases of a window, with its standard error.

        The mechanisms of the releases must have sums (`Release.sum`).
        """
        totals, variances, biases = self.between(since, until)._summed(keys)
        return Sum(float(totals.sum()), math.sqrt(float(variances.sum()) + float(biases.sum()) ** 2))

    def window_sums(self, keys: object, window: int) -> WindowSums:
        """The sum over all these keys and `window` consecutive releases, for every window."""
        size = whole_number("window", window)
        if size > len(self):
            raise ParameterError(f"window must be at most {len(self)}, the number of releases, got {window}")
        totals, variances, biases = (_moving(own, size) for own in self._summed(keys))
        return WindowSums(
            list(self.labels[: len(totals)]), list(self.labels[size - 1 :]), totals, np.sqrt(variances + biases**2)
        )

    def to_pandas(self, keys: object, confidence: float = 0.95) -> Any:
        """A pandas DataFrame with a row for each release and key: label, the key, estimate, low, high.

        Like single lookups, and unlike `Release.to_pandas`, it uses the default prior: no key is
        answered by what others have.
        """
        keys = self._reread(keys)
        tables = [as_frame(keys, own.lookup(keys), *own.interval(keys, confidence)) for own in self.releases]
        name = "label" if "label" not in tables[0].columns else "series_label"
        for label, table in zip(self.labels, tables, strict=True):
            table.insert(0, name, label)
        from pandas import concat

        return concat(tables, ignore_index=True)

    def plot(self, keys: object, path: str | os.PathLike[str] | None = None, confidence: float = 0.95) -> Any:
        """Estimates as lines with the bands of their intervals: a figure of matplotlib, which
        notebooks show. `keys` are one key or a few.

        With a path it is also written there (PNG, SVG or PDF, by the extension).
        """
        keys = self._reread([keys] if is_one_key(keys, len(self.releases[0].key_columns)) else keys)
        estimates, (low, high) = self.lookup(keys), self.interval(keys, confidence)
        names = list(take(keys, np.arange(estimates.shape[1])))
        days = [as_day(label) for label in self.labels]
        at: list[Any] = list(self.labels) if None in days else days
        return pictures.lines(at, names, estimates, low, high, confidence, path)

    @property
    def epsilon(self) -> float:
        """The ε of all releases added up, rounded up: for a user who is in all of them."""
        return float_up(sum(map(Fraction, (own.epsilon for own in self.releases)), Fraction(0)))

    @property
    def delta(self) -> float:
        """The δ of all releases added up, rounded up."""
        return float_up(sum(map(Fraction, (own.delta for own in self.releases)), Fraction(0)))

    @property
    def guarantee(self) -> str:
        """What a reader may assume about the privacy of all releases together."""
        largest, whose = max(own.epsilon for own in self.releases), self.releases[0].plan.problem.contribution
        who = "one step of a count" if whose is None else "a row" if whose.user is None else "a user"
        if whose is not None and whose.stated:
            who = "a user"
        whom = f"{who}, within the bounds that it states, with ε ≤ {largest:.4g}"
        if len(self) == 1:
            return f"The release protects {whom}."
        return (
            f"Each of the {len(self)} releases protects {whom}. Together they protect {who} that is in all of them "
            f"with ε ≤ {self.epsilon:.4g} and δ ≤ {self.delta:.3g}, their sums; what is in some of them only, with the "
            "sums of those. A ledger that composes (--accounting pld) may show a smaller total for the same releases."
        )

    def _repr_html_(self) -> str:
        mechanisms, first = dict.fromkeys(own.mechanism for own in self.releases), self.releases[0]
        rows = [
            ("Releases", f"{len(self)}, {self._span}"),
            ("Mechanism", ", ".join(mechanisms)),
            ("Privacy", f"ε = {self.epsilon:.4g}, δ = {self.delta:.3g}, all added up"),
            ("Guarantee", self.guarantee),
            ("Keys", kind_of_keys(first.key_space, first.plan.problem.keep_keys)),
            ("Size", f"{sum(own.nbytes for own in self.releases):,} bytes"),
        ]
        return notebook.facts("Series", rows)

    def __repr__(self) -> str:
        many = "1 release" if len(self) == 1 else f"{len(self)} releases"
        return f"<Series of {many}, {self._span}, ε = {self.epsilon:.4g} and δ = {self.delta:.3g} in all>"

    @property
    def _span(self) -> str:
        return f"{self.labels[0]} to {self.labels[-1]}"

    @property
    def _dated(self) -> bool:
        return all(is_dated(label) for label in self.labels)

    def _end(self, name: str, end: Label) -> str:
        """A day, a month or a year; no part of a label."""
        text, finest = text_of(end), min(map(len, self.labels))
        if re.fullmatch(r"[0-9]{4}", text) is None and not is_dated(text):
            raise ParameterError(f"{name} must be a date such as 2024-01-31, 2024-01 or 2024, got {text!r}")
        if len(text) > finest:
            raise ParameterError(f"{name} must be a month or a year, as releases are of months, got {text!r}")
        return text

    def _position(self, label: str) -> int:
        if label not in self.labels:
            raise ParameterError(f"there is no release {label!r} in this series, only from {self._span}")
        return self.labels.index(label)

    def _reread(self, keys: object) -> Any:
        return rereadable_keys(keys, self.releases[0].key_space.columns)

    def _summed(self, keys: object) -> tuple[Floats, Floats, Floats]:
        """Totals, variances and biases, one of each for every release."""
        keys = self._reread(keys)
        found = []
        for label, release in self:
            try:
                found.append(release.summed(keys))
            except ParameterError as error:
                raise ParameterError(f"release {label}: {error}") from None
        totals, variances, biases = (np.array(part, np.float64) for part in zip(*found, strict=True))
        return totals, variances, biases


def series(
    sources: str | os.PathLike[str] | Iterable[Source] | Mapping[Any, Source],
    *,
    labels: Iterable[Label] | None = None,
    allow_reproducible: bool = False,
) -> Series:
    """Open releases of the same thing as one series.

    Parameters
    ----------
    sources
        A glob such as "days/*.sparsedp", a folder of releases, a list of paths or open releases, or a
        mapping from labels to them.
    labels
        One for each of a list of sources, in their order. Without labels, each file name must have a
        date (2024-01-31, 20240131 or 2024-01) or a folder above it, and the series is sorted by them.
    allow_reproducible
        As for `load`.

    """
    check_flag("allow_reproducible", allow_reproducible)
    if isinstance(sources, Mapping):
        if labels is not None:
            raise ParameterError("labels must not be given beside a mapping, whose keys are the labels")
        labels, sources = list(sources), list(sources.values())
    listed = _listed(sources)
    if isinstance(labels, (str, bytes)) or not isinstance(labels, (Iterable, type(None))):
        raise ParameterError(f"labels must be a list of labels, got {labels!r:.250}")
    named = [_dated_label(own) for own in listed] if labels is None else [text_of(label) for label in labels]
    if len(named) != len(listed):
        raise ParameterError(f"labels must be as many as releases ({len(listed)}), got {len(named)}")
    if len(set(named)) < len(named):
        twice = next(label for at, label in enumerate(named) if label in named[:at])
        raise ParameterError(
            f"labels must be different, and {twice!r} is that of two releases; rename one, or pass labels="
        )
    order = sorted(range(len(named)), key=named.__getitem__) if labels is None else range(len(named))
    opened = [
        own if isinstance(own, Release) else load(own, allow_reproducible=allow_reproducible)
        for own in (listed[at] for at in order)
    ]
    chosen = tuple(named[at] for at in order)
    _refuse_twice(chosen, opened)
    for label, release in zip(chosen[1:], opened[1:], strict=True):
        if wrong := _misfit(opened[0], release):
            raise InputError(f"the releases {chosen[0]} and {label} do not fit together: {wrong}")
    return Series(chosen, tuple(opened))


def _refuse_twice(labels: tuple[str, ...], releases: Sequence[Release]) -> None:
    """`ParameterError` if a release is listed twice: sums take their noise to be independent."""
    first: dict[Any, str] = {}
    for label, release in zip(labels, releases, strict=True):
        identity = id(release) if release.source is None else release.source.digest
        if identity in first:
            raise ParameterError(f"the releases {first[identity]} and {label} are one and the same")
        first[identity] = label


def listed_paths(sources: str) -> list[str]:
    """The files of a series, from a glob or a folder."""
    return [os.fspath(path) for path in _listed(sources) if not isinstance(path, Release)]


def _listed(sources: Any) -> list[Source]:
    if isinstance(sources, Release):
        return [sources]
    if isinstance(sources, (str, os.PathLike)):
        if address := address_of(sources):
            if "*" in str(address):
                raise ParameterError(f"a series of remote files must be a list of their addresses, got {address}")
            return [sources]
        pattern = os.fspath(sources)
        path_of(pattern, "sources")
        if os.path.isdir(pattern) and not (Path(pattern) / "release.sparsedp").exists():
            pattern = os.path.join(glob.escape(pattern), "*.sparsedp")
        found: list[Source] = [pattern]
        if not os.path.exists(pattern):
            found = [*sorted(glob.glob(pattern, recursive=True))]
        if not found:
            raise InputError(f"there is no release {pattern}")
        return found
    if not isinstance(sources, Iterable):
        raise ParameterError(f"sources must be paths or releases, got {type(sources).__name__}")
    listed = list(sources)
    if not listed:
        raise ParameterError("a series needs at least one release, got none")
    for own in listed:
        if not isinstance(own, (str, os.PathLike, Release)):
            raise ParameterError(f"sources must be paths or releases, got {type(own).__name__}")
    return listed


def _dated_label(source: Source) -> str:
    """The date in the name of a file, or else in the folders above it."""
    if isinstance(source, Release):
        if source.source is None:
            raise ParameterError("releases that were not loaded from files have no names; pass labels=")
        shown = str(source.source.path)
    else:
        shown = str(address_of(source) or os.fspath(source))
    for part in reversed(Path(shown).parts):
        for pattern in (DAY, MONTH):
            for found in pattern.finditer(part):
                label = "-".join(found.groups())
                if is_dated(label):
                    return label
    raise ParameterError(f"there is no date such as 2024-01-31 in the name of {shown}; rename it, or pass labels=")


def _moving(values: Floats, size: int) -> Floats:
    """The sums of all windows of a size, each added up by itself: no rounding error is carried on."""
    sums: Floats = np.lib.stride_tricks.sliding_window_view(values, size).sum(axis=1)
    return sums


def _misfit(first: Release, other: Release) -> str | None:
    """Why two releases do not answer the same question; None if they do."""
    if first.key_columns != other.key_columns:
        ours, theirs = columns_in_words(first.key_columns), columns_in_words(other.key_columns)
        return f"their keys are {ours} and {theirs}"
    one, two = first.plan.problem, other.plan.problem
    if (one.hashed, one.hashed or one.domain) != (two.hashed, two.hashed or two.domain):
        return "they have different domains"
    if one.neighbours.real != two.neighbours.real or one.signed != two.signed:
        return "one has sums of real or signed values, and the other counts"
    ours, theirs = _unit(one.contribution), _unit(two.contribution)
    if ours != theirs:
        return f"one counts {ours}, and the other {theirs}"
    return None


def _unit(contribution: Any) -> str:
    """What a count of one is."""
    if contribution is None:
        return "what the caller counted"
    who = "rows" if contribution.user is None and not contribution.stated else "users"
    return f"{who}, each up to {float(contribution.per_key):g} for a key"
