"""Stored keys that are published: only because of their own noisy count, and the file names what
was hashed.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import sparsedp
from exact import exp_up, hockey_stick, independent
from releases import make
from sparsedp import FormatError, InputError, ParameterError
from sparsedp.format.description import Contents
from sparsedp.format.files import to_bytes
from sparsedp.keys.hashing import KeySpace
from sparsedp.keys.kept import kept_keys, wrong_keys
from sparsedp.privacy.randomness import reproducible_for_tests
from sparsedp.structures.thresholds import StableStage
from test_exact_threshold import UNSTORED, stable_law

PRIVACY: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def named(outcomes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """What is published about two keys of one fingerprint: a key is named if it is stored and the
    other is not.
    """
    return (UNSTORED, UNSTORED) if UNSTORED not in outcomes else outcomes


def published_law(stage: StableStage, counts: tuple[int, int], merged: bool) -> dict[Any, Fraction]:
    """The law of what is published about two keys of one fingerprint; `merged` draws one noise for
    their sum.
    """
    law: dict[Any, Fraction] = {}
    if merged:
        for value, mass in stable_law(stage, sum(counts), 40).items():
            names = UNSTORED if value is UNSTORED else tuple(count > 0 for count in counts)
            law[names, value] = law.get((names, value), Fraction(0)) + mass
        return law
    for outcomes, mass in independent(*(stable_law(stage, count, 40) for count in counts)).items():
        law[named(outcomes)] = law.get(named(outcomes), Fraction(0)) + mass
    return law


@pytest.mark.parametrize("other", [0, 1, 2, 9])
def test_naming_keys_of_one_fingerprint_costs_no_more_than_delta(other: int) -> None:
    # Catches a selection by fingerprints, where a rare key is named because a frequent one shares
    # its fingerprint.
    stage = StableStage.plan(Decimal("0.8"), Fraction(1), Fraction(1, 100))
    factor = exp_up(stage.step_loss)
    for count in (0, 1, 2):
        for step in (((other, count), (other, count + 1)), ((count, other), (count + 1, other))):
            for x, y in (step, step[::-1]):
                p, q = (published_law(stage, counts, merged=False) for counts in (x, y))
                assert hockey_stick(p, q, factor) <= stage.delta
    if other == 9:
        mutant = [published_law(stage, counts, merged=True) for counts in ((9, 1), (9, 0))]
        assert hockey_stick(mutant[0], mutant[1], factor) > Fraction(1, 2)


def test_a_rare_key_is_not_named_for_a_frequent_one_of_its_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    # 20 000 pairs of keys that share a fingerprint. A key of count 1 is stored with probability δ =
    # 0.1 (at most), and a key of a pair is named only if it alone is stored. Catches merging by
    # fingerprint (which names all rare keys), and naming by a search for the fingerprint (which
    # names half of them).
    pairs = 20_000
    real = KeySpace.read

    def colliding(self: KeySpace, keys: Any) -> Any:
        if len(keys) != 2 * pairs:
            return real(self, keys)
        ids, kind = real(self, np.arange(pairs))
        return np.concatenate([ids, ids]), kind

    monkeypatch.setattr(KeySpace, "read", colliding)
    keys = np.arange(2 * pairs)
    for mechanism in ("stability", "tight-alp"):
        options: dict[str, Any] = {"mechanism": mechanism, "nonzero": 2 * pairs, "keep_keys": True}
        rare_and_frequent = (keys, np.repeat([1, 1000], pairs))
        with reproducible_for_tests(1):
            release = sparsedp.release(rare_and_frequent, epsilon=1, delta=0.1, **options)
            both_rare = sparsedp.release((keys, np.ones(2 * pairs, int)), epsilon=1, delta=0.1, **options)
        chance = release.delta  # of one key of count 1
        names = np.array(release.kept_keys())
        assert (names >= pairs).all()
        assert np.abs(release.stored().values - 1000).max() < 60  # values stay with their names
        slack = 5 * (pairs * chance) ** 0.5
        assert abs(len(names) - pairs * (1 - chance)) < slack
        names = np.array(both_rare.kept_keys())
        assert len(set((names % pairs).tolist())) == len(names)
        assert abs(len(names) - 2 * pairs * chance * (1 - chance)) < 2 * slack


@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
def test_retrieval_names_keys_for_their_own_counts_in_any_order_of_rows(
    noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pairs of keys that share a fingerprint: of each pair, only one has its count in the array. Which
    # one must follow from the keys alone, or other users' rows would decide it, at a chance of k²/2⁶⁵
    # that no δ covers. Catches noise for fingerprints, and the first row of each pair.
    pairs = 300
    real = KeySpace.read

    def colliding(self: KeySpace, keys: Any) -> Any:
        if len(keys) != 2 * pairs:
            return real(self, keys)
        _, kind = real(self, keys)
        return real(self, np.asarray(keys) % pairs)[0], kind

    monkeypatch.setattr(KeySpace, "read", colliding)
    keys, counts = np.arange(2 * pairs), np.repeat([1, 1000], pairs)
    options: dict[str, Any] = {"mechanism": "retrieval", "keep_keys": True, "noise": noise, "max_keys_per_user": 2}
    releases = []
    for order in (np.arange(2 * pairs), np.random.default_rng(1).permutation(2 * pairs)):
        with reproducible_for_tests(1):
            releases.append(sparsedp.release((keys[order], counts[order]), **PRIVACY, **options))
    assert sorted(releases[0].kept_keys()) == list(range(pairs, 2 * pairs))
    first, second = (release.sides[0][0] for release in releases)
    assert all(np.array_equal(first[name], second[name]) for name in first)


TEXTS = [f"page {number}" for number in range(300)]
VALUES = [(number % 50) * 4 for number in range(300)]


@pytest.mark.parametrize(
    "counts",
    [
        dict(zip(TEXTS, VALUES, strict=True)),
        (TEXTS, VALUES),
        (iter(TEXTS), VALUES),
        (np.array(TEXTS), np.array(VALUES)),
        pd.Series(VALUES, index=TEXTS),
        pd.DataFrame({"k": pd.Categorical(TEXTS), "v": VALUES}),
        pl.DataFrame({"k": TEXTS, "v": VALUES}),
        pa.table({"k": pa.chunked_array([TEXTS[:100], [], TEXTS[100:]]), "v": VALUES}),
    ],
    ids=["dict", "lists", "iterator", "numpy", "series", "categories", "polars", "arrow chunks"],
)
def test_kept_keys_are_those_that_were_given(counts: Any) -> None:
    release = sparsedp.release(counts, **PRIVACY, keep_keys=True)
    assert release.mechanism == "retrieval"
    names, stored = release.kept_keys(), release.stored()
    truth = dict(zip(TEXTS, VALUES, strict=True))
    assert len(names) == len(stored.keys) > 200
    assert release.key_space.ids(names).tolist() == stored.keys.tolist()
    for name, value in zip(names, stored.values.tolist(), strict=True):
        assert isinstance(name, str)
        assert abs(value - truth[name]) < 40  # a false alarm has a chance of e^-40 for each


@pytest.mark.parametrize("keys", [[-(1 << 63), 0, 5, (1 << 64) - 1], [b"", b"\0", b"\xff"], ["", "ä", "a\0"]])
@pytest.mark.parametrize("options", [{}, {"parts": 4}, {"mechanism": "stability"}, {"signed": True}, {"step": 0.5}])
def test_kept_keys_survive_a_file(keys: list[Any], options: Mapping[str, Any], tmp_path: Path) -> None:
    release = sparsedp.release(dict.fromkeys(keys, 1000), **PRIVACY, keep_keys=True, **options)
    release.save(tmp_path / "r")
    sparsedp.verify(tmp_path / "r")
    assert set(sparsedp.load(tmp_path / "r").kept_keys()) == set(release.kept_keys()) == set(keys)


def test_names_are_in_the_order_of_the_stored_keys() -> None:
    counts = {f"key {at}": 500 * (-1) ** at for at in range(60)}
    for options in ({"signed": True}, {"signed": True, "parts": 3}):
        release = sparsedp.release(counts, **PRIVACY, keep_keys=True, **options)
        assert release.key_space.ids(release.kept_keys()).tolist() == release.stored().keys.tolist()


def test_named_values_are_rounded_at_random_and_without_bias() -> None:
    # Catches floor and nearest: both give 100 for all keys. σ of the mean is 0.02.
    keys = np.arange(20_000)
    with reproducible_for_tests(2):
        real = sparsedp.release((keys, np.full(20_000, 100.25)), epsilon=1, delta=1e-6, keep_keys=True, step=1.0)
    assert abs(real.stored().values.mean() - 100.25) < 0.1
    table = pa.table({"k": np.repeat(keys[:5000], 40), "u": np.arange(200_000), "v": np.full(200_000, 100.25 / 40)})
    counts = sparsedp.count(table, key="k", user="u", value="v", max_keys_per_user=1, max_per_key=4, step=1)
    with reproducible_for_tests(3):
        counted = sparsedp.release(counts, epsilon=8, delta=1e-6, keep_keys=True)
    assert abs(counted.stored().values.mean() - 100.25) < 0.1


def test_signed_values_are_cut_on_both_sides() -> None:
    release = sparsedp.release({"a": 900, "b": -900}, **PRIVACY, keep_keys=True, upper=200, signed=True)
    assert np.abs(release.stored().values).max() < 260


def test_signed_values_have_names_on_both_sides() -> None:
    release = sparsedp.release({"up": 500, "down": -500, "zero": 0}, **PRIVACY, keep_keys=True, signed=True)
    values = dict(zip(release.kept_keys(), release.stored().values.tolist(), strict=True))
    assert values == {"up": pytest.approx(500, abs=40), "down": pytest.approx(-500, abs=40)}


def test_values_are_cut_like_those_of_other_releases() -> None:
    counts = {"a": (1 << 63) - 1, "b": 90}
    release = sparsedp.release(counts, **PRIVACY, keep_keys=True, upper=100)
    assert max(release.stored().values) < 150
    assert release["a"] <= 100
    coarse = sparsedp.release(counts, epsilon=1e-4, delta=1e-6, keep_keys=True, nonzero=2)
    assert coarse.plan.problem.neighbours.real
    assert abs(coarse["a"] - 2.0**61) < 2.0**40


def test_counted_events_keep_their_keys() -> None:
    table = pd.DataFrame({"user": range(1000), "url": ["/a", "/b"] * 500})
    counts = sparsedp.count(table, key="url", user="user", max_keys_per_user=1)
    assert set(sparsedp.release(counts, **PRIVACY, keep_keys=True).kept_keys()) == {"/a", "/b"}


def test_a_key_that_occurs_twice_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    ledger = sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=1, delta=1e-3)
    with pytest.raises(InputError, match="occurs at positions 0 and 1"):
        sparsedp.release(([1, np.int64(1)], [5, 5]), **PRIVACY, keep_keys=True, ledger=ledger)
    damaged = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"a\xff")]
    )
    with pytest.raises(InputError, match="damaged"):
        sparsedp.release((damaged, [1000]), **PRIVACY, keep_keys=True, ledger=ledger)
    for keys in ("abc", b"abc"):
        with pytest.raises(sparsedp.KeyTypeError, match="single key"):
            sparsedp.release((keys, [1000] * 3), **PRIVACY, keep_keys=True, ledger=ledger)
    masked = np.ma.array([1, 2], mask=[False, True])
    with pytest.raises(InputError, match="key at position 1 is masked"):
        sparsedp.release((masked, [5, 5]), **PRIVACY, keep_keys=True, ledger=ledger)
    row = scipy.sparse.csr_array(([1000], ([0], [3])), shape=(1, 10**7))
    with pytest.raises(ParameterError, match="for hashed keys"):
        sparsedp.release(row, **PRIVACY, domain=10**7, keep_keys=True, ledger=ledger)
    assert ledger.datasets()[0].left_epsilon == 1


def test_keys_that_share_an_id_are_told_apart_wherever_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeySpace, "ids", lambda self, keys: np.zeros(len(keys), np.uint64))
    with pytest.raises(InputError, match=r"^the same key occurs at positions 0 and 2"):
        sparsedp.release((["a", "b", "a"], [1, 2, 3]), **PRIVACY, keep_keys=True)
    sparsedp.release((["a", "b", "c"], [1, 2, 3]), **PRIVACY, keep_keys=True)


@pytest.mark.parametrize(
    "keys",
    [
        pd.Index([-1, 1 << 63], dtype=object),
        np.array([np.int64(-1), np.uint64(1 << 63)], object),
        pd.arrays.SparseArray([3, 4]),
        pd.array([3, 4], "Int64"),
        [1 << 62, (1 << 63) - 1],
        pa.array([1, (1 << 64) - 1], pa.uint64()),
        pa.array(["a", "b"], pa.string_view()),
        np.array([b"a", b"b"]),
    ],
    ids=["index of objects", "objects", "sparse", "nullable", "large", "unsigned", "views", "fixed bytes"],
)
def test_whatever_can_be_hashed_can_be_named(keys: Any, tmp_path: Path) -> None:
    release = sparsedp.release((keys, [1000, 2000]), **PRIVACY, keep_keys=True)
    release.save(tmp_path / "r")
    sparsedp.verify(tmp_path / "r")
    assert len(release.kept_keys()) == 2


def test_a_key_that_occurs_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"^the same key occurs at positions 0 and 2; to keep keys, sum"):
        sparsedp.release((["a", "b", "a"], [1, 2, 3]), **PRIVACY, keep_keys=True)
    with pytest.raises(InputError, match=r"^the same key occurs at positions 1 and 2"):
        sparsedp.release((np.array([1, 7, 7]), [1, 2, 3]), **PRIVACY, keep_keys=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0}, "keep_keys needs delta > 0"),
        ({"domain": 10}, "keep_keys is for hashed keys"),
        ({"mechanism": "threshold-alp"}, "'threshold-alp' stores no keys that may be named"),
    ],
)
def test_keys_are_kept_only_where_that_is_private(options: dict[str, Any], message: str) -> None:
    for call in (sparsedp.plan, lambda **given: sparsedp.release({}, **given)):
        with pytest.raises(ParameterError, match=message):
            call(**PRIVACY | {"nonzero": 10, "keep_keys": True} | options)


def test_a_release_without_kept_keys_says_so() -> None:
    with pytest.raises(ParameterError, match="by their hashes only; build it with keep_keys"):
        sparsedp.release({"a": 1}, epsilon=1).kept_keys()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda a: a.update({"keys.offsets": a["keys.offsets"][:-1]}), "one for each stored id"),
        (lambda a: a.update({"keys.bytes": a["keys.bytes"][:-1]}), "one for each stored id"),
        (lambda a: a.update({"keys.offsets": a["keys.offsets"][:0]}), "one for each stored id"),
        (lambda a: a["keys.offsets"].__setitem__(0, 1), "one for each stored id"),
        (lambda a: a["keys.offsets"].__setitem__(1, 10), "one has an unknown type"),
        (lambda a: a["keys.offsets"].__setitem__(1, 1 << 60), "offsets must ascend"),
        (lambda a: a["keys.offsets"].__setitem__(1, 0), "offsets must ascend"),
        (lambda a: a["keys.bytes"].__setitem__(8, ord("x")), "one has an unknown type"),
        (lambda a: a["keys.bytes"].__setitem__(8, ord("u")), "one has an unknown type"),
        (lambda a: a["keys.bytes"].__setitem__(8, ord("s")), "not UTF-8|those of table.ids|one type"),
        (lambda a: a["keys.bytes"].__setitem__(0, 99), "those of table.ids"),
    ],
)
def test_forged_names_are_found(damage: Any, message: str, tmp_path: Path) -> None:
    release = make("stability-kept")
    arrays = {name: array.copy() for name, array in release.sides[0][0].items()}
    damage(arrays)
    contents = Contents(release.plan, release.key_space, ((arrays,),), reproducible=True)
    (tmp_path / "r").write_bytes(to_bytes(contents))
    with pytest.raises(FormatError, match=message):
        sparsedp.verify(tmp_path / "r")
    if "table.ids" not in message and "once" not in message:
        with pytest.raises(FormatError, match=message):
            kept_keys(arrays)


@pytest.mark.parametrize("options", [{"parts": 2}, {"signed": True}])
@pytest.mark.parametrize("wrong", ["type", "name", "twice"])
def test_every_part_and_side_is_checked(options: Mapping[str, Any], wrong: str) -> None:
    counts = {f"key {at:03d}": 500 * (-1) ** at if options.get("signed") else 500 for at in range(40)}
    release = sparsedp.release(counts, **PRIVACY, keep_keys=True, mechanism="stability", **options)
    first, second = [dict(arrays) for side in release.sides for arrays in side]
    assert list(wrong_keys([first, second], release.key_space)) == []
    if wrong == "type":
        end = second["keys.offsets"][1:] - 1
        second["keys.bytes"] = second["keys.bytes"].copy()
        second["keys.bytes"][end] = ord("b")
    elif wrong == "name":
        second["keys.bytes"] = second["keys.bytes"].copy()
        second["keys.bytes"][0] = ord("K")
    else:
        second = first
    expected = {"type": "one type", "name": "those of table.ids", "twice": "kept once"}[wrong]
    assert expected in next(wrong_keys([first, second], release.key_space))
