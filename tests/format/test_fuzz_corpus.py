"""Replays what fuzzing found, and tries some changes of each seed, without atheris."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from fuzz import command_line
from fuzz.targets import TARGETS, MutateBytes, findings
from sparsedp.format import guarantee
from sparsedp.keys import arrow


def changed_somewhere(random: Random) -> MutateBytes:
    def change(data: bytes, _: int) -> bytes:
        at = random.randrange(len(data) + 1)
        return data[:at] + random.randbytes(random.randrange(3)) + data[at + random.randrange(3) :]

    return change


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_found_stays_fixed(name: str) -> None:
    for path in findings(name):
        TARGETS[name].check(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_keep_the_promises(name: str) -> None:
    for seed in TARGETS[name].seeds():
        TARGETS[name].check(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_changed_seeds_keep_the_promises(name: str) -> None:
    target, random = TARGETS[name], Random(1)
    change = changed_somewhere(random)
    for seed in list(target.seeds()) * 4:
        if target.mutate is None:
            target.check(change(seed, target.largest))
        else:
            target.check(target.mutate(seed, target.largest, random.getrandbits(32), change))


def test_findings_have_a_target() -> None:
    folders = [path.name for path in (Path(__file__).parents[2] / "fuzz" / "corpus").iterdir()]
    assert set(folders) <= set(TARGETS)


def test_an_exception_of_another_type_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarantee, "_kept", {})
    monkeypatch.setattr(guarantee, "check_guarantee", lambda plan, description: {}[plan])
    with pytest.raises(KeyError):
        TARGETS["release_files"].check(next(TARGETS["release_files"].seeds()))


def test_other_ids_for_the_same_keys_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "key_batch", lambda space, keys: space.ids(["x"] * len(keys)))
    with pytest.raises(AssertionError, match="arrow string"):
        TARGETS["key_encoding"].check(bytes([0, 2, 3]) + b"abc" + bytes([1]) + b"d")


def test_a_parser_that_lets_an_exception_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_line, "number", Fraction)
    with pytest.raises(ZeroDivisionError):
        TARGETS["command_line"].check(b"\x001/0")
