"""`python docs/making/figures.py`: draw every figure of the pages, for light and for dark ones.

Each file says what it was drawn from: the code that draws, and the values. `stale` compares.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

if __package__ in (None, ""):  # run as a program
    sys.path.insert(0, str(Path(__file__).parents[1]))

from making import curves, growth, ideas, unary
from making.drawing import DARK, LIGHT, Palette

FOLDER = Path(__file__).parents[1] / "figures"
CODE = ("curves.py", "drawing.py", "growth.py", "ideas.py", "unary.py")

# What is drawn, and the values that it shows, if a planner or a release made them.
FIGURES: dict[str, tuple[Callable[[Palette], Figure], Callable[[], Any]]] = {
    "overview": (curves.overview, curves.visits),
    "error-by-count": (curves.error_by_count, curves.by_count),
    "threshold-alp": (curves.parts_of_threshold_alp, curves.by_count),
    "cost-of-keys": (curves.cost_of_keys, lambda: [curves.by_bound(), curves.kept_shares()]),
    "intervals": (curves.intervals, curves.repeated),
    "every-day": (curves.every_day, curves.month),
    "ladder": (ideas.ladder, ideas.ladder_laws),
    "linear-system": (ideas.linear_system, ideas.bucket_edges),
    "laplace": (ideas.dense_noise, ideas.noisy_counts),
    "stored": (ideas.stored, ideas.stored_chances),
    "threshold": (ideas.threshold, ideas.many_noisy),
    "tight-alp": (unary.two_stages, lambda: []),
    "alp": (unary.bits, lambda: []),
    "compact": (unary.polynomial, lambda: []),
    "growth": (growth.growth, growth.measured),
}
VERSIONS = {"": LIGHT, "-dark": DARK}


def draw(name: str, palette: Palette) -> str:
    """A figure as SVG."""
    make, values = FIGURES[name]
    origin = json.dumps({"code": code(), "values": _rounded(values())}, separators=(",", ":"))
    text = StringIO()
    with matplotlib.rc_context(palette.settings):
        make(palette).savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Description": origin})
    return re.sub(r"[ \t]+$", "", text.getvalue(), flags=re.MULTILINE)


def code() -> str:
    """A digest of the code that draws."""
    sources = b"".join((Path(__file__).parent / name).read_bytes() for name in CODE)
    return hashlib.sha256(sources).hexdigest()[:16]


def stale(name: str) -> str | None:
    """Why a figure would be drawn otherwise today, if it would."""
    current = _numbers(FIGURES[name][1]())
    for version in VERSIONS:
        path = FOLDER / f"{name}{version}.svg"
        found = re.search(r"<dc:description>(.*?)</dc:description>", path.read_text(encoding="utf-8"), re.DOTALL)
        if found is None:
            return f"{path.name} does not say what it was drawn from"
        origin = json.loads(unescape(found[1]))
        if origin["code"] != code():
            return f"{path.name} was drawn by other code"
        if not _same(_numbers(origin["values"]), current):
            return f"{path.name} shows other values"
    return None


def _same(drawn: list[float], current: list[float]) -> bool:
    """Whether nobody could see the difference: machines differ in the last bits of predictions."""
    return len(drawn) == len(current) and bool(np.allclose(drawn, current, rtol=0.01, atol=0.01))


def _numbers(values: Any) -> list[float]:
    if isinstance(values, dict):
        values = list(values.values())
    return (
        [number for value in values for number in _numbers(value)]
        if isinstance(values, list | tuple)
        else [float(values)]
    )


def _rounded(values: Any) -> list[float]:
    return [float(f"{number:.4g}") for number in _numbers(values)]


if __name__ == "__main__":
    for figure in sys.argv[1:] or FIGURES:
        for version, colours in VERSIONS.items():
            (FOLDER / f"{figure}{version}.svg").write_text(draw(figure, colours), encoding="utf-8")
        print(figure)
