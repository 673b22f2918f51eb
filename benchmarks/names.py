"""`python -m benchmarks.names`: how many keys can be named when a person has many, beside the best
that Gaussian noise can do.

Workload: the identifiers of `benchmarks.users`, ε = 1. All numbers are expectations, computed from the
laws of the noise, so that they do not vary. The reference is a sparse histogram with continuous
Gaussian noise (`references.SparseGaussian`), which answers 0 for every other key; so does
`stability`, and `retrieval` answers for all. A table on stdout, or `--json`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import sparsedp
from sparsedp.experiments import identifiers
from sparsedp.experiments.judging import Integers
from sparsedp.experiments.references import Dense
from sparsedp.mechanisms.retrieval import RetrievalPlan
from sparsedp.mechanisms.stability import StabilityPlan
from sparsedp.privacy.contributions import BoundedCounts
from sparsedp.privacy.cut_laws import CutLaw
from sparsedp.privacy.laws import TwoSided

from .users import EPSILON, corpus_in

BOUNDS = (3, 5, 20, 50, 100, 500)
DELTAS = (1e-9, 1e-6)
GOAL = 0.98  # of the reference, by `stability`


@dataclass(frozen=True)
class Names:
    """What is named with one bound and one δ."""

    keys_per_user: int
    delta: float
    reference: float
    stability: float
    retrieval: float  # with Gaussian noise and kept keys
    stability_from: int  # the smallest noisy count that is named
    retrieval_from: int


def expected(law: CutLaw | TwoSided, threshold: int, counts: Integers) -> float:
    """How many of these counts reach the threshold with noise, on average."""
    sizes, numbers = np.unique(counts, return_counts=True)
    chances = [_at_least(law, threshold - size) for size in sizes.tolist()]
    return float(numbers @ np.array(chances))


def _at_least(law: CutLaw | TwoSided, missing: int) -> float:
    """P[noise ≥ missing] for noise that is symmetric."""
    return float(law.at_least(missing)) if missing > 0 else 1 - float(law.at_least(1 - missing))


def named(counts: BoundedCounts, delta: float) -> Names:
    """What the mechanisms name of these counts."""
    bound = counts.contribution.keys
    found = {}
    for mechanism in ("stability", "retrieval"):
        plan = sparsedp.plan(
            epsilon=EPSILON,
            delta=delta,
            mechanism=mechanism,
            noise="gaussian",
            max_keys_per_user=bound,
            nonzero=len(counts),
            keep_keys=True,
        )
        if isinstance(plan, StabilityPlan):
            law: CutLaw | TwoSided = plan.stage.noise
            threshold = plan.stage.threshold
        else:
            assert isinstance(plan, RetrievalPlan)
            law, threshold = plan.noise, plan.smallest_stored
        found[mechanism] = expected(law, threshold, counts.units), threshold
    (stable, stable_from), (retrieved, retrieved_from) = found.values()
    reference = Dense(bound, EPSILON, delta).names(counts.units)
    return Names(bound, delta, reference, stable, retrieved, stable_from, retrieved_from)


def measure(corpus: identifiers.Corpus, bounds: Sequence[int] = BOUNDS) -> Iterator[Names]:
    """A row for each bound and δ."""
    for bound in bounds:
        counts = sparsedp.count(str(corpus.path), key="key", user="user", max_keys_per_user=bound)
        for delta in DELTAS:
            yield named(counts, delta)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute everything, and print it."""
    parser = argparse.ArgumentParser(prog="benchmarks.names", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--corpus", type=Path, nargs="+", metavar="FOLDER", help="read the Python files of these")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        corpus = corpus_in(Path(folder), chosen.corpus or identifiers.folders())
        rows = list(measure(corpus))
    least = min(row.stability / row.reference for row in rows)
    if chosen.json:
        print(json.dumps({"least": least, "goal": GOAL, "rows": [asdict(row) for row in rows]}, indent=2))
        return
    print("| m | δ | reference names | `stability` | from | `retrieval` | from |\n|---|---|---|---|---|---|---|")
    for row in rows:
        cells = [f"{row.keys_per_user}", f"{row.delta:g}", f"{row.reference:.1f}"]
        cells += [f"{row.stability:.1f} ({row.stability / row.reference:.1%})", f"{row.stability_from}"]
        cells += [f"{row.retrieval:.1f} ({row.retrieval / row.reference:.1%})", f"{row.retrieval_from}"]
        print(f"| {' | '.join(cells)} |")
    print(f"\nstability names at least {least:.1%} of the reference (goal: {GOAL:.0%})")


if __name__ == "__main__":
    main()
