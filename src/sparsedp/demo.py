"""`python -m sparsedp.demo`: release the word counts of a long book, and compare estimates with the
truth.

The release is ε-differentially private for one occurrence of one word. The true counts printed
beside the estimates are not private: only a demo may show them.
"""

from __future__ import annotations

import csv
import errno
import io
import math
import os
import random
import sys
import textwrap
import timeit
from collections import Counter
from datetime import date, timedelta
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .format.container import replacing
from .mechanisms import Plan
from .releasing.building import release
from .releasing.published import Release

EPSILON = 1.0
PUBLIC_BOUND = 20_000  # on the number of different words: a round figure, not read off the data

# From frequent to rare, and two words that are not in the book.
WORDS = ("the", "lord", "king", "jerusalem", "river", "honey", "eagle", "camel", "rainbow", "ostrich")
ABSENT = ("telephone", "internet")

ABSENT_WORDS = 10_000
PREDICTIONS = 5  # each is a simulation, so only this many words represent their group


def load_sample() -> dict[str, int]:
    """The words of the King James Bible and how often each occurs (data/README.md)."""
    with files("sparsedp").joinpath("data/kjv_words.csv").open(encoding="ascii") as file:
        return {row["word"]: int(row["count"]) for row in csv.DictReader(file)}


def write_log(path: str | os.PathLike[str]) -> None:
    """Write a made-up log of visits, the same each time: a few pages that everyone opens, and many
    that few do. It appears whole or not at all, and replaces nothing.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))
    choice, rows = random.Random(7), io.StringIO(newline="")
    writer = csv.writer(rows)
    writer.writerow(["time", "user", "url"])
    for second in range(40_000):
        page = int(choice.paretovariate(0.7))
        url = "/" if page == 1 else f"/page/{page % 10**6}"
        writer.writerow([1_700_000_000 + second, f"user-{choice.randrange(2_000)}", url])
    with replacing(Path(path)) as file:
        file.write(rows.getvalue().encode("ascii"))


def write_releases(folder: Path) -> tuple[list[Path], Path]:
    """Releases to look at: the words of the book, for any word and with the names of frequent ones,
    and a folder with a series of made-up visits on fourteen days.
    """
    counts, words = load_sample(), [folder / "words.sparsedp", folder / "frequent-words.sparsedp"]
    release(counts, epsilon=EPSILON, nonzero=PUBLIC_BOUND).save(words[0])
    release(counts, epsilon=EPSILON, delta=1e-6, nonzero=PUBLIC_BOUND, keep_keys=True).save(words[1])
    days = folder / "days"
    days.mkdir()
    choice = random.Random(7)
    for number in range(14):
        day = date(2026, 11, 1) + timedelta(number)
        visitors = 900 if day.weekday() < 5 else 400
        visits = Counter(f"/page/{int(choice.paretovariate(0.9)) % 10**6}" for _ in range(visitors))
        release(visits, epsilon=EPSILON, nonzero=1000).save(days / f"{day}.sparsedp")
    return words, days


def main() -> None:
    """Release the sample and print what a reader of the release sees."""
    counts = load_sample()
    _progress(f"the sample: {len(counts):,} words, {sum(counts.values()):,} occurrences; releasing ...")
    released = release(counts, epsilon=EPSILON, nonzero=PUBLIC_BOUND)
    _print_release(released, len(counts))
    _print_words(released, counts)
    _progress("predicting the error from what is published ...")
    _print_errors(released, counts)


def _print_release(released: Release, words: int) -> None:
    plan = released.plan
    _paragraph(
        f"Released with {plan.mechanism} ({plan.reason}): exact ε = {plan.epsilon:.6f} (at most {EPSILON:g} "
        f"was allowed), δ = {plan.delta:g}, {released.nbytes:,} bytes, "
        f"{8 * released.nbytes / words:.1f} bits per word."
    )
    _paragraph(
        "The release answers for any word, in the book or not. One occurrence of a word more or less changes "
        f"the probability of any outcome by a factor of at most e^ε = {math.exp(plan.epsilon):.2f}."
    )


def _print_words(released: Release, counts: dict[str, int]) -> None:
    words = [*WORDS, *ABSENT]
    estimates, (lows, highs) = released.lookup(words), released.interval(words, confidence=0.95)
    _row("word", "estimate", "95 % interval", "truth")
    for word, estimate, low, high in zip(words, estimates, lows, highs, strict=True):
        _row(word, f"{estimate:,.1f}", f"{low:,.0f} to {high:,.0f}", f"{counts.get(word, 0):,}")
    print()
    _paragraph(
        "Each interval contains its true count with 95 % confidence. The errors of all words, next to those that "
        "the plan of the release predicts:"
    )


def _print_errors(released: Release, counts: dict[str, int]) -> None:
    truth = np.array(list(counts.values()), np.int64)
    errors = np.abs(released.lookup(list(counts)) - truth)
    absent = [f"absent-{number}" for number in range(ABSENT_WORDS)]  # no word of the sample has a digit
    answers = released.lookup(absent)
    _row("true count", "words", "mean absolute error", "predicted")
    at_zero = _predict(released.plan, np.zeros(1, np.int64))
    _row("0 (absent)", f"{len(absent):,}", f"{np.abs(answers).mean():.2f}", f"{at_zero:.2f}")
    groups = {"1 to 9": truth < 10, "10 to 99": (truth >= 10) & (truth < 100), "100 and more": truth >= 100}
    overall = 0.0
    for name, group in groups.items():
        predicted = _predict(released.plan, truth[group])
        overall += predicted * float(group.mean())
        _row(name, f"{group.sum():,}", f"{errors[group].mean():.2f}", f"{predicted:.2f}")
    _row("all words", f"{len(truth):,}", f"{errors.mean():.2f}", f"{overall:.2f}")
    print()
    _paragraph(
        "Predictions sum over everything that the noise can do, here at a few typical counts of each group. They "
        "take from the published release how full it is."
    )
    seconds = min(timeit.repeat(lambda: released.lookup(absent), number=1, repeat=5))
    _paragraph(f"One lookup took {1e9 * seconds / len(absent):,.0f} ns in batches of {len(absent):,} words.")


def _predict(plan: Plan, truth: npt.NDArray[np.int64]) -> float:
    """The predicted mean absolute error, averaged over a few words evenly spaced by count."""
    chosen = np.sort(truth)[(np.arange(1, 2 * PREDICTIONS, 2) * len(truth)) // (2 * PREDICTIONS)]
    return float(np.mean([plan.error(value).mean_absolute for value in chosen.tolist()]))


def _row(name: str, left: str, middle: str, right: str) -> None:
    print(f"  {name:<12} {left:>10} {middle:>26} {right:>10}")


def _paragraph(text: str) -> None:
    print(textwrap.fill(text, 100), end="\n\n")


def _progress(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
