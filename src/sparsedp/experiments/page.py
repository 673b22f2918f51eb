"""The report as one self-contained HTML page, for phones and desktops, light and dark."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

from .sections import Check, Drawn, Grid, Section, number

_STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1a1a1a; --paper: #ffffff; --line: #d8d8d8; --soft: #f4f5f7; --good: #00785a; --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #15181c; --line: #3a3f45; --soft: #1e2329; --good: #4fd1a5; --bad: #ff8a80; }
}
body {
  margin: 0 auto; max-width: 60rem; padding: 1rem;
  font: 1rem/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
}
h1 { font-size: 1.6rem; line-height: 1.25; }
h2 { margin-top: 2.5rem; font-size: 1.25rem; border-top: 1px solid var(--line); padding-top: 1rem; }
h3 { font-size: 1rem; margin-bottom: .25rem; }
figure { margin: 1rem 0; }
figure img { width: 100%; height: auto; }
figcaption { font-size: .92rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .82rem; white-space: nowrap; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
th { background: var(--soft); }
th:first-child, td:first-child, td.words { text-align: left; }
.checks td:first-child, td.words { white-space: normal; min-width: 8rem; }
.good { color: var(--good); }
.bad { color: var(--bad); font-weight: bold; }
nav { font-size: .92rem; }
nav a { margin-right: 1rem; }
a { color: inherit; }
.note { font-size: .85rem; opacity: .8; }
"""


def page(
    title: str,
    introduction: str,
    sections: Sequence[Section],
    pictures: Mapping[str, Mapping[str, bytes]],
    facts: Mapping[str, str],
) -> str:
    """The whole page; `pictures` has the SVG of every figure for each theme."""
    links = " ".join(f'<a href="#{section.name}">{escape(section.title)}</a>' for section in sections)
    body = "\n".join(_section(section, pictures) for section in sections)
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="words">{escape(value)}</td></tr>' for name, value in facts.items()
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n<p>{escape(introduction)}</p>\n<nav>{links}</nav>\n{_all_checks(sections)}\n{body}\n"
        f'<h2>How it was made</h2>\n<div class="wide"><table>{rows}</table></div>\n</body>\n</html>\n'
    )


def _section(section: Section, pictures: Mapping[str, Mapping[str, bytes]]) -> str:
    parts = [f'<h2 id="{section.name}">{escape(section.title)}</h2>', f"<p>{escape(section.text)}</p>"]
    parts += [_figure(drawn, pictures[drawn.name]) for drawn in section.figures]
    parts += [_grid(grid) for grid in section.grids]
    return "\n".join(parts)


def _figure(drawn: Drawn, themes: Mapping[str, bytes]) -> str:
    light, dark = (
        f"data:image/svg+xml;base64,{base64.b64encode(themes[theme]).decode()}" for theme in ("light", "dark")
    )
    return (
        f'<figure id="{drawn.name}"><picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(drawn.caption)}"></picture>'
        f"<figcaption>{escape(drawn.caption)}</figcaption></figure>"
    )


def _grid(grid: Grid) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in grid.header)
    rows = "".join(f"<tr>{_cells(row, len(grid.header))}</tr>" for row in grid.rows)
    note = f'<p class="note">{escape(grid.note)}</p>' if grid.note else ""
    return f'<h3>{escape(grid.title)}</h3><div class="wide"><table><tr>{head}</tr>{rows}</table></div>{note}'


def _cells(row: Sequence[str], width: int) -> str:
    """The cells of a row; if it is too short, its last cell is text that spans the remaining
    columns.
    """
    cells = [f"<td>{escape(cell)}</td>" for cell in row]
    if len(row) < width or width == 2:
        cells[-1] = f'<td class="words" colspan="{width - len(row) + 1}">{escape(row[-1])}</td>'
    return "".join(cells)


def _all_checks(sections: Sequence[Section]) -> str:
    checks = [check for section in sections for check in section.checks]
    if not checks:
        return ""
    rows = "".join(_check(check) for check in checks)
    head = "".join(f"<th>{name}</th>" for name in ("the paper's number", "paper", "here", "±", "", ""))
    missed = sum(not check.reached for check in checks)
    verdict = f"All {len(checks)} numbers agree." if not missed else f"{missed} of {len(checks)} numbers differ."
    table = f'<div class="wide"><table class="checks"><tr>{head}</tr>{rows}</table></div>'
    return f'<h2 id="numbers">The paper\'s numbers</h2><p>{verdict}</p>{table}'


def _check(check: Check) -> str:
    verdict = '<td class="good">agrees</td>' if check.reached else '<td class="bad">differs</td>'
    cells = "".join(f"<td>{number(value, 4)}</td>" for value in (check.expected, check.measured, check.tolerance))
    return f'<tr><td>{escape(check.name)}</td>{cells}{verdict}<td class="words">{escape(check.note)}</td></tr>'
