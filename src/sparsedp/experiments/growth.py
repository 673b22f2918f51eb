"""How space and time grow with k, d, 1/ε and u, and the asymptotics of the paper's Table 1 drawn
over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from .sections import Drawn, Section
from .study import Study
from .table_one import MECHANISMS, colour_of
from .workloads import Workload, measure

Size = Callable[[float, float, float, float], float]

# mechanism → bits and steps of a lookup as functions of k, d, ε and u, up to constants
SPACE: dict[str, Size] = {
    "laplace": lambda k, d, e, u: d * math.log2(u),
    "threshold": lambda k, d, e, u: k * math.log2(d + u),
    "compact": lambda k, d, e, u: k * math.log2(d),
    "alp": lambda k, d, e, u: k * u * e,
    "threshold-alp": lambda k, d, e, u: k * math.log2(d + u),
    "tight-alp": lambda k, d, e, u: k * math.log2(d + u),
    "stability": lambda k, d, e, u: k * math.log2(d + u),
    "retrieval": lambda k, d, e, u: k,
}
ACCESS: dict[str, Size] = {
    "laplace": lambda k, d, e, u: 1,
    "threshold": lambda k, d, e, u: 1,
    "compact": lambda k, d, e, u: k,
    "alp": lambda k, d, e, u: u * e,
    "threshold-alp": lambda k, d, e, u: math.log2(d),
    "tight-alp": lambda k, d, e, u: 1,
    "stability": lambda k, d, e, u: 1,
    "retrieval": lambda k, d, e, u: 1,
}


def run(study: Study) -> Section:
    """Four sweeps around k = 10⁴ (100 in a quick run), d = 2⁶⁴, ε = 1, u = 1000."""
    points = _points(study.quick)
    tasks = {}
    for sweep, values in points.items():
        for value, (keys, domain, epsilon, upper) in values.items():
            for mechanism in MECHANISMS:
                work = partial(measure, Workload(keys, domain, upper), mechanism, epsilon, study.seed)
                tasks[f"{sweep} = {value:g}, {mechanism}"] = work
    found = study.pieces("Growth", tasks)
    curves: dict[str, Any] = {}
    for sweep, values in points.items():
        for mechanism in MECHANISMS:
            measured = [
                (value, found[f"{sweep} = {value:g}, {mechanism}"], parameters) for value, parameters in values.items()
            ]
            done = [(value, one, parameters) for value, one, parameters in measured if "lookup" in one]
            if len(done) > 1:
                curves.setdefault(sweep, {})[mechanism] = {
                    "values": [value for value, _, _ in done],
                    "bits": [one["bits"] * parameters[0] for _, one, parameters in done],
                    "lookup": [one["lookup"] for _, one, _ in done],
                    "build": [one["build"] for _, one, _ in done],
                    "space": [SPACE[mechanism](*parameters) for _, _, parameters in done],
                    "access": [ACCESS[mechanism](*parameters) for _, _, parameters in done],
                }
    largest = max(points["k"])
    flat = curves["k"]["tight-alp"]["bits"]
    return Section(
        "growth",
        "How space and time grow",
        "Solid: measured. Dashed: the asymptotics of the paper's Table 1 with the constant of the first point. One "
        f"parameter varies, the others are k = {'100' if study.quick else '10⁴'}, "
        "d = 2⁶⁴, ε = 1, u = 1000. Times are from one run on a shared machine.",
        curves,
        figures=[
            Drawn(
                "growth-space",
                f"Space follows the paper's asymptotics: tight-alp takes {flat[-1] / largest:.3g} bits per key at k = "
                f"{largest:g} and does not grow with d or u "
                "beyond its table; alp alone grows with u.",
                lambda f: _draw(f, curves, "bits", "space", "bits"),
                (9, 4.6),
            ),
            Drawn(
                "growth-lookup",
                "One lookup of tight-alp and retrieval takes constant time except for cache misses; alp's grows "
                "with u, compact's with k.",
                lambda f: _draw(f, curves, "lookup", "access", "seconds of a lookup"),
                (9, 4.6),
            ),
            Drawn(
                "growth-build",
                "Builds are linear in k, apart from planning (up to half a second); compact's are quadratic.",
                lambda f: _draw(f, curves, "build", None, "seconds of a build"),
                (9, 4.6),
            ),
        ],
    )


def _points(quick: bool) -> dict[str, dict[float, tuple[int, int, float, int]]]:
    k, d, e, u = 100 if quick else 10**4, 2**64, 1.0, 1000  # the time of `compact` grows with k²
    step = 2 if quick else 1
    return {
        "k": {float(n): (n, d, e, u) for n in (100, 300, 1000, 3000, 10**4, 10**5, 10**6)[: 4 if quick else None]},
        "d": {2.0**n: (k, 2**n, e, u) for n in (18, 24, 32, 40, 48, 56, 64)[::step]},
        "1/ε": {1 / x: (k, d, x, u) for x in (4.0, 2.0, 1.0, 0.5, 0.2, 0.1)[::step]},
        "u": {float(n): (k, d, e, n) for n in (30, 100, 300, 1000, 3000, 10**4)[::step]},
    }


def _draw(figure: Any, curves: Any, measured: str, law: str | None, label: str) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    for axes, (sweep, lines) in zip(figure.subplots(1, 4, sharey=True), curves.items(), strict=True):
        for mechanism, line in lines.items():
            shown = [y or math.nan for y in line[measured]]  # a logarithmic axis has no zero
            axes.plot(line["values"], shown, "o-", color=colour_of(mechanism), label=mechanism, markersize=3)
            if law is not None:
                constant = line[measured][0] / line[law][0]
                axes.plot(
                    line["values"], [constant * x for x in line[law]], "--", color=colour_of(mechanism), alpha=0.6, lw=1
                )
        axes.set_xscale("log", base=2 if sweep == "d" else 10)
        axes.xaxis.set_major_locator(LogLocator(2 if sweep == "d" else 10, numticks=4))
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(sweep)
    figure.axes[0].set_ylabel(label)
    handles = {line.get_label(): line for axes in figure.axes for line in axes.lines if line.get_label()[0] != "_"}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize="small")
