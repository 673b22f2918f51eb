"""What the pages quote of the runs that are kept: `make quotes` takes the newest runs of `sparsedp
reproduce --peers --out report` and `make bench`, and brings the pages up to date.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a program
    sys.path.insert(0, str(Path(__file__).parents[1]))

from making.quotes import Quote
from making.runs import BY_COUNT, KEPT, LIBRARIES, PICTURES, RANGES, TAKEN, kept, values
from sparsedp.experiments.sections import duration

REPOSITORY = Path(__file__).parents[2]
# What the programs write, and where.
WRITTEN = {"report": "report/results.json", "bench": "build/bench.json", "accuracy": "build/accuracy.json"}


def quotes() -> list[Quote]:
    """All of them."""
    return [Quote(page, sentence) for page, sentences in SENTENCES.items() for sentence in sentences] + [
        Quote("docs/paper.md", " | ".join([f"| `{name}`{'' if name != 'threshold-alp' else ' [1]'}", *cells]) + " |")
        for name in BY_COUNT
        for cells in [[f"{{by count {name} {column}|digits}}" for column in ("bits", *RANGES)]]
    ]


SENTENCES = {
    "README.md": [
        "sparsedp has **{pure tight-alp frequent|error}**, and **{delta retrieval, Gaussian frequent|error}** with",
        "it has the least error, {pure dense geometric noise frequent|error}, and "
        "{delta dense Gaussian noise frequent|error} with δ, but",
        "PyDP or Tumult, δ = 10⁻⁶ | {delta OpenDP, Laplace frequent|error}, "
        "{delta PipelineDP, Laplace frequent|error}, {delta PyDP, Laplace frequent|error} and "
        "{delta Tumult Analytics, Laplace frequent|error}; every",
        "the same with Gaussian noise | {delta OpenDP, Gaussian frequent|error}, "
        "{delta PipelineDP, Gaussian frequent|error} and {delta PyDP, Gaussian frequent|error} (the first three)",
        "| {threshold-alp, the paper's error|hundredths} in {threshold-alp, the paper's bits|whole} bits per key "
        "against {tight-alp, 40 bits (default), balanced error|hundredths} in "
        "{tight-alp, 40 bits (default), balanced bits|whole}, for one key per person",
        "| OpenDP's ALP | {pure OpenDP, ALP frequent|error}; a lookup in a batch takes "
        "{tight-alp: a lookup of 10⁶ str ratio|whole} times as long, a build "
        "{tight-alp: build, 10⁵ str keys ratio|whole} times",
        "it errs by {pure 0 for every key all|error}, tables of large counts by {least named all|error} to "
        "{largest named all|error}, and our default answers by {pure tight-alp all|error} and "
        "{delta retrieval, Gaussian all|error}.",
    ],
    "docs/index.md": ["and {tight-alp lookup|whole} ns for a lookup in a batch"],
    "docs/mechanisms/tight-alp.md": ["one cache line of the array, {tight-alp lookup|whole} ns in a batch"],
    "docs/mechanisms/retrieval.md": ["random reads per lookup, {retrieval lookup|whole} ns in a batch"],
    "docs/reproduction.md": [
        "`tight-alp` has {tight-alp by dense|tenths} times the error of noise on every key (here not cut at 0), and "
        "the paper's mechanism (`threshold-alp`) has {threshold-alp by dense|whole} times",
        "*OpenDP's ALP has {OpenDP ALP by tight-alp|whole} times the error of `tight-alp`",
        "All {numbers|whole} numbers agree within their statistical error",
        "*Real data, all {words keys|whole} pairs of words in Python's standard library: `tight-alp` has an error of "
        "{words tight-alp 1|hundredths} at count 1 and of {words tight-alp > 120|hundredths} above 120, in "
        "{words tight-alp nbytes|size}; the paper's mechanism has {words threshold-alp 1|error} and "
        "{words threshold-alp > 120|error}.*",
        "`tight-alp` has a mean error of {tight-alp, 40 bits (default), balanced error|tenths} in "
        "{tight-alp, 40 bits (default), balanced bits|whole} bits per key, and the paper's mechanism one of "
        "{threshold-alp, the paper's error|tenths} in {threshold-alp, the paper's bits|whole} bits",
        "*{files|whole} files of Python {pure tight-alp python} and its packages, {keys|whole} keys, m = 20.",
        "over the 500 most frequent ones it errs by {delta retrieval, Gaussian frequent|error}, where dense Gaussian "
        "noise would err by {delta dense Gaussian noise frequent|error}, if",
        "above a threshold errs by {least named frequent|whole} and more there. Under pure privacy, "
        "`tight-alp` errs by {pure tight-alp frequent|error} and dense noise by "
        "{pure dense geometric noise frequent|error}.*",
        "names keys | {least memory|whole} to {largest memory|whole} MB |",
        "| OpenDP | {delta OpenDP, Gaussian version} | its ALP answers for any key, if given the true total; errs by "
        "{pure OpenDP, ALP frequent|whole} over the frequent keys | names keys, no other answers | "
        "{least memory of OpenDP|whole} to {largest memory of OpenDP|whole} MB |",
        "| PipelineDP | {delta PipelineDP, Gaussian version} | only for a public list of keys | names keys, no other "
        "answers | {delta PipelineDP, Gaussian memory|size} |",
        "| PyDP | {delta PyDP, Gaussian version} | only for a public list of keys | names keys, no other answers | "
        "{delta PyDP, Gaussian memory|size} |",
        "| Tumult Analytics | {delta Tumult Analytics, Laplace version} | only for a public list of keys | names keys "
        "(here {delta Tumult Analytics, Laplace names|whole}), no other answers | "
        "{delta Tumult Analytics, Laplace memory|size}, with Spark |",
        "OpenDP, PipelineDP and PyDP named {one key, delta OpenDP, Laplace names|whole}, "
        "{one key, delta PipelineDP, Laplace names|whole} and {one key, delta PyDP, Laplace names|whole} keys there "
        "with Laplace noise, our `tight-alp` {one key, delta tight-alp names|whole} and `stability` "
        "{one key, delta stability, geometric names|whole}; "
        "{one key, delta sparse geometric noise names|tenths} is what the least",
    ],
    "docs/paper.md": [
        "in which all {numbers|whole} numbers agree",
        "identifiers: {files|whole} persons, {keys|whole} keys with a mean count of {mean count|tenths} and a largest "
        "one of {largest count|whole}, ε = 1.",
        *(
            f"| {title} | {delta} | {answers}{{{row} all|error}} | {{{row} frequent|error}} |"
            f"{f' {{{row} names|whole}} |' if names else ' |'}"
            for title, delta, answers, row, names in (
                ("*dense geometric noise (expected)*", "0", "| ", "pure dense geometric noise", False),
                ("`tight-alp`", "0", "every key | ", "pure tight-alp", False),
                ("`threshold-alp` [1]", "0", "every key | ", "pure threshold-alp", False),
                ("*dense Gaussian noise (expected)*", "10⁻⁶", "| ", "delta dense Gaussian noise", False),
                ("`retrieval`, Gaussian", "10⁻⁶", "every key | ", "delta retrieval, Gaussian", True),
                ("`tight-alp`", "10⁻⁶", "every key | ", "delta tight-alp", True),
                ("`stability`, Gaussian", "10⁻⁶", "named keys | ", "delta stability, Gaussian", True),
            )
        ),
        "| OpenDP {pure OpenDP, ALP version}, ALP | 0 | every key | {pure OpenDP, ALP all|error} | "
        "{pure OpenDP, ALP frequent|error} |",
        *(
            f"| {name} {{delta {row} version}}, {row.rpartition(' ')[2]} | 10⁻⁶ | named keys | "
            f"{{delta {row} all|error}} | {{delta {row} frequent|error}} | {{delta {row} names|whole}} |"
            for name, row in LIBRARIES.items()
        ),
        "answer for all texts that there are, in {pure tight-alp nbytes|size} (`tight-alp`, δ = 0) and "
        "{delta retrieval, Gaussian nbytes|size} (`retrieval`)",
        "0 for every key errs by {pure 0 for every key all|error} only",
        "95 % intervals cover {pure tight-alp coverage|tenths} % (`tight-alp`) and "
        "{delta retrieval, Gaussian coverage|tenths} % (`retrieval`)",
    ],
}


def table(rows: list[Any]) -> str:
    """Rows of `make bench` as they are in the pages."""
    lines = ["| row | against | ours | theirs | ratio | target |", "|---|---|--:|--:|--:|---|"]
    for row in rows:
        ratio = f"{row['ratio']:,.0f}" if row["ratio"] >= 1000 else f"{row['ratio']:.3g}"
        cells = (
            row["name"],
            row["against"],
            duration(row["ours"]),
            duration(row["theirs"]),
            f"{ratio} ×",
            row["target"],
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def speed() -> str:
    """The rows that have no section of their own."""
    elsewhere = (*HTTP, SQL, "… the same")
    return table([row for row in kept("bench")["rows"] if not row["name"].startswith(elsewhere)])


def rows_of(*beginnings: str) -> str:
    """The rows of one section."""
    return table([row for row in kept("bench")["rows"] if row["name"].startswith(beginnings)])


def accuracy() -> str:
    """What `python -m benchmarks.accuracy` prints."""
    return "\n".join(["```", "$ python -m benchmarks.accuracy", *kept("accuracy")["tables"], "```"])


SQL, HTTP = "DuckDB", ("GET ", "POST ")
# By page, and by the name in their marks.
TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "docs/performance.md": {"speed": speed, "sql": lambda: rows_of(SQL), "http": lambda: rows_of(*HTTP)},
    "docs/accuracy.md": {"accuracy": accuracy},
}


def with_tables(page: str, text: str) -> str:
    """The text of a page, with its tables as they should be."""
    for name, made in TABLES[page].items():
        begin, end = (f"<!-- bench.{name} {word} -->" for word in ("begins", "ends"))
        before, _, rest = text.partition(begin)
        _, mark, after = rest.partition(end)
        if not mark:
            raise ValueError(f"{page} has no place between {begin} and {end}")
        text = f"{before}{begin}\n\n{made()}\n\n{end}{after}"
    return text


def take(name: str, file: Path) -> None:
    """Keep what is quoted of a new run, with the pictures of a report."""
    taken = TAKEN[name](json.loads(file.read_text(encoding="utf-8")))
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{name}.json").write_text(json.dumps(taken, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if name == "report":
        for picture in PICTURES:
            shutil.copyfile(file.parent / "figures" / f"{picture}.png", REPOSITORY / f"docs/figures/{picture}.png")


def update() -> None:
    """Bring all pages up to date with what is kept."""
    measured = values()
    for quote in quotes():
        page = REPOSITORY / quote.page
        page.write_text(quote.updated(page.read_text(encoding="utf-8"), measured), encoding="utf-8")
    for name in TABLES:
        page = REPOSITORY / name
        page.write_text(with_tables(name, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    for run, written in WRITTEN.items():
        if (REPOSITORY / written).exists():
            take(run, REPOSITORY / written)
            print(f"{run}: from {written}")
    update()
