"""Releases as measurements of OpenDP: privacy maps, combinators, domains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparsedp
from exact import exp_up, hockey_stick, independent
from sparsedp import ParameterError, Release
from sparsedp.mechanisms import MECHANISMS
from sparsedp.mechanisms.stability import StabilityPlan
from sparsedp.planning.drafts import draft
from sparsedp.planning.request import Request
from sparsedp.privacy.groups import Hop
from sparsedp.reach.opendp import hop_of, make_release
from sparsedp.structures.thresholds import GaussianStage, StableStage
from test_exact_names import spent
from test_exact_threshold import stable_law

dp: Any = pytest.importorskip("opendp.prelude")

USER = (20, 20, 1)  # a user of twenty keys, in each of which they count once
COUNTS = {f"/page/{n}": 3 * n for n in range(200)}
SETTINGS: dict[str, dict[str, Any]] = {
    "laplace": {"domain": 500},
    "threshold": {},
    "stability": {"delta": 1e-6},
    "alp": {},
    "threshold-alp": {},
    "tight-alp": {},
    "compact": {"total": 500},
    "retrieval": {"delta": 1e-6},
}


@pytest.fixture(autouse=True)
def _features() -> Iterator[None]:
    dp.enable_features("contrib", "honest-but-curious")
    yield
    dp.disable_features("contrib", "honest-but-curious")


def counts_of(settings: dict[str, Any]) -> Any:
    return dict(enumerate(COUNTS.values())) if "domain" in settings else COUNTS


def stated(measurement: Any, distance: tuple[int, float, float]) -> tuple[float, float]:
    """ε and δ at a distance."""
    found = measurement.map(distance)
    return found if isinstance(found, tuple) else (found, 0.0)


def test_every_mechanism_is_tried() -> None:
    assert set(SETTINGS) == set(MECHANISMS)


@pytest.mark.parametrize("mechanism", SETTINGS)
def test_the_map_of_a_public_size_is_that_of_the_plan(mechanism: str) -> None:
    settings = {"nonzero": 300, **SETTINGS[mechanism]} if mechanism != "compact" else SETTINGS[mechanism]
    measurement = make_release(epsilon=1.0, mechanism=mechanism, max_keys_per_user=20, **settings)
    release = measurement(counts_of(settings))
    assert isinstance(release, Release)
    assert release.mechanism == mechanism
    assert not release.reproducible
    assert stated(measurement, USER) == (release.epsilon, release.delta)
    plan = sparsedp.plan(1.0, mechanism=mechanism, max_keys_per_user=20, **settings)
    assert stated(measurement, USER) == (plan.epsilon, plan.delta)
    assert str(measurement.output_measure) == (
        "Approximate(MaxDivergence)" if settings.get("delta") else "MaxDivergence"
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"delta": 1e-9, "parts": 2},
        {"mechanism": "tight-alp", "delta": 1e-9},
        {"mechanism": "retrieval", "delta": 1e-6, "noise": "gaussian"},
        {"mechanism": "retrieval", "delta": 1e-6, "noise": "geometric", "max_per_key": 3},
        {"mechanism": "alp"},
    ],
    ids=str,
)
def test_the_map_of_an_estimated_size_is_what_was_asked_for(settings: dict[str, Any]) -> None:
    # The plan is made from the data, so its own ε may be smaller; the map must not know.
    measurement = make_release(epsilon=0.7, max_keys_per_user=20, **settings)
    distance = (20, 20 * settings.get("max_per_key", 1), settings.get("max_per_key", 1))
    asked = (0.7, settings.get("delta", 0.0))
    for counts in ({}, COUNTS):
        release = measurement(counts)
        assert release.epsilon <= 0.7
        assert release.delta <= asked[1]
    assert stated(measurement, distance) == asked


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_farther_inputs_lose_more_and_equal_ones_nothing(delta: float) -> None:
    measurement = make_release(epsilon=1.0, delta=delta, max_keys_per_user=20)
    assert stated(measurement, (0, 0, 0)) == (0.0, 0.0)
    losses = [stated(measurement, (keys, keys, 1)) for keys in (1, 20, 21, 40, 41, 400)]
    assert [epsilon for epsilon, _ in losses] == [1, 1, 2, 2, 3, 20]
    failing = [own for _, own in losses]
    assert failing == sorted(failing)
    assert stated(measurement, (10**9, 2**62, 2**62))[1] == (1.0 if delta else 0.0)
    for wrong, words in (((1, -20, 1), "must not be negative"), (20, "three finite numbers"), ((1, 2), "three finite")):
        with pytest.raises(dp.OpenDPException, match=words):
            measurement.map(wrong)


@pytest.mark.parametrize("mechanism", ["auto", *SETTINGS])
@pytest.mark.parametrize("user", [(20, 1), (20, 3), (1, 5)], ids=str)
@pytest.mark.parametrize("noise", ["auto", "geometric"])
def test_a_hop_is_what_the_plan_promises(mechanism: str, user: tuple[int, int], noise: str) -> None:
    settings = SETTINGS.get(mechanism, {"delta": 1e-6})
    if user != (20, 3) and mechanism == "tight-alp":
        settings = {**settings, "nonzero": 300}
    request = Request(1.0, mechanism=mechanism, max_keys_per_user=user[0], max_per_key=user[1], noise=noise, **settings)
    drafted = draft(request)
    promise = drafted.plan.problem.promise
    hop = hop_of(drafted)
    if "keys" in promise or "key " in promise:
        assert hop == Hop(Fraction(user[0] * user[1]), *user)
        assert f"at most {user[0]} key" in promise
    else:
        assert hop == Hop(Fraction(user[0] * user[1]))
    assert "keys" not in promise or mechanism in ("auto", "retrieval", "stability")


def distance_of(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, int, int]:
    moved = [abs(a - b) for a, b in zip(x, y, strict=True)]
    return sum(1 for by in moved if by), sum(moved), max(moved)


def test_the_map_bounds_the_exact_divergence_at_every_distance() -> None:
    # Catches a δ that is multiplied by the hops alone, which is below the divergence here.
    settings: dict[str, Any] = {"mechanism": "stability", "delta": 0.02, "sensitivity": 1}
    measurement = make_release(epsilon=0.8, **settings)
    plan = sparsedp.plan(0.8, **settings)
    assert isinstance(plan, StabilityPlan)
    assert isinstance(plan.stage, StableStage)
    laws = [stable_law(plan.stage, count, 8) for count in range(4)]
    joint = {x: independent(*(laws[count] for count in x)) for x in product(range(4), repeat=2)}
    slack = Fraction(1, 100)  # of δ: what lumping the far tail can hide
    nearly = 0
    for x, y in product(joint, repeat=2):
        epsilon, delta = stated(measurement, distance_of(x, y))
        lost = hockey_stick(joint[x], joint[y], exp_up(Decimal(epsilon)))
        assert lost <= Fraction(delta) * (1 + slack)
        nearly += distance_of(x, y)[1] == 2 and 2 * plan.delta < lost
    assert nearly


def test_the_map_of_gaussian_noise_bounds_the_exact_divergence() -> None:
    settings: dict[str, Any] = {"mechanism": "stability", "delta": 0.05, "noise": "gaussian", "max_keys_per_user": 2}
    measurement = make_release(epsilon=1.0, **settings)
    plan = sparsedp.plan(1.0, **settings)
    assert isinstance(plan, StabilityPlan)
    stage = plan.stage
    assert isinstance(stage, GaussianStage)
    for pairs in product([(0, 0), (0, 1), (1, 0), (0, 2), (2, 4), (9, 6)], repeat=2):
        x, y = zip(*pairs, strict=True)
        epsilon, delta = stated(measurement, distance_of(x, y))
        assert spent(stage, pairs, exp_up(Decimal(epsilon))) <= Fraction(delta)


def test_measurements_compose() -> None:
    pure = make_release(epsilon=0.5, nonzero=300, max_keys_per_user=20, mechanism="threshold")
    approximate = make_release(epsilon=0.25, delta=1e-9, max_keys_per_user=20)
    both = dp.c.make_composition([approximate, dp.c.make_approximate(pure)])
    assert both.map(USER) == (0.25 + pure.map(USER), 1e-9)
    assert both.check(USER, (0.75, 1e-9))
    first, second = both(COUNTS)
    assert {type(first), type(second)} == {Release}
    assert abs(second["/page/190"] - 570) < 2000
    assert dp.c.make_composition([pure, pure]).map(USER) == 2 * pure.map(USER) <= 1


def test_a_release_is_an_answer_of_an_adaptive_composition() -> None:
    pure = make_release(epsilon=0.5, nonzero=300, max_keys_per_user=20, mechanism="threshold")
    queries = dp.c.make_adaptive_composition(
        pure.input_domain, pure.input_metric, dp.max_divergence(), d_in=USER, d_mids=[0.5, 0.5]
    )
    assert queries.map(USER) == 1.0
    answers = queries(COUNTS)
    first = answers(pure)
    named = make_release(epsilon=0.5, max_keys_per_user=20, mechanism="threshold" if first["/page/1"] > 1 else "alp")
    assert isinstance(answers(named), Release)
    with pytest.raises(dp.OpenDPException):  # the budget is spent
        answers(pure)


def test_a_privacy_filter_stops_releases_at_its_budget() -> None:
    pure = make_release(epsilon=0.5, nonzero=300, max_keys_per_user=20, mechanism="threshold")
    odometer = dp.c.make_fully_adaptive_composition(pure.input_domain, pure.input_metric, dp.max_divergence())
    filtered = dp.c.make_privacy_filter(odometer, d_in=USER, d_out=1.2)
    answers = filtered(COUNTS)
    assert isinstance(answers(pure), Release)
    assert isinstance(answers(pure), Release)
    assert answers.privacy_loss(USER) == 2 * pure.map(USER)
    with pytest.raises(dp.OpenDPException):
        answers(pure)


def test_rows_are_counted_by_opendp_and_answers_are_post_processed() -> None:
    counting = dp.t.make_count_by(dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance(), TV="i64")
    release = make_release(*counting.output_space, epsilon=1.0, sensitivity=20, mechanism="threshold")
    answers = counting >> release >> (lambda made: made.lookup(["/page/1", "/page/2"]))
    assert 0.999 < answers.map(20) <= 1
    assert answers.map(40) == 2 * answers.map(20)
    rows = ["/page/1"] * 4000 + ["/page/2"]
    found = answers(rows)
    assert isinstance(found, np.ndarray)
    assert abs(found[0] - 4000) < 1500  # fails with probability below e^-70
    # Compositions over rows, too, which OpenDP's interactive combinators take.
    queries = dp.c.make_adaptive_composition(
        counting.input_domain, counting.input_metric, dp.max_divergence(), d_in=20, d_mids=[1.0, 1.0]
    )(rows)
    assert isinstance(queries(counting >> release), Release)
    assert isinstance(queries(answers), np.ndarray)
    # The same release for rows of which a person has twenty, all of different pages.
    by_user = make_release(*counting.output_space, epsilon=1.0, max_keys_per_user=20)
    assert (counting >> by_user).map(20) == 1.0


def maps(key: Any, value: Any = "i64") -> tuple[Any, Any]:
    domain = dp.map_domain(dp.atom_domain(T=key), dp.atom_domain(T=value))
    return domain, dp.l01inf_distance(dp.absolute_distance(T=value))


@pytest.mark.parametrize(("key", "kind"), [(str, "text"), ("i32", "integer"), ("u64", "integer")])
def test_the_domain_states_the_kind_of_keys_even_if_there_are_none(key: Any, kind: str) -> None:
    release = make_release(*maps(key), epsilon=1.0)({})
    assert [column.kind for column in release.key_columns] == [kind]
    with pytest.raises(ParameterError, match=f"of kind {kind}"):
        make_release(*maps(key), epsilon=1.0, key_type="bytes")


def test_everything_in_a_map_domain_is_released() -> None:
    # An error would be an output that depends on the data.
    counts = {1: -5, 2: 2**63 - 1, 3: -(2**63), -4: 9, 5: 400}
    for signed in (False, True):
        release = make_release(*maps("i64"), epsilon=1.0, signed=signed, domain=100)(counts)
        assert abs(release[5] - 400) < 60
        assert (release[3] < -(2**60)) == signed
        assert release[2] > 2**60
        assert make_release(*maps("i64"), epsilon=1.0, signed=signed)(counts)[2] > 2**60
    assert make_release(*maps("u64", "u32"), epsilon=1.0)({2**64 - 1: 10**9})[2**64 - 1] > 10**8
    assert make_release(*maps("u64", "u64"), epsilon=1.0).map((1, 1, 1)) <= 1.0


def test_counts_of_any_form_are_taken_without_a_domain() -> None:
    rows = [(f"user-{n}", f"/page/{(n * k) % 50}") for n in range(400) for k in range(20)]
    log = pd.DataFrame(rows, columns=["user", "page"], dtype="string")
    counts = sparsedp.count(log, key="page", user="user", max_keys_per_user=20)
    true = Counter(page for _, page in set(rows))
    for delta, noise in ((0.0, "auto"), (1e-6, "gaussian")):
        measurement = make_release(epsilon=1.0, delta=delta, noise=noise, max_keys_per_user=20)
        assert measurement.input_domain.member(counts)
        assert abs(measurement(counts)["/page/0"] - true["/page/0"]) < 2000
    with pytest.raises(dp.OpenDPException, match="made for other bounds"):
        make_release(epsilon=1.0, max_keys_per_user=10)(counts)
    with pytest.raises(dp.OpenDPException, match="made for other bounds"):
        make_release(epsilon=1.0, delta=1e-6, noise="gaussian", max_keys_per_user=10, max_per_key=2)(counts)
    assert not make_release(epsilon=1.0, max_keys_per_user=10).input_domain.member(counts)


def test_members_are_what_release_takes() -> None:
    domain = make_release(epsilon=1.0).input_domain
    assert domain.member({"a": 1})
    assert domain.member((["a"], [1]))
    for other in ({"a": -1}, {1: 1}, {"a": 0.5}, 7, (["a"], [1, 2])):
        assert not domain.member(other), other
    assert make_release(epsilon=1.0, step=0.5, signed=True, sensitivity=0.5).input_domain.member({"a": -0.25})
    pairs = make_release(epsilon=1.0, key_type=["date", "text"])
    assert pairs.input_domain != domain
    assert pairs.map((1, 1, 1)) == 1.0
    assert make_release(epsilon=1.0).input_domain == domain


def test_real_values_have_distances_that_are_real() -> None:
    measurement = make_release(epsilon=1.0, step=0.25, sensitivity=1.5)
    assert measurement.map((3, 1.5, 1.5)) <= 1.0
    assert 1.0 < measurement.map((3, 1.6, 1.6)) <= 2.0
    assert measurement.map((3, 9.0, 0.5)) <= 1.0
    assert isinstance(measurement({"a": 0.75}), Release)
    with pytest.raises(dp.OpenDPException, match="three finite numbers"):
        measurement.map((1, float("inf"), float("inf")))


def test_what_no_domain_can_promise_is_refused() -> None:
    with pytest.raises(ParameterError, match="compact assumes that at most 10 keys are non-zero"):
        make_release(epsilon=1.0, mechanism="compact", nonzero=10)
    with pytest.raises(ParameterError, match="must have integer values"):
        make_release(*maps(str, float), epsilon=1.0)
    with pytest.raises(ParameterError, match="map_domain of text or integer keys"):
        make_release(*maps(bool), epsilon=1.0)
    with pytest.raises(ParameterError, match="map_domain of text or integer keys"):
        make_release(dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance(), epsilon=1.0)
    with pytest.raises(ParameterError, match="input_metric must be L01InfDistance"):
        make_release(maps(str)[0], dp.l1_distance(T="i64"), epsilon=1.0)
    with pytest.raises(ParameterError, match="input_domain must be given"):
        make_release(input_metric=maps(str)[1], epsilon=1.0)
    with pytest.raises(ParameterError, match="step must not be given"):
        make_release(*maps(str), epsilon=1.0, step=0.5)
    with pytest.raises(ParameterError, match="of kind text, got domain=5"):
        make_release(*maps(str), epsilon=1.0, domain=5)
    with pytest.raises(ParameterError, match="epsilon must be positive"):
        make_release(epsilon=-1.0)


def test_opendp_asks_for_its_features() -> None:
    dp.disable_features("honest-but-curious")
    with pytest.raises(dp.OpenDPException, match="honest-but-curious"):
        make_release(epsilon=1.0)
    dp.enable_features("honest-but-curious")
