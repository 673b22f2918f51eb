"""Files made to harm: truncations, flipped bits, forged headers. Typed errors only, and no time or
memory lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsedp
from forged_files import FILES, changed, load, replaced
from fuzz.forging import NASTY, join, leaves, sealed, split
from releases import answers
from sparsedp import FormatError
from sparsedp.format import guarantee
from sparsedp.format.container import LARGEST_HEADER

Measured = Callable[..., None]


def test_forged_files_are_only_refused_for_what_is_forged(contents: dict[str, bytes], path: Path) -> None:
    for content in contents.values():
        assert join(*split(content)) == content
        load(path, content)


@pytest.mark.parametrize("name", ["stability", "tight-alp"])
@pytest.mark.promise(16)
def test_every_truncation_is_refused(name: str, contents: dict[str, bytes], path: Path, measured: Measured) -> None:
    content = contents[name]
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(FormatError):
            sparsedp.load(path)
    with pytest.raises(FormatError):
        load(path, content + b"\0")
    measured(truncations=len(content))


@pytest.mark.promise(16)
def test_every_flipped_bit_is_found(contents: dict[str, bytes], path: Path, measured: Measured) -> None:
    content = bytearray(contents["stability"])
    for bit in range(8 * len(content)):
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        with pytest.raises(FormatError):
            sparsedp.verify(path)
        content[bit // 8] ^= 1 << bit % 8
    measured(bits=8 * len(content))


@pytest.mark.parametrize("name", FILES)
def test_flipped_bits_of_arrays_give_wrong_answers_at_worst(name: str, contents: dict[str, bytes], path: Path) -> None:
    random = np.random.default_rng(1)
    start = 8 + int.from_bytes(contents[name][:8], "little")
    for at in random.integers(start, len(contents[name]), 25).tolist():
        content = bytearray(contents[name])
        content[at] ^= 1 << int(random.integers(8))
        with suppress(FormatError):
            answers(load(path, bytes(content)))
        with pytest.raises(FormatError):
            sparsedp.verify(path)


@pytest.mark.parametrize("name", FILES)
def test_nasty_values_at_every_place_of_the_description(name: str, contents: dict[str, bytes], path: Path) -> None:
    entries, description, data = split(contents[name])
    random = np.random.default_rng(2)
    for place in list(leaves(description))[1:]:
        for nasty in [NASTY[i] for i in random.choice(len(NASTY), 4, replace=False)]:  # `make fuzz` draws others
            forged = replaced(description, place, nasty)
            with suppress(FormatError):  # a value that is as valid as the old one is accepted; nothing else is raised
                answers(load(path, join(entries, forged, data)))
        if place[:2] == ("keys", "columns") and len(place) == 3:
            continue  # keys with a column less are as valid
        for change in (lambda inner, last: inner.pop(last), lambda inner, last: inner.__setitem__(last, [inner[last]])):
            with pytest.raises(FormatError):
                load(path, join(entries, changed(description, place, change), data))


@pytest.mark.parametrize("name", FILES)
def test_nasty_values_at_every_place_of_the_entries(name: str, contents: dict[str, bytes], path: Path) -> None:
    entries, description, data = split(contents[name])
    random = np.random.default_rng(3)
    for place in list(leaves(entries))[1:]:
        for nasty in [NASTY[i] for i in random.choice(len(NASTY), 6, replace=False)]:
            forged = replaced(entries, place, nasty)
            if forged != entries:
                with pytest.raises(FormatError):
                    load(path, join(forged, description, data))


def test_a_pipe_is_refused_at_once(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(FormatError, match="must be a regular file"):
        sparsedp.load(path)


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, LARGEST_HEADER + 56, 10**9, 0, 1])
def test_a_small_file_cannot_ask_for_much(length: int, path: Path) -> None:
    with pytest.raises(FormatError):
        load(path, length.to_bytes(8, "little") + b"{" * 1016)


def test_nested_json_is_refused(path: Path) -> None:
    text = '{"__metadata__":{"sha256":"' + "0" * 64 + '","sparsedp":"x"},"a":' + "[" * 100_000 + "]" * 100_000 + "}"
    with pytest.raises(FormatError):
        load(path, sealed(text, b""))


def test_an_unsorted_table_is_refused_at_its_first_use(contents: dict[str, bytes], path: Path) -> None:
    content = contents["stability"]
    start = 8 + int.from_bytes(content[:8], "little")
    swapped = content[:start] + content[start + 8 : start + 16] + content[start : start + 8] + content[start + 16 :]
    release = load(path, swapped)
    for use in (lambda: release[1], lambda: release.lookup([1]), lambda: release.interval([1]), release.stored):
        with pytest.raises(FormatError, match="must ascend"):
            use()


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"\x89HDF", b"{}", b"\0" * 4096, b"PAR1" * 500])
def test_other_files_are_no_releases(content: bytes, path: Path) -> None:
    with pytest.raises(FormatError, match="not a sparsedp release"):
        load(path, content)


def test_only_a_plan_that_is_the_same_in_everything_is_not_checked_again(
    contents: dict[str, bytes], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[object] = []
    check = guarantee.check_guarantee

    def count(plan: Any, stated: Any) -> None:
        checked.append(plan)
        check(plan, stated)

    monkeypatch.setattr(guarantee, "_kept", {})
    monkeypatch.setattr(guarantee, "check_guarantee", count)
    for name in ("tight-alp", "retrieval", "tight-alp"):
        load(path, contents[name])
    assert len(checked) == 2
    entries, description, data = split(contents["tight-alp"])
    with pytest.raises(FormatError, match="states epsilon"):
        load(path, join(entries, {**description, "epsilon": description["epsilon"] / 2}, data))
    assert len(checked) == 3
