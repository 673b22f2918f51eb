"""The releases that are served, by name, and how replaced files are taken up.

A release is replaced by a rename, as `Release.save` does it. A thread looks at the files every
second, opens and checks what is new, and puts it in place of the old one at once; requests that
began with the old one end with it. What cannot be opened is logged, and the old one stays.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import ParameterError, SparseDPError, reason_of
from ..format.description import HEADER_NAME
from ..mechanisms.words import guarantee
from ..releasing.describing import description_of
from ..releasing.published import Release, load, verify
from ..releasing.ranking import Ranking
from ..releasing.series import Series, listed_paths, series
from .limits import RefusedError
from .logs import Log

Stamp: TypeAlias = tuple[tuple[str, int, int, int], ...]

MOST_RANKED = 1000
_LARGEST_RANKED_DOMAIN = 1 << 22  # of releases that store a count for every key: all are ranked


@dataclass(frozen=True)
class Source:
    """Where a release is, or a series: a file, a folder, or a glob; and the name that it gets."""

    name: str
    place: str
    is_series: bool = False

    @classmethod
    def of_file(cls, path: str) -> Source:
        """A release whose name is that of its file, without the ending."""
        absolute = os.path.abspath(path)
        return cls(_checked_name(Path(absolute).stem), absolute)

    @classmethod
    def of_series(cls, text: str) -> Source:
        """A series that is written NAME=GLOB or NAME=FOLDER."""
        name, equals, place = text.partition("=")
        if not (name and equals and place):
            raise ParameterError(f"a series must be NAME=GLOB, such as visits='days/*.sparsedp', got {text!r}")
        return cls(_checked_name(name), os.path.abspath(place), is_series=True)


@dataclass(frozen=True)
class Served:
    """What is served under a name at some moment; it never changes."""

    name: str
    content: Release | Series
    summary: dict[str, Any]
    details: dict[str, Any]
    _rankings: dict[float, Ranking] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[tuple[str | None, Release], ...]:
        """The releases, with their labels in a series."""
        return tuple(self.content) if isinstance(self.content, Series) else ((None, self.content),)

    @property
    def first(self) -> Release:
        """The release whose keys are those of all."""
        return self.parts[0][1]

    def ranking(self, confidence: float) -> Ranking:
        """The largest estimates of the keys that a release names, or `RefusedError`."""
        if isinstance(self.content, Series):
            raise RefusedError(400, f"{self.name} is a series, which has no ranking; look keys up instead")
        if (why := _unnamed(self.content)) is not None:
            raise RefusedError(400, f"{self.name} cannot be ranked: {why}; look keys up instead")
        ranked = self._rankings.get(confidence)
        if ranked is None:
            ranked = self.content.top(MOST_RANKED, confidence=confidence)
            while len(self._rankings) >= 8:
                self._rankings.pop(next(iter(self._rankings)), None)
            self._rankings[confidence] = ranked
        return ranked


class Catalog:
    """All that is served, in the order in which it was given."""

    def __init__(
        self,
        sources: Iterable[Source],
        log: Log | None = None,
        *,
        allow_reproducible: bool = False,
        thorough: bool = True,
    ) -> None:
        """Open everything; an error of the library for what cannot be served.

        `thorough` checks every byte of a file, not its header only.
        """
        self._sources = tuple(sources)
        self._log = log or Log()
        self._allow_reproducible, self._thorough = allow_reproducible, thorough
        self._checked: dict[str, Stamp] = {}
        names = [source.name for source in self._sources]
        if twice := next((name for at, name in enumerate(names) if name in names[:at]), None):
            raise ParameterError(f"names must be different, and {twice!r} is that of two files; rename one of them")
        self._stamps = {source.name: _stamp(source) for source in self._sources}
        self._served = {source.name: self._opened(source) for source in self._sources}

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, name: str) -> Served:
        try:
            return self._served[name]
        except KeyError:
            known = ", ".join(map(repr, list(self._served)[:20])) or "none"
            raise RefusedError(404, f"there is no release {name!r}; there is {known}") from None

    def all(self) -> list[Served]:
        """Everything, in order."""
        return [self._served[source.name] for source in self._sources]

    def refresh(self) -> None:
        """Take up what has been replaced; only one thread may call it."""
        for source in self._sources:
            stamp = _stamp(source)
            if stamp == self._stamps[source.name]:
                continue
            try:
                opened = self._opened(source)
                if stamp != _stamp(source):  # replaced meanwhile: the next call sees it
                    continue
            except (SparseDPError, OSError, MemoryError) as error:
                self._log.write("not reloaded", name=source.name, error=reason_of(error), kept="the old release")
            else:
                self._served[source.name] = opened
                self._log.write("reloaded", name=source.name)
            self._stamps[source.name] = stamp

    def _opened(self, source: Source) -> Served:
        content: Release | Series
        if source.is_series:
            content = series(source.place, allow_reproducible=self._allow_reproducible)
        else:
            content = load(source.place, allow_reproducible=self._allow_reproducible)
        releases = content.releases if isinstance(content, Series) else (content,)
        for release in releases if self._thorough else ():
            assert release.source is not None
            path = release.source.path
            assert isinstance(path, Path)  # sources are files of this machine
            stamp = _stamp_of([path])
            if self._checked.get(str(path)) != stamp:
                verify(path)
                self._checked[str(path)] = stamp
        for release in releases:
            release.answer([])  # prepares what the first lookup needs
        details = _series_details(content) if isinstance(content, Series) else description_of(content, content.nbytes)
        return Served(source.name, content, _summary(source.name, content), details)


class Watcher:
    """The thread that looks for replaced files."""

    def __init__(self, catalog: Catalog, log: Log, seconds: float = 1.0) -> None:
        self._catalog, self._log, self._seconds = catalog, log, seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sparsedp-files", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                self._catalog.refresh()
            except Exception as error:  # files are looked at again, whatever happened
                self._log.failure(error)


def _checked_name(name: str) -> str:
    """A name that fits into a path, or `ParameterError`."""
    if not name or "/" in name or name in (".", "..") or not name.isprintable():
        raise ParameterError(f"the name of a release must be printable, without a slash, got {name!r}")
    return name


def _stamp(source: Source) -> Stamp:
    """What changes when files are replaced."""
    try:
        return _stamp_of(listed_paths(source.place) if source.is_series else [source.place])
    except (SparseDPError, OSError) as error:  # opening it says the same
        return ((reason_of(error), 0, 0, 0),)


def _stamp_of(paths: Sequence[str | os.PathLike[str]]) -> Stamp:
    found = []
    for path in paths:
        header = Path(path) / HEADER_NAME if os.path.isdir(path) else Path(path)
        status = os.stat(header)
        found.append((str(header), status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)


def _summary(name: str, content: Release | Series) -> dict[str, Any]:
    """What the list of releases says about one."""
    releases = content.releases if isinstance(content, Series) else (content,)
    mechanisms = list(dict.fromkeys(release.mechanism for release in releases))
    is_series = isinstance(content, Series)
    return {
        "name": name,
        "kind": "series" if is_series else "release",
        "mechanism": ", ".join(mechanisms),
        "epsilon": content.epsilon,
        "delta": content.delta,
        "nbytes": sum(release.nbytes for release in releases),
        "keys": [{"name": column.name, "kind": column.kind or "text"} for column in releases[0].key_columns],
        "guarantee": content.guarantee if isinstance(content, Series) else guarantee(content.plan),
        "filled": all(release.filled for release in releases),
        "overload": next((words for release in releases if (words := release.overload) is not None), None),
        "labels": list(content.labels) if isinstance(content, Series) else None,
        "names": not is_series and _unnamed(releases[0]) is None,
        "reproducible": any(release.reproducible for release in releases),
    }


def _series_details(content: Series) -> dict[str, Any]:
    """What a reader may assume about all releases of a series together, and about each."""
    return {
        "epsilon": content.epsilon,
        "delta": content.delta,
        "guarantee": content.guarantee,
        "releases": [
            {
                "label": label,
                "mechanism": release.mechanism,
                "epsilon": release.epsilon,
                "delta": release.delta,
                "bytes": release.nbytes,
            }
            for label, release in content
        ],
    }


def _unnamed(release: Release) -> str | None:
    """Why the stored keys of a release cannot be listed; None if they can."""
    problem = release.plan.problem
    if release.mechanism == "laplace":
        most = f"{_LARGEST_RANKED_DOMAIN:,}"
        large = f"it has a count for each of {problem.domain:,} keys, and at most {most} are ranked"
        return large if problem.domain > _LARGEST_RANKED_DOMAIN else None
    if "table.ids" not in release.plan.array_shapes:
        return f"{release.mechanism} stores no keys"
    if problem.hashed and not problem.keep_keys:
        return "it knows its stored keys by their hashes only (it was made without keep_keys)"
    return None
