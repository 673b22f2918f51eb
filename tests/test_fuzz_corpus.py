"""What fuzzing found is replayed, and some changes of each seed are tried; without atheris."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fuzz.targets import TARGETS, MutateBytes, findings


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
    folders = [path.name for path in (Path(__file__).parent.parent / "fuzz" / "corpus").iterdir()]
    assert set(folders) <= set(TARGETS)
