"""The figure of how times grow, from what `python -m benchmarks.growth` measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .drawing import Palette, axes_of

FILE = Path(__file__).parents[1] / "figures" / "growth.json"


def measured() -> Any:
    """Nanoseconds of lookups, of a gather and of builds, at each number of keys."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def growth(palette: Palette) -> Figure:
    """Lookups and builds as the number of keys grows."""
    found = measured()
    keys = found["keys"]
    figure, (above, below) = axes_of(5.2, palette, 2, sharex=True)
    for name, colour in (("tight-alp", palette.ours), ("retrieval", palette.other)):
        above.plot(keys, found[name]["lookup"], "o-", color=colour, label=name)
        below.plot(keys, found[name]["build"], "o-", color=colour, label=name)
    above.plot(keys, found["tight-alp"]["gather"], "--", color=palette.limit, label="a random cache line")
    above.set(title="One lookup of many, in one thread: ns", xscale="log", ylim=(0, 35))
    below.set(title="A build, for each key, in two threads: ns", ylim=(0, None), xlabel="number of keys")
    below.set_xticks(keys, ["10⁴", "10⁵", "10⁶", "10⁷", "10⁸"])
    for axes, place in ((above, "upper left"), (below, "upper right")):
        axes.minorticks_off()
        axes.legend(loc=place)
        axes.grid()
    return figure
