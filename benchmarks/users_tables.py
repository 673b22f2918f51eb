"""The rows of `benchmarks.users`, and their tables: as text, and as Markdown for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sparsedp.experiments.judging import RANGES, Figures

BEGIN, END = "<!-- benchmarks.users begins -->", "<!-- benchmarks.users ends -->"
JUDGED = 1000  # intervals that a group must have: 95 % of them is 94.3 % to 95.7 % by chance
_ERRORS = ("all", "absent", "frequent")


@dataclass(frozen=True)
class Row:
    """What one mechanism or library answers, in the mean over its releases."""

    delta: float | None  # None for what is only there to compare with
    name: str
    error: Figures
    ratio: Figures  # to dense noise
    coverage: Figures = field(default_factory=dict)  # none without intervals
    bits: float | None = None  # of the file, for each present key
    sums: float | None = None  # stated standard errors by the spread that was seen
    named: float | None = None  # present keys that are published with their names, or could be


@dataclass(frozen=True)
class Block:
    """The rows of one bound m on the keys of a user, and what was counted with it."""

    keys_per_user: int
    keys: int
    total: int
    largest: int
    groups: dict[str, int]  # how many keys each has
    releases: int
    rows: list[Row]

    def least(self, row: Row) -> tuple[str, float] | None:
        """The group of keys whose intervals cover least, and how often they do."""
        enough = [name for name, size in self.groups.items() if size * self.releases >= JUDGED]
        judged = [(name, row.coverage[name]) for name in enough if name in row.coverage]
        return min(judged, key=lambda one: one[1]) if judged else None

    def __str__(self) -> str:
        sizes = ", ".join(f"{size:,} with {name}" for name, size in self.groups.items() if name in RANGES)
        return (
            f"m = {self.keys_per_user}: {self.keys:,} keys with counts of {self.total:,} in all, "
            f"{self.largest:,} at most ({sizes})"
        )


def text(about: str, blocks: Sequence[Block]) -> str:
    """One table for each block, with every figure."""
    lines = [about]
    for block in blocks:
        groups = list(block.groups)
        lines += ["", str(block)]
        heads = [*_ERRORS, *_ERRORS, *groups, "least", "bits", "sums", "named"]
        over = {"mean absolute error": len(_ERRORS), "× dense noise": len(_ERRORS), "coverage": len(groups) + 1}
        lines.append(" " * 35 + "".join(f"{head:>{9 * columns}}" for head, columns in over.items()))
        lines.append(f"{'δ':7}{'':28}" + "".join(f"{head:>9}" for head in heads))
        for row in block.rows:
            least = block.least(row)
            cells = [*(number(row.error[name]) for name in _ERRORS), *(f"{row.ratio[name]:.2f}" for name in _ERRORS)]
            cells += [percent(row.coverage.get(name)) for name in groups]
            cells += [percent(least[1] if least else None), number(row.bits), number(row.sums), number(row.named)]
            lines.append(f"{power(row.delta):7}{row.name:28}" + "".join(f"{cell:>9}" for cell in cells))
    return "\n".join(lines)


def markdown(about: str, blocks: Sequence[Block]) -> str:
    """The same, with the least coverage instead of all."""
    lines = [f"{about}."]
    for block in blocks:
        lines += ["", f"{block}.", ""]
        heads = ["δ", "answers of", "all keys", "absent keys", "frequent keys", "least coverage"]
        heads += ["bits a key", "sums", "named"]
        lines += ["| " + " | ".join(heads) + " |", "|---|---" + "|--:" * 7 + "|"]
        for row in block.rows:
            least = block.least(row)
            cells = [power(row.delta), row.name]
            cells += [f"{number(row.error[name])} (× {row.ratio[name]:.2f})" for name in _ERRORS]
            cells.append(f"{percent(least[1])} ({least[0]})" if least else "–")
            cells += [number(row.bits), number(row.sums), number(row.named)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def replace(page: Path, table: str) -> None:
    """Put the table between the two marks of the page, instead of what is there."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{page} has no place for the table: it needs the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


def number(value: float | None) -> str:
    """Three digits, or all of the whole ones."""
    if value is None:
        return "–"
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """A share as a percentage; only what covers always is 100."""
    return "–" if share is None else f"{100 * share:.1f} %" if share in (0, 1) else f"{min(100 * share, 99.9):.1f} %"


def power(delta: float | None) -> str:
    """A δ as it is read."""
    return "" if delta is None else f"{delta:.0e}".replace("e-0", "e-") if delta else "0"
