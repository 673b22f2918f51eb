"""How the comparison of people with many keys is shown: tables, and two figures."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from .judging import FREQUENT
from .sections import Drawn, Grid, Section, duration, number, size

HEADER = (
    "answers of",
    "all keys",
    "frequent",
    "absent",
    "named (frequent)",
    "coverage",
    "space",
    "release",
    "process",
    "memory",
)
NOTE = (
    f"Errors: mean |answer − count| over all present keys, the {FREQUENT} most frequent and absent ones, where no "
    "answer is 0. Named: keys that are published (of the frequent ones). Coverage: of 95 % intervals, over all present "
    "keys. Release: from bounded counts or rows in memory to what is published. Process: from start to end, with "
    "reading and "
    "answering. Memory: the most of the whole process until the release is made, with its interpreter, libraries and "
    "data. The first rows are references, computed from the law of their noise: dense noise needs a list of all keys "
    "that could occur, and sparse noise is published above a threshold, with 0 for all other keys. Most keys "
    "are rare, so over all keys 0 may err less than any noise: look at the frequent ones."
)
OTHERS = ("OpenDP", "PipelineDP", "PyDP", "Tumult")
REFERENCES = (
    "0 for every key",
    "dense geometric noise",
    "dense Gaussian noise",
    "sparse geometric noise",
    "sparse Gaussian noise",
)


def section(facts: Mapping[str, Any], blocks: Mapping[str, Any], cannot: Mapping[str, str]) -> Section:
    """The part of the report."""
    bounds = {name: one for name, one in facts.items() if name.startswith("m = ")}
    counted = "; ".join(
        f"{name}: {one['keys']:,} keys, {one['total']:,} in all, {one['largest']:,} at most"
        for name, one in bounds.items()
    )
    pure, approximate, *_ = blocks
    return Section(
        "users",
        "People with many keys",
        f"The identifiers of {facts['files']:,} files of Python {platform.python_version()} and its packages, "
        f"{facts['rows']:,} in all. A file is a person, and adds 1 to at most m keys ({counted}). ε = 1 for all that a "
        "person does, sizes estimated, one release each. Libraries that bound contributions themselves get rows with "
        f"these counts, the others the counts. {_versions(blocks)}",
        {"facts": dict(facts), "blocks": dict(blocks), "cannot": dict(cannot)},
        figures=[
            Drawn(
                "users-errors",
                _errors_found(pure, blocks[pure], approximate, blocks[approximate]),
                lambda f: _draw_errors(f, {pure: blocks[pure], approximate: blocks[approximate]}),
                (7.5, 6.5),
            ),
            Drawn(
                "users-names",
                _names_found(approximate, blocks[approximate]),
                lambda f: _draw_names(f, {name: one for name, one in blocks.items() if not name.endswith("= 0")}),
                (7.5, 4.8),
            ),
        ],
        grids=[
            *(Grid(name, HEADER, [_row(*one) for one in rows.items()]) for name, rows in blocks.items()),
            Grid("What they cannot do", ["library", "cannot"], [[name, words] for name, words in cannot.items()], NOTE),
        ],
    )


def _versions(blocks: Mapping[str, Any]) -> str:
    """Which version of each library was measured, on which Python."""
    found = {}
    for rows in blocks.values():
        for name, row in rows.items():
            library = name.partition(",")[0]
            if name.startswith(OTHERS) and row.get("version"):
                found[library] = f"{library} {row['version']} on Python {row['python']}"
    return f"Measured: {', '.join(found.values())}." if found else "No other library is installed here."


def _row(name: str, one: Any) -> list[str]:
    if "refused" in one:
        return [name, one["refused"]]
    error = one["errors"]
    coverage = f"{100 * one['coverage']:.1f} %" if one.get("coverage") is not None else "–"
    bytes_ = [size(one[key]) if one.get(key) else "–" for key in ("nbytes", "memory")]
    cells = [number(error[group]) for group in ("all", "frequent", "absent")]
    named = one.get("named")
    cells += ["–" if named is None else f"{_whole(named)} ({_whole(one['frequent'])})", coverage, bytes_[0]]
    return [name, *cells, duration(one.get("seconds")), duration(one.get("process")), bytes_[1]]


def _whole(names: float) -> str:
    """A number of keys; expectations have a digit more."""
    return f"{round(names, 1):,g}"


def _errors_found(pure: str, without: Any, approximate: str, with_delta: Any) -> str:
    dense = without["dense geometric noise"]["errors"]
    parts = []
    for title, rows, name in ((pure, without, "tight-alp"), (approximate, with_delta, "retrieval, Gaussian")):
        one = rows[name]
        if "errors" in one:
            parts.append(
                f"{title}: {name} errs by {number(one['errors']['all'])} over all keys and by "
                f"{number(one['errors']['frequent'])} over the {FREQUENT} most frequent"
            )
    noise = f"dense geometric noise, with a list of all keys, by {number(dense['all'])} and {number(dense['frequent'])}"
    return f"{'; '.join([*parts, noise])}."


def _names_found(title: str, rows: Any) -> str:
    named = {name: one["frequent"] for name, one in rows.items() if one.get("frequent") is not None}
    theirs = {name: value for name, value in named.items() if name.startswith(OTHERS)}
    ours = {name: value for name, value in named.items() if name not in REFERENCES and name not in theirs}
    words = f"{title}: of the {FREQUENT} most frequent keys, "
    best = [max(group.items(), key=lambda one: one[1]) for group in (ours, theirs) if group]
    words += ", ".join(f"{name} names {value:,}" for name, value in best)
    return f"{words}; a sparse histogram with Gaussian noise {_whole(named['sparse Gaussian noise'])} in expectation."


def _draw_errors(figure: Any, blocks: Mapping[str, Any]) -> None:
    measured = [{name: one for name, one in rows.items() if "errors" in one} for rows in blocks.values()]
    panels = figure.subplots(len(blocks), 1, sharex=True, height_ratios=[len(rows) for rows in measured])
    for axes, title, rows in zip(panels, blocks, measured, strict=True):
        places = np.arange(len(rows))[::-1]
        for group, marker, label in (("all", "o", "all keys"), ("frequent", "D", f"{FREQUENT} most frequent")):
            axes.plot([one["errors"][group] for one in rows.values()], places, marker, label=label)
        axes.set_yticks(places, list(rows))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        axes.set_title(title)
        axes.margins(y=0.5 / len(rows))
    panels[0].legend(fontsize="small")
    panels[-1].set_xlabel("mean absolute error")


def _draw_names(figure: Any, blocks: Mapping[str, Any]) -> None:
    (panels,) = figure.subplots(1, len(blocks), sharey=True, squeeze=False)
    for axes, (title, rows) in zip(panels, blocks.items(), strict=True):
        named = {name: one["frequent"] for name, one in rows.items() if one.get("frequent") is not None}
        places = np.arange(len(named))[::-1]
        colours = ["C2" if name in REFERENCES else "C1" if name.startswith(OTHERS) else "C0" for name in named]
        bars = axes.barh(places, list(named.values()), color=colours)
        axes.bar_label(bars, [_whole(value) for value in named.values()], padding=2, fontsize="small")
        axes.set_yticks(places, list(named))
        axes.set_title(title)
        axes.set_xlabel(f"named of the {FREQUENT} most frequent")
        axes.margins(x=0.15)
