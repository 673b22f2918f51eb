"""Hooks of mkdocs: the page of commands, pages that live elsewhere in the repository, notebooks as
pages, and figures for light and dark pages.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from making import tutorials  # mkdocs puts the folder of this file on the path
from making.commands import reference

REPOSITORY = Path(__file__).parents[1]

# These pages are files that belong at the root of the repository.
ELSEWHERE = {"contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md", "changelog.md": "CHANGELOG.md"}
COMMANDS = "<!-- commands -->"


def on_files(files: Any, *, config: Any) -> Any:
    """All files of the site, with a page for each notebook."""
    for notebook in tutorials.NOTEBOOKS:
        name = f"tutorials/{notebook.stem}.md"
        files.append(File.generated(config, name, content=tutorials.page(notebook)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """The text of a page before it is laid out."""
    source = page.file.src_uri
    if source in ELSEWHERE:
        return from_root((REPOSITORY / ELSEWHERE[source]).read_text(encoding="utf-8"))
    if source == "commands.md":
        if COMMANDS not in markdown:
            raise ValueError(f"{source} has no place for the commands: {COMMANDS}")
        return markdown.replace(COMMANDS, reference())
    return re.sub(r"(\]\((?:[\w./-]*/)?[\w-]+)\.ipynb(?=[)#])", r"\1.md", markdown)


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    """The laid-out page, with every drawn figure in both of its versions, and with long names that
    may be broken.
    """
    html = re.sub(r'<div class="([\w -]*highlight)">(<pre>.*?</pre>)', _listing, html, flags=re.DOTALL)
    html = re.sub(r"<code>.*?</code>", _whole_options, html, flags=re.DOTALL)
    html = re.sub(r"<code>(\w{24,})</code>", lambda found: f"<code>{found[1].replace('_', '_<wbr>')}</code>", html)
    return re.sub(r'<p><img alt="([^"]*)" src="([^"]*figures/[\w-]+)\.svg" ?/?></p>', _figure, html)


def from_root(markdown: str) -> str:
    """A page of the root with its links as they are from docs/."""
    for page, name in ELSEWHERE.items():
        markdown = markdown.replace(f"]({name}", f"]({page}")
    return markdown.replace("](docs/", "](")


def _whole_options(found: re.Match[str]) -> str:
    """Code whose options, such as --dry-run, are not broken at their hyphens."""
    return re.sub(r"(?<![\w-])--[a-z][\w-]*", r'<span class="option">\g<0></span>', found[0])


def _listing(found: re.Match[str]) -> str:
    """A listing, marked if its lines are too long for paper."""
    lines = unescape(re.sub(r"<[^>]*>", "", found[2])).splitlines()
    return f'<div class="{found[1]}{" wide" if max(map(len, lines)) > 125 else ""}">{found[2]}'


def _figure(found: re.Match[str]) -> str:
    text, name = found[1], found[2]
    images = "".join(
        f'<img class="{scheme}" alt="{text}" src="{name}{suffix}.svg">'
        for scheme, suffix in (("light", ""), ("dark", "-dark"))
    )
    return f'<figure class="drawn">{images}</figure>'
