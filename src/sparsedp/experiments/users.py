"""People with many keys: the identifiers of installed Python files, by every mechanism here, by
references, and by other libraries.

Each release is made in a process of its own (`drivers`), from the same bounded counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..counting.local import count
from ..privacy.randomness import reproducible_for_tests
from . import identifiers, users_page
from .environments import Environment, Peer, created, nonsense, own, run_driver
from .judging import Questions, ask, coverage, dealt, errors, published, questions, sampled
from .references import SparseGaussian, SparseGeometric, dense_errors, dense_gaussian_errors
from .sections import Section
from .study import Study, Work

EPSILON, DELTA = 1.0, 1e-6
BOUNDS = (20, 1)  # keys of a user
FILES = {"quick": 800, "full": 5000}
ABSENT = {"quick": 2000, "full": 10_000}

PURE = ("tight-alp", "threshold", "threshold-alp", "alp", "compact", "laplace")
NAMING = ("retrieval, geometric", "retrieval, Gaussian", "stability, geometric", "stability, Gaussian")
APPROXIMATE = ("tight-alp", *NAMING, "threshold-alp")
REFUSED = {
    "compact": "takes time quadratic in the keys to build",
    "laplace": "needs a counter for every key of a domain that is listed: that of texts is not",
}

PEERS = (
    Peer(
        "OpenDP",
        "opendp",
        "opendp",
        "opendp",
        ("ALP",),
        ("Laplace", "Gaussian"),
        "Counts must be bounded before. With δ, keys below its threshold have no answer. Its ALP answers for any key, "
        "one at a time and given the true total, which nobody may know; no names, no files. No intervals. The δ of its "
        "threshold with Laplace noise is refuted by sparsedp audit --mechanism opendp:laplace_threshold.",
    ),
    Peer(
        "PipelineDP",
        "pipelinedp",
        "pipeline-dp",
        "pipeline_dp",
        (),
        ("Laplace", "Gaussian"),
        "No answer for keys that it does not select; pure privacy only for a public list of keys; no intervals.",
    ),
    Peer(
        "PyDP",
        "pydp",
        "python-dp",
        "pydp",
        (),
        ("Laplace", "Gaussian"),
        "Counts must be bounded before, and come one at a time. No answer for keys that it does not select; pure "
        "privacy only for a public list of keys; no intervals for selected keys.",
    ),
    Peer(
        "Tumult Analytics",
        "tumult",
        "tmlt.analytics",
        "tmlt",
        (),
        ("Laplace",),
        "Needs Java and Spark. Selects keys and counts them in two steps that share ε. No answer for keys that it does "
        "not select; pure privacy only for a public list of keys; no intervals.",
    ),
)
SELECTS = "needs δ > 0, or a public list of all keys"


def run(study: Study) -> Section:
    """A table for each bound on the keys of a user and each δ."""
    environments = {peer.name: _environment(study, peer) for peer in PEERS}
    mode, bounds = ("quick", BOUNDS[:1]) if study.quick else ("full", BOUNDS)
    study.place.mkdir(parents=True, exist_ok=True)
    rows = study.place / identifiers.NAME
    data = {bound: study.place / f"users-{bound}.json" for bound in bounds}
    facts = study.pieces("Users, their keys", {"all": partial(collect, rows, FILES[mode])})["all"]
    counted = study.pieces(
        "Users, counted",
        {f"m = {bound}": partial(prepare, rows, data[bound], bound, ABSENT[mode], study.seed) for bound in bounds},
    )
    settings = {f"m = {bound}, δ = {_power(delta)}": (bound, delta) for bound in bounds for delta in (0.0, DELTA)}
    tasks = {name: dict(_tasks(data[bound], bound, delta, environments)) for name, (bound, delta) in settings.items()}
    place = "own environments" if study.peers else "here"
    titles = {name: {f"{name}, {row}, {place}": row for row in own} for name, own in tasks.items()}
    found = study.pieces(
        "Users", {title: tasks[name][row] for name, own in titles.items() for title, row in own.items()}
    )
    blocks = {
        name: references(read(data[bound]), bound, delta)
        | {row: found[title] for title, row in titles[name].items()}
        | dict(_absent(environments, delta))
        for name, (bound, delta) in settings.items()
    }
    return users_page.section(facts | counted, blocks, {peer.name: peer.cannot for peer in PEERS})


def _power(delta: float) -> str:
    return f"{delta:g}".replace("e-0", "e-")


def _environment(study: Study, peer: Peer) -> Environment:
    return created(peer, study.folder.parent / "environments", study.say) if study.peers else own(peer)


def _tasks(data: Path, bound: int, delta: float, environments: Mapping[str, Environment]) -> Iterator[tuple[str, Work]]:
    """A piece of work for each row that is measured: ours, and then those of the other libraries."""
    for way in APPROXIMATE if delta else PURE:
        if way in REFUSED:
            yield way, partial(dict, refused=REFUSED[way])
        else:
            yield way, partial(measure_ours, way, data, bound, delta)
    for peer in PEERS:
        python = environments[peer.name].python
        if python is None:
            continue
        for way in peer.ways(delta):
            yield f"{peer.name}, {way}", partial(measure, python, peer.driver, way, data, bound, delta)


def _absent(environments: Mapping[str, Environment], delta: float) -> Iterator[tuple[str, dict[str, str]]]:
    """A row with the reason for each library that is not measured."""
    for peer in PEERS:
        if not peer.ways(delta):
            yield peer.name, {"refused": SELECTS}
        elif environments[peer.name].python is None:
            yield peer.name, {"refused": environments[peer.name].refused}


def collect(path: Path, most: int, places: Sequence[Path] | None = None) -> dict[str, int]:
    """Write the rows, and say how many there are."""
    corpus = identifiers.write(places or identifiers.folders(), path, most)
    return {"files": corpus.users, "rows": corpus.rows}


def prepare(rows: Path, out: Path, bound: int, absent: int, seed: int) -> dict[str, int]:
    """Write what the drivers read: the counts to which a file adds 1 for at most so many keys."""
    with reproducible_for_tests(seed):
        counts = count(str(rows), key="key", user="user", max_keys_per_user=bound, max_per_key=1)
    asked = ask(counts, absent, seed)
    users, places = dealt(asked.present, bound)
    data = {
        "keys": asked.keys.to_pylist(),
        "counts": asked.present.tolist(),
        "rows": list(zip(users.tolist(), places.tolist(), strict=True)),
        "asked": sampled(asked, seed),
        "seed": seed,
    }
    out.write_text(json.dumps(data), encoding="utf-8")
    return {"keys": len(asked.present), "total": int(asked.present.sum()), "largest": int(asked.present.max())}


def read(path: Path) -> Questions:
    """The questions of prepared data."""
    data = json.loads(path.read_text(encoding="utf-8"))
    counts = np.array(data["counts"], np.int64)
    return questions(data["keys"], counts, len(data["keys"]) - len(counts))


def measure(python: Path, driver: str, way: str, data: Path, bound: int, delta: float) -> dict[str, Any]:
    """The figures of one release, or why there is none."""
    found = run_driver(python, driver, way, data, {"keys-per-user": bound, "epsilon": EPSILON, "delta": delta})
    if "refused" in found:
        return found
    try:
        return judge(read(data), found)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        return {"refused": nonsense(error)}


def measure_ours(way: str, data: Path, bound: int, delta: float) -> dict[str, Any]:
    """The same for a mechanism here, whose failure is ours."""
    found = measure(Path(sys.executable), "sparsedp", way, data, bound, delta)
    if "refused" in found:
        raise RuntimeError(f"{way}: {found['refused']}")
    return found


def judge(asked: Questions, found: dict[str, Any]) -> dict[str, Any]:
    """Errors, names and coverage of an answer, and what else it says."""
    estimates = published(asked, found["estimates"])
    named = found.get("named")
    if named is None:  # an answer for every key; where there is none, that key was not asked for
        given = np.zeros(len(estimates), bool)
        given[list(found["estimates"])] = True
        estimates[~given] = np.nan
    judged = {name: found[name] for name in ("seconds", "process", "memory", "version", "python")}
    judged["nbytes"] = found.get("nbytes")
    judged["errors"] = errors(asked, estimates)
    judged["named"] = None if named is None else len(named)
    judged["frequent"] = None if named is None else len(np.intersect1d(named, asked.groups["frequent"]))
    if "low" in found:
        judged["coverage"] = coverage(asked, np.array(found["low"]), np.array(found["high"]))["all"]
    return judged


def references(asked: Questions, bound: int, delta: float) -> dict[str, dict[str, Any]]:
    """Nothing, dense noise, which needs a list of all keys, and with δ sparse histograms."""
    counts, frequent = asked.present, asked.truth[asked.groups["frequent"]]
    rows: dict[str, dict[str, Any]] = {
        "0 for every key": {"errors": errors(asked, np.zeros(len(asked.truth)))},
        "dense geometric noise": {"errors": dense_errors(asked, bound / EPSILON)},
    }
    if delta:
        rows["dense Gaussian noise"] = {"errors": dense_gaussian_errors(asked, bound, EPSILON, delta)}
        for name, sparse in (
            ("sparse geometric noise", SparseGeometric.least(bound, EPSILON, delta)),
            ("sparse Gaussian noise", SparseGaussian.best(bound, EPSILON, delta, counts)),
        ):
            names = {"named": sparse.names(counts), "frequent": sparse.names(frequent)}
            rows[name] = {"errors": sparse.errors(asked), **names}
    return rows
