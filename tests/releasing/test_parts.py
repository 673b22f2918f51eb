"""Releases in parts: each part is built on its own, and together they answer like one."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsedp
from sparsedp import FormatError, ParameterError, Release
from sparsedp.keys.hashing import Partition
from sparsedp.mechanisms.retrieval import RetrievalPlan
from sparsedp.privacy.randomness import Words, reproducible_for_tests
from statistics_helpers import LEVEL, chi_square_p

KEYS = np.arange(3000)
COUNTS = 1 + KEYS % 60
PARTS = 4
KINDS: dict[str, dict[str, Any]] = {
    "tight-alp": {"mechanism": "tight-alp"},
    "tight-alp, domain": {"mechanism": "tight-alp", "domain": 5000},
    "tight-alp, approximate": {"mechanism": "tight-alp", "delta": 1e-6},
    "tight-alp, signed": {"mechanism": "tight-alp", "signed": True},
    "threshold": {"mechanism": "threshold", "stored_zeros": 400.0},
    "threshold, domain": {"mechanism": "threshold", "domain": 5000, "stored_zeros": 400.0},
    "stability": {"mechanism": "stability", "delta": 1e-6},
    "retrieval": {"mechanism": "retrieval", "delta": 1e-6},
    "retrieval, domain": {"mechanism": "retrieval", "delta": 1e-6, "domain": 1 << 40},
}


def build(kind: str, parts: int = PARTS, seed: int = 3) -> Release:
    with reproducible_for_tests(seed):
        return sparsedp.release((KEYS, COUNTS), epsilon=1.0, nonzero=3000, parts=parts, **KINDS[kind])


@pytest.fixture(scope="module", params=KINDS)
def release(request: pytest.FixtureRequest) -> Release:
    return build(request.param)


def partition(release: Release, side: int = 0) -> Partition:
    seeds = release.sides[side][0].get("embedding.seeds", np.zeros(3, np.uint64)).tolist()
    return Partition(release.plan.problem.parts, release.plan.problem.hashed, tuple(seeds))


def in_one(release: Release) -> Release:
    """The same arrays as a release of one part."""
    sides = []
    for number, parts in enumerate(release.sides):
        ids: Words = np.concatenate([part["table.ids"] for part in parts])
        order = np.argsort(ids)
        arrays = {"table.ids": ids[order]}
        arrays["table.values"] = np.concatenate([part["table.values"] for part in parts])[order]
        if "embedding.blocks" in parts[0]:
            arrays["embedding.blocks"] = np.concatenate([part["embedding.blocks"] for part in parts])
            arrays["embedding.seeds"] = parts[0]["embedding.seeds"]
            arrays["embedding.symbols"] = np.sum([part["embedding.symbols"] for part in parts], axis=0)
            arrays["embedding.values"] = parts[0]["embedding.values"]
        sides.append((arrays,))
        assert number < 2
    plan = replace(release.plan, problem=replace(release.plan.problem, parts=1))  # type: ignore[type-var]
    return Release(plan, release.key_space, tuple(sides), release.reproducible)


def test_parts_answer_like_one_release(release: Release) -> None:
    if release.mechanism == "retrieval":
        pytest.skip("systems of parts cannot be put together")
    keys = np.arange(4500)
    one = in_one(release)
    assert np.array_equal(release.lookup(keys), one.lookup(keys))
    assert np.array_equal(release.interval(keys), one.interval(keys))
    assert [release[key] for key in range(50)] == release.lookup(range(50)).tolist()
    for mine, other in zip(release.stored(), one.stored(), strict=True):
        assert np.array_equal(mine, other)


def test_answers_of_parts_are_as_good(release: Release) -> None:
    if release.mechanism == "tight-alp":
        assert np.abs(release.lookup(KEYS) - COUNTS).mean() < (4 if release.plan.problem.signed else 2.4)
    large = COUNTS >= 45
    assert np.abs(release.lookup(KEYS) - COUNTS)[large].mean() < 8


def test_every_stored_key_lies_in_its_part(release: Release) -> None:
    for side, parts in enumerate(release.sides):
        for number, part in enumerate(parts):
            assert (partition(release, side).part_of(part["table.ids"]) == number).all()
            assert (np.diff(part["table.ids"].astype(object)) > 0).all()


@pytest.mark.parametrize("kind", ["retrieval", "retrieval, domain"])
def test_systems_of_parts_answer_for_their_own_keys(kind: str) -> None:
    # Every key, present or absent, has the error of the noise; catches a reader that takes the
    # wrong part's system.
    release = build(kind)
    assert release.lookup(KEYS, clamp=False).mean() == pytest.approx(COUNTS.mean(), abs=0.15)
    assert np.abs(release.lookup(KEYS, clamp=False) - COUNTS).mean() == pytest.approx(0.87, abs=0.1)
    assert np.abs(release.lookup(np.arange(10**6, 10**6 + 3000), clamp=False)).mean() == pytest.approx(0.87, abs=0.1)
    assert release.filled
    seeds = {tuple(part["retrieval.seed"].tolist()) for part in release.sides[0]}
    assert len(seeds) == PARTS
    assert [release[key] for key in range(50)] == release.lookup(range(50)).tolist()


def test_a_part_of_retrieval_is_a_release_of_its_keys() -> None:
    # The guarantee is that of one part's plan: same noise and threshold, δ of the part's own
    # system.
    release = build("retrieval")
    plan = release.plan
    assert plan.delta <= 1e-6
    assert isinstance(plan, RetrievalPlan)
    assert plan.problem.nonzero is not None
    assert plan.problem.nonzero // PARTS == pytest.approx(3000 / PARTS, abs=250)
    assert plan.system.keys > plan.problem.nonzero // PARTS
    assert plan.system.keys < build("retrieval", parts=1).plan.system.keys  # type: ignore[attr-defined]
    assert release.nbytes >= PARTS * plan.system.nbytes


@pytest.mark.parametrize("kind", ["threshold", "threshold, domain"])
def test_zeros_are_stored_in_every_part_as_often_as_planned(kind: str) -> None:
    # Catches a part that draws zeros of the whole domain, none, or the same as another part.
    found = np.zeros(PARTS)
    zeros: list[int] = []
    for seed in range(30):
        with reproducible_for_tests(seed):
            release = sparsedp.release({1: 1}, epsilon=1.0, parts=PARTS, **KINDS[kind])
        for number, part in enumerate(release.sides[0]):
            found[number] += len(part["table.ids"])
            zeros += part["table.ids"].tolist()
    chance = release.plan.stage.passing.chance[0]  # type: ignore[attr-defined]
    expected = float(chance * release.plan.problem.domain) * 30
    assert abs(found.sum() - expected) < 5 * np.sqrt(expected)
    assert chi_square_p(found, np.full(PARTS, found.sum() / PARTS)) > LEVEL


@pytest.mark.parametrize("kind", KINDS)
def test_parts_have_streams_of_their_own(kind: str) -> None:
    first, second = build(kind), build(kind)
    for left, right in zip(first.sides[0], second.sides[0], strict=True):
        assert all(np.array_equal(left[name], right[name]) for name in left)
    blocks = [part.get("embedding.blocks") for part in first.sides[0]]
    if blocks[0] is not None:
        assert len({block.tobytes() for block in blocks if block is not None}) == PARTS


def test_a_directory_of_parts_loads_like_one_file(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "visits.sparsedp"
    release.save(path)
    assert sorted(file.name for file in path.iterdir()) == [
        *(f"part-{part:05d}.sparsedp" for part in range(PARTS)),
        "release.sparsedp",
    ]
    sparsedp.verify(path)
    loaded = sparsedp.load(path, allow_reproducible=True)
    keys = np.arange(4000)
    assert np.array_equal(loaded.lookup(keys), release.lookup(keys))
    assert loaded.plan == release.plan
    assert (loaded.epsilon, loaded.delta, loaded.nbytes) == (release.epsilon, release.delta, release.nbytes)
    again = pickle.loads(pickle.dumps(loaded))
    assert np.array_equal(again.lookup(keys), release.lookup(keys))
    with pytest.raises(pickle.PicklingError, match="must be saved and loaded"):
        pickle.dumps(release)
    with pytest.raises(FileExistsError, match="a new directory"):
        release.save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["visits.sparsedp"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    build("tight-alp").save(tmp_path / "a")
    return tmp_path / "a"


def load(path: Path) -> Release:
    return sparsedp.load(path, allow_reproducible=True)


def test_a_directory_that_is_not_complete_is_refused(saved: Path) -> None:
    (saved / "part-00002.sparsedp").rename(saved / "elsewhere")
    with pytest.raises(FormatError, match=r"the release is incomplete: part-00002\.sparsedp is missing$"):
        load(saved)
    (saved / "elsewhere").rename(saved / "part-00002.sparsedp")
    load(saved)
    (saved / "release.sparsedp").unlink()
    with pytest.raises(FormatError, match="not a release, or an unfinished one"):
        load(saved)


@pytest.mark.parametrize("what", ["of another release", "in the wrong place", "cut off", "a release", "header as file"])
def test_foreign_parts_are_refused(what: str, saved: Path, tmp_path: Path) -> None:
    part = saved / "part-00001.sparsedp"
    if what == "of another release":
        build("tight-alp", seed=4).save(tmp_path / "b")
        shutil.copy(tmp_path / "b" / part.name, part)
        message = "is not the part that release.sparsedp lists"
    elif what == "in the wrong place":
        shutil.copy(saved / "part-00000.sparsedp", part)
        message = "must be part 1 of 4"
    elif what == "cut off":
        part.write_bytes(part.read_bytes()[:-64])
        message = "cut off"
    elif what == "a release":
        shutil.copy(saved / "release.sparsedp", part)
        message = "must be a part"
    else:
        with pytest.raises(FormatError, match="a release of several parts must be a directory"):
            load(saved / "release.sparsedp")
        return
    with pytest.raises(FormatError, match=message):
        load(saved)


def test_a_flipped_bit_of_any_part_is_found(saved: Path) -> None:
    for number in range(PARTS):
        part = saved / f"part-{number:05d}.sparsedp"
        content = bytearray(part.read_bytes())
        content[-1] ^= 1
        part.write_bytes(content)
        with pytest.raises(FormatError, match=f"of part-{number:05d}.sparsedp fails its checksum"):
            sparsedp.verify(saved)
        content[-1] ^= 1
        part.write_bytes(content)
    sparsedp.verify(saved)


@pytest.mark.parametrize("mechanism", ["alp", "compact", "laplace", "threshold-alp"])
def test_mechanisms_with_one_part_say_so(mechanism: str) -> None:
    with pytest.raises(ParameterError, match="has one part only, got parts = 2; use threshold, stability, tight-alp"):
        sparsedp.plan(1.0, 1e-6 if mechanism == "retrieval" else 0.0, nonzero=5, mechanism=mechanism, parts=2)


@pytest.mark.parametrize("parts", [0, -1, 1.5, "2", None, 1 << 21])
def test_bad_numbers_of_parts_are_refused(parts: Any) -> None:
    with pytest.raises(ParameterError, match="parts must be"):
        sparsedp.plan(1.0, nonzero=5, parts=parts)


def test_many_parts_of_few_keys(tmp_path: Path) -> None:
    release = sparsedp.release({"a": 100, "b": 3}, epsilon=1, nonzero=2, parts=64)
    release.save(tmp_path / "a")
    assert sparsedp.load(tmp_path / "a")["a"] == release["a"]
