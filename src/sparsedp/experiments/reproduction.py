"""All experiments in order, and the report: index.html, figures, results.json."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType

from ..errors import ParameterError
from ..format.container import replacing
from ..mechanisms.compact import import_flint
from . import corpus, error_bound, error_distribution, growth, observed_error, peers, table_one, users, worked_example
from .drawing import THEMES, check_drawing, svg, write_png
from .page import page
from .sections import Section
from .study import Study, program_digest

EXPERIMENTS: dict[str, ModuleType] = {
    "worked-example": worked_example,
    "error-bound": error_bound,
    "observed-error": observed_error,
    "error-distribution": error_distribution,
    "table-one": table_one,
    "growth": growth,
    "peers": peers,
    "corpus": corpus,
    "users": users,
}
SEED = 2021


def reproduce(
    out: Path,
    quick: bool,
    only: Sequence[str] = (),
    say: Callable[[str], None] = print,
    seed: int = SEED,
    with_peers: bool = False,
) -> list[Section]:
    """Run the experiments (or some of them) and write the report; results of an interrupted run are
    used. With `with_peers`, other libraries are installed into environments of their own.
    """
    for name in only:
        if name not in EXPERIMENTS:
            raise ParameterError(f"there is no experiment {name!r}; choose from {', '.join(EXPERIMENTS)}")
    # Minutes of work follow, so anything that would be missing at their end is reported first.
    check_drawing()
    import_flint()  # for `compact`
    absent = peers.missing()
    if absent and "peers" in (only or EXPERIMENTS):
        say(f"{' and '.join(absent)} will be missing from the comparison: pip install 'sparsedp[peers]'")
    out.mkdir(parents=True, exist_ok=True)
    study = Study(out / "pieces", quick, seed, with_peers, say)
    start = time.perf_counter()
    sections = []
    for name in only or EXPERIMENTS:
        say(f"{name} …")
        sections.append(EXPERIMENTS[name].run(study))
    facts = {
        "command": f"sparsedp reproduce --out {out.name}" + " --quick" * quick + " --peers" * with_peers,
        "version": f"sparsedp {metadata.version('sparsedp')}, program {program_digest()}",
        "seed": str(seed),
        "time": f"{time.perf_counter() - start:.0f} s, without what an earlier run had computed",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
    }
    _write(out, sections, facts, quick)
    return sections


def _write(out: Path, sections: Sequence[Section], facts: dict[str, str], quick: bool) -> None:
    figures = out / "figures"
    figures.mkdir(exist_ok=True)
    pictures = {}
    for drawn in (drawn for section in sections for drawn in section.figures):
        pictures[drawn.name] = {theme: svg(drawn, theme) for theme in THEMES}
        write_png(drawn, figures / f"{drawn.name}.png")
        (figures / f"{drawn.name}.svg").write_bytes(pictures[drawn.name]["light"])
    results = {
        "facts": facts,
        "checks": [vars(check) | {"reached": check.reached} for section in sections for check in section.checks],
        "captions": {drawn.name: drawn.caption for section in sections for drawn in section.figures},
        "sections": {section.name: section.data for section in sections},
    }
    introduction = (
        "Every figure and number of Section 6 of “Differentially Private Sparse Vectors with Low Error, Optimal "
        "Space, and Fast Access” (Aumüller, "
        "Lebeda, Pagh, CCS 2021), computed with this package, followed by what the paper could not measure: all "
        "mechanisms and other libraries on the same data."
    )
    if quick:
        introduction += " A quick run: fewer points and runs than the full report."
    html = page("sparsedp: the paper reproduced, and where we stand", introduction, sections, pictures, facts)
    for name, content in {"results.json": json.dumps(results, indent=1), "index.html": html}.items():
        with replacing(out / name) as file:
            file.write(content.encode())
