"""Forged files of cut laws and of Gaussian noise: laws that are not what they claim, bounds of other
users, smaller δ. All are refused, and quickly.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsedp
from forged_files import changed, load, replaced
from fuzz.forging import NASTY, Header, join, leaves, split
from releases import KEYS, answers
from sparsedp import FormatError
from sparsedp.mechanisms.gaussian import GaussianNoise
from sparsedp.mechanisms.problem import UserBounds
from sparsedp.mechanisms.stating import encode
from sparsedp.privacy.cut_laws import CutGaussian, CutGeometric, CutLaw
from sparsedp.privacy.laws import TwoSided
from sparsedp.privacy.randomness import reproducible_for_tests

USER: dict[str, Any] = {"max_keys_per_user": 3, "max_per_key": 2, "noise": "gaussian"}
VARIANTS: dict[str, dict[str, Any]] = {
    "retrieval": {"mechanism": "retrieval", "nonzero": 60, **USER},
    "retrieval-sized": {"mechanism": "retrieval", "signed": True, "parts": 1, **USER},
    "retrieval-kept": {"mechanism": "retrieval", "nonzero": 60, "keep_keys": True, **USER},
    "retrieval-geometric": {"mechanism": "retrieval", "nonzero": 60},
    "stability": {"mechanism": "stability", **USER},
    "stability-signed": {"mechanism": "stability", "signed": True, "keep_keys": True, **USER},
}
Change = Callable[[Header], object]


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("attacks") / "a.sparsedp"
    counts = {key: (key % 7) * (200 if key % 3 == 0 else 1) for key in KEYS}
    result = {}
    for name, options in VARIANTS.items():
        with reproducible_for_tests(5):
            sparsedp.release(counts, epsilon=1.0, delta=1e-6, **options).save(path)
        result[name] = path.read_bytes()
    return result


def law(place: tuple[str, ...], **new: Any) -> Change:
    """Other fields of a law; its digest stays that of the masses it had."""

    def change(plan: Header) -> None:
        for name in place:
            plan = plan[name]
        plan.update(new)

    return change


def other(place: tuple[str, ...], new: CutLaw | TwoSided) -> Change:
    """Another law, with its own digest."""

    def change(plan: Header) -> None:
        for name in place[:-1]:
            plan = plan[name]
        plan[place[-1]] = encode(new, "law", {})

    return change


def users(keys: int, per_key: int, *further: Change) -> Change:
    """Bounds of other users, stated everywhere."""

    def change(plan: Header) -> None:
        problem = plan["problem"]
        problem["contribution"].update(keys=keys, per_key=f"{per_key}/1")
        problem["neighbours"]["sensitivity"] = f"{keys * per_key}/1"
        if "sizing_keys" in problem:
            problem["sizing_keys"] = keys
        if "stage" in plan:
            plan["stage"].update(keys=keys, per_key=per_key)
        for more in further:
            more(plan)

    return change


def fields(place: tuple[str, ...], **new: Any) -> Change:
    return law(place, **new)


def halved(plan: Header) -> None:
    """Half the variance of the number, which is still aligned with that of the counts."""
    variance = Fraction(plan["problem"]["sizing_noise"]["variance"]) / 2
    other(NUMBER, CutGaussian(64, variance, 1 << 17))(plan)


BUCKETS, NUMBER, NAMES = ("buckets",), ("problem", "sizing_noise"), ("stage", "noise")
STAGE, PROBLEM = ("stage",), ("problem",)
GUARANTEE = "would spend|guarantees nothing|states delta"
RANGE = "out of range"

ATTACKS: dict[str, tuple[str, Change, str]] = {
    "another digest": ("retrieval", law(BUCKETS, sha256="0" * 64), "does not give the masses"),
    "another digest of the number": ("retrieval", law(NUMBER, sha256="0" * 64), "does not give the masses"),
    "another digest of names": ("stability", law(NAMES, sha256="0" * 64), "does not give the masses"),
    "no digest": ("retrieval", lambda plan: plan["buckets"].pop("sha256"), "must have the fields"),
    "a digest that is a number": ("retrieval", law(BUCKETS, sha256=7), "does not give the masses"),
    "a variance of other masses": ("retrieval", law(BUCKETS, variance="300/1"), "does not give the masses"),
    "no variance": ("retrieval", law(BUCKETS, variance="0/1"), RANGE),
    "a negative variance": ("stability", law(NAMES, variance="-5/1"), RANGE),
    "a variance below a half": ("stability", law(NAMES, variance="1/4"), RANGE),
    "a huge variance": ("retrieval", law(BUCKETS, variance=f"{1 << 60}/1"), RANGE),
    "a variance of many digits": ("retrieval", law(NUMBER, variance=f"{10**60 + 1}/{10**58}"), RANGE),
    "a huge reach": ("retrieval", law(BUCKETS, most=1 << 40), RANGE),
    "a reach beyond JSON": ("retrieval", law(NUMBER, most=str(1 << 80)), RANGE),
    "no reach": ("stability", law(NAMES, most=0), RANGE),
    "words of odd bits": ("retrieval", law(BUCKETS, bits=41), "16, 24"),
    "words of many bits": ("stability", law(NAMES, bits=1 << 20), "16, 24"),
    "a widest law of short words": (
        "retrieval",
        law(BUCKETS, bits=16, variance=f"{1 << 28}/1", most=1 << 17),
        "masses",
    ),
    "an unknown kind": ("retrieval", law(BUCKETS, kind="laplace"), "known kind"),
    "a kind that is a list": ("retrieval", law(BUCKETS, kind=["gaussian"]), "known kind"),
    "another kind": ("retrieval", law(BUCKETS, kind="geometric"), "must have the fields"),
    "names of another kind": ("stability", law(STAGE, kind="stable"), "must have the fields"),
    "names of a pure kind": ("stability", law(STAGE, kind="pure"), "known kind"),
    "geometric counts": ("retrieval", other(BUCKETS, CutGeometric(40, Decimal("0.3"))), "same kind of noise"),
    "a geometric number": ("retrieval", other(NUMBER, TwoSided.with_rate(Decimal("0.02"))), "of its noise"),
    "a cut geometric number": ("retrieval", other(NUMBER, CutGeometric(40, Decimal("0.3"))), "known kind"),
    "gaussian counts": ("retrieval-geometric", other(BUCKETS, CutGaussian(24, Fraction(200), 80)), "kind of noise"),
    "a tiny rate": ("retrieval-geometric", law(BUCKETS, rate="1E-9"), "the rate of a cut law"),
    "no rate": ("retrieval-geometric", law(BUCKETS, rate="0"), "the rate of a cut law"),
    "a huge rate": ("retrieval-geometric", law(BUCKETS, rate="99999999"), "the rate of a cut law"),
    "the rate of other masses": ("retrieval-geometric", law(BUCKETS, rate="0.5"), "does not give the masses"),
    "a larger rate": ("retrieval-geometric", other(BUCKETS, CutGeometric(24, Decimal("1.2"))), "must fit|" + GUARANTEE),
    "a last value that is too likely": (
        "retrieval-geometric",
        lambda plan: (other(BUCKETS, CutGeometric(16, Decimal("0.9")))(plan), fields(("system",), width=2)(plan)),
        GUARANTEE,
    ),
    "other slots": ("retrieval", fields(("system",), width=8), "must fit the buckets"),
    "less noise": ("retrieval", other(BUCKETS, CutGaussian(40, Fraction(100), 84)), GUARANTEE),
    "less noise on names": ("stability", other(NAMES, CutGaussian(64, Fraction(100), 1 << 17)), GUARANTEE),
    "less noise on the number": ("retrieval", other(NUMBER, CutGaussian(64, Fraction(5), 1 << 17)), "margin"),
    "less noise on an estimated number": ("retrieval-sized", halved, GUARANTEE),
    "an earlier cut": ("retrieval", other(BUCKETS, CutGaussian(40, Fraction(121557, 512), 40)), GUARANTEE),
    "no noise on the number": (
        "retrieval",
        lambda plan: plan["problem"].pop("sizing_noise"),
        "keys that may come|number",
    ),
    "a number that is not counted": (
        "retrieval",
        lambda plan: [plan["problem"].pop(name) for name in ("sizing_noise", "sizing_keys", "bounded")],
        "must be stated|number of keys",
    ),
    "geometric noise in words": ("retrieval", lambda plan: plan["problem"].pop("noise"), "that of the counts"),
    "gaussian noise in words": ("retrieval-geometric", fields(PROBLEM, noise="gaussian"), "that of the counts"),
    "unknown noise": ("stability", fields(PROBLEM, noise="laplace"), "geometric or gaussian"),
    "names with geometric words": ("stability", lambda plan: plan["problem"].pop("noise"), "neighbours of the problem"),
    "other keys than the user's": ("stability", law(STAGE, keys=2), "neighbours of the problem"),
    "less per key than the user's": ("stability", law(STAGE, per_key=1), "neighbours of the problem"),
    "names of one sign": ("stability-signed", lambda plan: plan["stage"].pop("signed"), "neighbours of the problem"),
    "names of both signs": ("stability", law(STAGE, signed=True), "neighbours of the problem"),
    "a threshold one lower": (
        "stability",
        lambda plan: law(STAGE, threshold=plan["stage"]["threshold"] - 1)(plan),
        GUARANTEE,
    ),
    "a threshold of one": ("stability", law(STAGE, threshold=1), GUARANTEE),
    "a threshold of zero": ("stability", law(STAGE, threshold=0), RANGE),
    "a threshold beyond all noise": ("stability", law(STAGE, threshold=1 << 50), RANGE),
    "fewer keys that come or go": ("retrieval", fields(PROBLEM, sizing_keys=2), "must be those of neighbours"),
    "users of more keys": ("retrieval", users(9, 2), GUARANTEE + "|margin"),
    "users of more per key": ("retrieval", users(3, 3), GUARANTEE + "|margin"),
    "names of more keys": ("stability", users(4, 2), GUARANTEE),
    "names of more per key": ("stability", users(3, 3), GUARANTEE),
    "a million keys": ("retrieval", users(10**6, 2), GUARANTEE + "|margin"),
    "names of a million keys": ("stability", users(10**6, 2), GUARANTEE),
    "names of many keys": ("stability", users(10**15, 1), GUARANTEE + "|epsilon"),
    "names of much per key": ("stability", users(1, 10**6), GUARANTEE + "|epsilon"),
    "names far beyond the reach": ("stability", users(1, 10**12), GUARANTEE + "|epsilon"),
    "users without bounds": ("stability", fields(PROBLEM, contribution=None), "max_keys_per_user"),
    "users that move further": (
        "stability",
        fields(("problem", "neighbours"), sensitivity="12/1"),
        "max_keys_per_user",
    ),
    "parts of a count": (
        "stability",
        lambda plan: (users(6, 1)(plan), fields(("problem", "contribution"), keys=12, per_key="1/2")(plan)),
        "whole units",
    ),
    "real values": ("stability", fields(("problem", "neighbours"), real=True), "whole units"),
    "a smaller system": ("retrieval", fields(("system",), keys=200), GUARANTEE + "|margin"),
    "a margin below the user's keys": ("retrieval", fields(("system",), keys=171), "margin"),
    "more room": ("retrieval", fields((), room=400), "margin"),
    "a larger epsilon": ("retrieval", fields(PROBLEM, epsilon=2.0), "states epsilon"),
}


def attacked(content: bytes, change: Change) -> bytes:
    entries, description, data = split(content)
    change(description["plan"])
    return join(entries, description, data)


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_forged_plan_is_refused_at_once(attack: str, contents: dict[str, bytes], path: Path) -> None:
    name, change, message = ATTACKS[attack]
    content, start = attacked(contents[name], change), time.thread_time()
    with pytest.raises(FormatError, match=message):
        load(path, content)
    assert time.thread_time() - start < 2


@pytest.mark.parametrize("name", VARIANTS)
def test_files_that_are_not_forged_are_accepted(name: str, contents: dict[str, bytes], path: Path) -> None:
    release = load(path, contents[name])
    assert join(*split(contents[name])) == contents[name]
    assert isinstance(release.plan.problem.noise, str)
    assert (release.plan.problem.noise == "gaussian") == ("geometric" not in name)


@pytest.mark.parametrize("name", ["retrieval", "stability", "stability-signed"])
def test_the_delta_that_a_file_states_is_that_of_its_noise(name: str, contents: dict[str, bytes], path: Path) -> None:
    entries, description, data = split(contents[name])
    delta = description["delta"]
    for wrong in (delta * (1 - 1e-9), delta * (1 + 1e-9), delta / 2, 1e-6, 0, 0.0, None, "1", [delta], True):
        with pytest.raises(FormatError, match="states delta"):
            load(path, join(entries, description | {"delta": wrong}, data))
    # Another machine may round its floats differently; the guard of the accounting covers that.
    near = load(path, join(entries, description | {"delta": float(np.nextafter(delta, 0))}, data))
    assert near.delta == delta


def test_a_sized_release_states_all_of_delta(contents: dict[str, bytes], path: Path) -> None:
    entries, description, data = split(contents["retrieval-sized"])
    assert description["delta"] == 1e-6
    with pytest.raises(FormatError, match="states delta"):
        load(path, join(entries, description | {"delta": 9e-7}, data))


@pytest.mark.parametrize("name", VARIANTS)
def test_nasty_values_at_every_place_of_a_plan(name: str, contents: dict[str, bytes], path: Path) -> None:
    entries, description, data = split(contents[name])
    random = np.random.default_rng(2)
    for place in [place for place in leaves(description) if place[:1] == ("plan",)][1:]:
        for nasty in [NASTY[i] for i in random.choice(len(NASTY), 8, replace=False)]:
            start = time.thread_time()
            with suppress(FormatError):
                answers(load(path, join(entries, replaced(description, place, nasty), data)))
            assert time.thread_time() - start < 2
        if place[-1] != "stated":  # who bounded the users: only words depend on it
            with pytest.raises(FormatError):
                load(path, join(entries, changed(description, place, lambda inner, last: inner.pop(last)), data))


def test_laws_of_number_and_counts_must_be_aligned(contents: dict[str, bytes], path: Path) -> None:
    # The accounting needs slopes that are multiples of one another.
    _, description, _ = split(contents["retrieval"])
    number = description["plan"]["problem"]["sizing_noise"]
    other_variance = Fraction(number["variance"]) * Fraction(101, 100)
    forged = attacked(contents["retrieval"], other(NUMBER, CutGaussian(64, other_variance, 1 << 17)))
    with pytest.raises(FormatError, match="guarantees nothing"):
        load(path, forged)


def test_the_laws_of_a_file_are_those_that_are_planned(contents: dict[str, bytes], path: Path) -> None:
    plan = load(path, contents["retrieval"]).plan
    problem = replace(plan.problem, sizing_noise=None, sizing_keys=None, bounded=False)
    assert UserBounds.of(problem) == UserBounds(3, 2)
    noise = GaussianNoise.plan(problem, Fraction(7, 8) * Fraction(1e-6), counted=True)
    assert json.loads(json.dumps(encode(noise.counts, "law", {}))) == encode(plan.buckets, "law", {})  # type: ignore[attr-defined]  # of a RetrievalPlan
