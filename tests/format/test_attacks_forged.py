"""Headers and arrays that are forged, with checksums that are right: each is refused for what is wrong
with it.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsedp
from forged_files import load
from fuzz.forging import Header, join, sealed, split
from releases import make
from sparsedp import FormatError
from sparsedp.format import container as storage


def edited(**new: Any) -> Callable[[Header, Header, bytes], bytes]:
    return lambda entries, description, data: join(entries, {**description, **new}, data)


def edited_keys(**new: Any) -> Callable[[Header, Header, bytes], bytes]:
    return lambda entries, description, data: join(
        entries, {**description, "keys": {**description["keys"], **new}}, data
    )


def with_plan(change: Callable[[Header], None]) -> Callable[[Header, Header, bytes], bytes]:
    def forge(entries: Header, description: Header, data: bytes) -> bytes:
        change(description["plan"])
        return join(entries, description, data)

    return forge


def with_entry(name: str, **new: Any) -> Callable[[Header, Header, bytes], bytes]:
    return lambda entries, description, data: join({**entries, name: {**entries[name], **new}}, description, data)


def raw(old: str, new: str) -> Callable[[Header, Header, bytes], bytes]:
    def forge(entries: Header, description: Header, data: bytes) -> bytes:
        content = join(entries, description, data)
        end = 8 + int.from_bytes(content[:8], "little")
        text = content[8:end].decode().rstrip()
        assert old in text
        return sealed(text.replace(old, new, 1), data)

    return forge


ATTACKS: dict[str, tuple[str, Callable[[Header, Header, bytes], bytes], str]] = {
    "a newer format": ("stability", edited(format=4), "has format 4.*upgrade sparsedp"),
    "simple keys in format 3": ("stability", edited(format=3), "keys must have the fields columns, domain, seed"),
    "columns in format 2": ("columns", edited(format=2), "keys must have the fields domain, kind, seed"),
    "no columns": ("columns", edited_keys(columns=[]), "must be a list of 1 to 64 columns"),
    "a column of text alone": (
        "day",
        edited_keys(columns=[{"name": "day", "kind": "text"}]),
        "must not be one column of kind text, which format 2 has",
    ),
    "an unknown kind of column": (
        "day",
        edited_keys(columns=[{"name": "day", "kind": "timestamp[h]"}]),
        r"keys.columns.0.kind must be one of text, .*, got 'timestamp\[h\]'",
    ),
    "a column without a name": (
        "day",
        edited_keys(columns=[{"name": None, "kind": "date"}]),
        "keys.columns.0.name must be valid Unicode, at most 1000 bytes, got None",
    ),
    "two columns of one name": (
        "day",
        edited_keys(columns=[{"name": "day", "kind": "date"}, {"name": "day", "kind": "text"}]),
        "must have different names",
    ),
    "columns that are not hashed": ("day", edited_keys(seed=None), "keys must be those of the plan"),
    "no format": ("stability", edited(format="1"), "has format '1'"),
    "a part alone": ("stability", edited(kind="part"), "must be a release"),
    "a smaller epsilon": ("stability", edited(epsilon=0.5), "states epsilon = 0.5, but its thresholds guarantee"),
    "a smaller delta": ("stability", edited(delta=1e-9), "states delta"),
    "no delta": ("retrieval", edited(delta=0), "states delta"),
    "an unknown mechanism": ("stability", edited(mechanism="magic"), "no mechanism 'magic'"),
    "another mechanism": ("stability", edited(mechanism="threshold"), "plan"),
    "parts in a file": ("stability", edited(parts=2), "number of 32-byte digests"),
    "a foreign field": ("stability", edited(comment="hello"), "must have the fields"),
    "another domain": (
        "tight-alp-domain",
        edited(keys={"kind": "integer", "domain": 99, "seed": None}),
        "keys must be those",
    ),
    "keys of an unknown kind": ("stability", edited_keys(kind="float"), "must be one of None, text, bytes, integer"),
    "integers of a domain as text": ("tight-alp-domain", edited_keys(kind="text"), "must be one of integer"),
    "no seed": ("stability", edited_keys(seed=None), "keys must be those"),
    "a long seed": ("stability", edited_keys(seed=[1, 2, 3]), "two words"),
    "half the noise": (
        "stability",
        with_plan(lambda plan: plan["stage"]["noise"]["magnitude"].__setitem__("tail", "18000000000000000000")),
        "plan",
    ),
    "a threshold one lower": (
        "stability",
        with_plan(lambda plan: plan["stage"].__setitem__("threshold", plan["stage"]["threshold"] - 1)),
        "would spend|states delta",
    ),
    "a threshold that takes forever": (
        "threshold",
        with_plan(lambda plan: plan["stage"].__setitem__("threshold", str(2**60))),
        "threshold is out of range",
    ),
    "closer neighbours": (
        "stability",
        with_plan(lambda plan: plan["stage"].__setitem__("distance", "1/2")),
        "domain and the neighbours",
    ),
    "a smaller unit": (
        "stability-wide",
        with_plan(lambda plan: plan["stage"].__setitem__("unit", 4)),
        "smallest power of two that reaches the distance",
    ),
    "another recipe": (
        "tight-alp",
        with_plan(lambda plan: plan["blocks"]["ladder"]["recipe"].__setitem__("growth", 2.5)),
        "does not give the masses",
    ),
    "a recipe that grows without end": (
        "tight-alp",
        with_plan(lambda plan: plan["blocks"]["ladder"]["recipe"].__setitem__("growth", 1e300)),
        "the growth must be",
    ),
    "anchors in disorder": (
        "tight-alp",
        with_plan(lambda plan: plan["blocks"]["ladder"]["recipe"]["anchors"].reverse()),
        "anchors must ascend",
    ),
    "another price of sizing": (
        "tight-alp-sized",
        with_plan(lambda plan: plan["problem"].__setitem__("sizing_loss", "0.001")),
        "must be that of its noise",
    ),
    "no noise of sizing": (
        "tight-alp-sized",
        with_plan(lambda plan: plan["problem"].pop("sizing_noise")),
        "must state its noise",
    ),
    "a ladder above the threshold": (
        "tight-alp",
        with_plan(lambda plan: plan["stage"].__setitem__("threshold", 20)),
        "must end below the threshold",
    ),
    "another rounding than columns": (
        "alp",
        with_plan(lambda plan: plan["embedding"]["rounding"].__setitem__("levels", 1)),
        "rounding and columns must agree",
    ),
    "a total that was not cut": (
        "compact-total",
        with_plan(lambda plan: plan.__setitem__("cut_total", False)),
        "not a valid CompactPlan",
    ),
    "a huge sizing loss": (
        "laplace-real",
        with_plan(lambda plan: plan["problem"].__setitem__("sizing_loss", "1E+12")),
        "the loss of sizing",
    ),
    "a huge epsilon": (
        "retrieval",
        with_plan(lambda plan: plan["problem"].__setitem__("epsilon", 1e300)),
        "at most 10\\^6",
    ),
    "an epsilon beyond floats": ("stability", edited(epsilon=10**400), "states epsilon"),
    "a plan's epsilon beyond floats": (
        "stability",
        with_plan(lambda plan: plan["problem"].__setitem__("epsilon", 10**400)),
        "must be float",
    ),
    "a million buckets": (
        "retrieval",
        with_plan(lambda plan: plan["buckets"].__setitem__("rate", "0.00001")),
        "the rate of a cut law",
    ),
    "a million values": (
        "compact",
        with_plan(lambda plan: plan["buckets"].__setitem__("largest", 1 << 20)),
        "largest value at most",
    ),
    "parts of what has none": (
        "laplace",
        with_plan(lambda plan: plan["problem"].__setitem__("parts", 2)),
        "must have one part",
    ),
    "noise too wide to draw": (
        "laplace",
        with_plan(lambda plan: plan["noise"]["magnitude"].__setitem__("digits", [str(1 << 63)] * 70)),
        "wider than any noise that is drawn",
    ),
    "nothing of much": ("stability", with_entry("table.ids", shape=[0, 2**61], data_offsets=[0, 0]), "dimensions"),
    "a billion blocks": (
        "tight-alp",
        with_plan(lambda plan: plan["blocks"].__setitem__("blocks", 10**9)),
        "must have the shape",
    ),
    "more parts": (
        "tight-alp",
        with_plan(lambda plan: plan["problem"].__setitem__("parts", 3)),
        "every part|3 parts",
    ),
    "one gigabyte": ("stability", with_entry("table.ids", shape=[2**27], data_offsets=[0, 2**30]), "must end at"),
    "a size that overflows": ("stability", with_entry("table.ids", shape=[2**61]), "one or two dimensions"),
    "a negative size": ("stability", with_entry("table.ids", shape=[-5]), "one or two dimensions"),
    "negative offsets": ("stability", with_entry("table.ids", data_offsets=[-8, 0]), "must lie at"),
    "overlapping arrays": ("stability", with_entry("table.values", data_offsets=[0, 8]), "must lie at"),
    "floats": ("stability", with_entry("table.ids", dtype="F64"), "one of the types"),
    "another integer type": ("stability", with_entry("table.ids", dtype="I64"), "must have the type uint64"),
    "a name twice": ("stability", raw('"table.ids":', '"table.values":'), "occurs twice"),
    "metadata twice": ("stability", raw('{"__metadata__":', '{"__metadata__":{},"__metadata__":'), "twice|checksum"),
    "not a number": ("stability", raw('\\"delta\\":0.0,', '\\"delta\\":NaN,'), "not a number"),
    "deep nesting": ("stability", edited(parts=json.loads("[" * 500 + "]" * 500)), "."),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_forged_file_is_refused(attack: str, contents: dict[str, bytes], path: Path) -> None:
    name, forge, message = ATTACKS[attack]
    if attack == "not a number":
        entries, description, data = split(contents[name])
        text = json.dumps(description, separators=(",", ":")).replace(f'"delta":{description["delta"]}', '"delta":NaN')
        content = join(entries, text, data)
    else:
        content = forge(*split(contents[name]))
    with pytest.raises(FormatError, match=message):
        load(path, content)


def rewritten(content: bytes, change: Callable[[Header, dict[str, np.ndarray]], None], path: Path) -> None:
    """A file with other arrays and correct checksums."""
    path.write_bytes(content)
    container = storage.read(path)
    arrays = {name: array.copy() for name, array in container.arrays.items()}
    change(container.description, arrays)
    container.description["checksums"] = storage.checksums(arrays)
    with path.open("wb") as file:
        storage.write(file, container.description, arrays)


def in_matrices(description: Header, arrays: dict[str, np.ndarray]) -> None:
    """The ladder as in files of format 1: all of its masses."""
    ladder = make("tight-alp").plan.blocks.ladder  # type: ignore[attr-defined]  # of a TightAlpPlan
    levels = [{"start": level.start, "bits": level.bits, "word_bits": 64} for level in ladder.levels]
    description["plan"]["blocks"]["ladder"] = {"levels": levels}
    for at, level in enumerate(ladder.levels):
        arrays[f"plan.blocks.ladder.levels.{at}.masses"] = np.array(level.masses, np.uint64)


def shift_mass(description: Header, arrays: dict[str, np.ndarray]) -> None:
    in_matrices(description, arrays)
    arrays["plan.blocks.ladder.levels.0.masses"][0, 0] += 1


def wide_symbols(description: Header, arrays: dict[str, np.ndarray]) -> None:
    in_matrices(description, arrays)
    levels = description["plan"]["blocks"]["ladder"]["levels"]
    start = 0
    for at, level in enumerate(levels):
        level["bits"], level["start"] = 8, start
        masses = np.full((4, 256), 1 << 56, np.uint64)
        arrays[f"plan.blocks.ladder.levels.{at}.masses"] = masses
        start += len(masses) - 1
    description["plan"]["blocks"]["rows"] = [10] * len(levels)


def tall_ladder(description: Header, arrays: dict[str, np.ndarray]) -> None:
    in_matrices(description, arrays)
    arrays["plan.blocks.ladder.levels.0.masses"] = np.full((50_000, 16), 1 << 60, np.uint64)


def miscount(_: Header, arrays: dict[str, np.ndarray]) -> None:
    arrays["embedding.symbols"][0] += np.uint64(1)


REWRITTEN = {
    "masses that do not sum up": (shift_mass, "sum to 2\\^64"),
    "symbols of too many bits": (wide_symbols, "a pattern must have at most"),
    "a tall ladder": (tall_ladder, "must have at most"),
    "symbols that count no cell": (miscount, "must count every cell"),
}


@pytest.mark.parametrize("attack", REWRITTEN)
def test_arrays_that_fit_no_plan_are_refused(attack: str, contents: dict[str, bytes], path: Path) -> None:
    change, message = REWRITTEN[attack]
    rewritten(contents["tight-alp"], change, path)
    with pytest.raises(FormatError, match=message):
        sparsedp.load(path, allow_reproducible=True)


def test_values_below_the_threshold_are_found(contents: dict[str, bytes], path: Path) -> None:
    rewritten(contents["stability"], lambda _, arrays: arrays["table.values"].fill(-7), path)
    sparsedp.load(path, allow_reproducible=True)
    with pytest.raises(FormatError, match=r"table\.values must be in"):
        sparsedp.verify(path)


def test_symbols_that_are_not_those_of_the_blocks_are_found(contents: dict[str, bytes], path: Path) -> None:
    def move(_: Header, arrays: dict[str, np.ndarray]) -> None:
        arrays["embedding.symbols"][0] += np.uint64(1)
        arrays["embedding.symbols"][1] -= np.uint64(1)

    rewritten(contents["tight-alp"], move, path)
    with pytest.raises(FormatError, match="those of the blocks"):
        sparsedp.verify(path)


def test_a_refused_file_takes_no_memory(contents: dict[str, bytes], path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for shape, offsets in (([2**27], [0, 2**30]), ([2**40], [0, 2**43])):
        with pytest.raises(FormatError):
            load(path, with_entry("table.ids", shape=shape, data_offsets=offsets)(*split(contents["stability"])))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize("name", ["retrieval", "threshold", "tight-alp", "tight-alp-domain", "laplace"])
def test_keys_are_not_kept_where_that_is_not_private(name: str, contents: dict[str, bytes], path: Path) -> None:
    entries, description, data = split(contents[name])
    description["plan"]["problem"]["keep_keys"] = True
    wrong = r"only hashed keys are kept|keeps no keys|keys\.offsets|states delta"
    with pytest.raises(FormatError, match=wrong):
        load(path, join(entries, description, data))
    description["plan"]["problem"]["keep_keys"] = False  # the default, which must be left out
    with pytest.raises(FormatError, match="left out"):
        load(path, join(entries, description, data))
