"""The house keeps its order: a room imports only rooms to its left, and the documentation states
the same order.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparsedp
import walk as walking

PACKAGE = Path(sparsedp.__file__).parent
REPOSITORY = Path(__file__).parents[2]

# The order is written once, in the package's docstring; other modules at the top level are its
# public face.
ORDER = re.findall(r"\w+", re.search(r"^    errors.*(?:\n    .*)*", sparsedp.__doc__ or "", re.MULTILINE)[0])  # type: ignore[index]
FACE = {"", "spark"}
MOST_AT_THE_TOP, MOST_LINES = 8, 400
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(parts: tuple[str, ...]) -> str:
    return parts[0] if parts else ""


def imported(path: Path) -> Iterator[tuple[str, ...]]:
    """What a module imports from this package, as paths below it; imports inside functions count
    too.
    """
    package = path.relative_to(PACKAGE).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            base = package[: len(package) - (node.level - 1)]
        elif node.module is not None and node.module.split(".")[0] == "sparsedp":
            base = ()
        else:
            continue
        below = tuple((node.module or "").split(".")) if node.module else ()
        target = base + (below if node.level else below[1:])
        if target:
            yield target
        else:
            yield from ((alias.name,) for alias in node.names)


def own_room(path: Path) -> str:
    relative = path.relative_to(PACKAGE).with_suffix("").parts
    return "" if relative == ("__init__",) else relative[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_knows_only_those_to_its_left(path: Path) -> None:
    own = own_room(path)
    if own in FACE:
        return
    for target in imported(path):
        room = room_of(target)
        if room in ("_native", "__version__"):
            continue
        assert room in ORDER, f"{path} imports {'.'.join(target)}, which is in no room"
        assert ORDER.index(room) <= ORDER.index(own), f"{path}: a step to the right, to {'.'.join(target)}"


def test_every_room_is_in_the_order_and_every_name_of_the_order_is_a_room() -> None:
    rooms = {own_room(path) for path in MODULES} - FACE
    assert rooms == set(ORDER)
    assert len(ORDER) == len(set(ORDER))


def test_the_documentation_tells_the_same_order() -> None:
    page = (REPOSITORY / "CONTRIBUTING.md").read_text()
    told = re.search(r"^    errors.*(?:\n    .*)*", page, re.MULTILINE)
    assert told is not None
    assert re.findall(r"\w+", told[0]) == ORDER


def test_there_are_few_modules_at_the_top_and_none_is_long() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_AT_THE_TOP
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


@pytest.mark.parametrize("room", [name for name in ORDER if (PACKAGE / name).is_dir()])
def test_each_room_says_what_it_is_for_and_what_it_knows(room: str) -> None:
    words = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
    assert words is not None
    assert re.search(r"\bUses\b", words)


@pytest.mark.parametrize("options", [(), ("--delta", "1e-9"), ("--nonzero", "1000", "--mechanism", "threshold-alp")])
def test_a_row_never_returns_to_a_room_that_it_has_left(options: tuple[str, ...], tmp_path: Path) -> None:
    # Catches a step that is done twice, such as sorting or hashing, and work in the wrong room.
    log = tmp_path / "visits.csv"
    log.write_text("\n".join(walking.rows()) + "\n")
    steps = walking.walk(log, tmp_path / "visits.sparsedp", *options)
    assert walking.rooms(steps) == ["counting", "privacy", "keys", "mechanisms", "format"]
    assert [step for step in steps if step.startswith("releasing.cells.of")] == ["releasing.cells.of"]  # sorted once


def test_contributing_names_the_functions_of_the_walk(tmp_path: Path) -> None:
    log = tmp_path / "visits.csv"
    log.write_text("\n".join(walking.rows()) + "\n")
    passed = set(walking.walk(log, tmp_path / "visits.sparsedp"))
    page = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    way = page[page.index("### From a row to a release") : page.index("### From a key to its answer")]
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+){2,})`", way))
    assert len(named) >= 8
    assert named <= passed
