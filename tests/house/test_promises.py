"""Promises about the whole, with their figures, and the page of all promises (`make promises`)."""

from __future__ import annotations

import re
import resource
import threading
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forged_files
import sparsedp
import test_exact_alp
import test_exact_tight_alp
from exact import exp_up, hockey_stick, law_of_sampler
from fuzz.forging import join, split
from promises import PROMISES
from releases import VARIANTS, make
from sparsedp import FormatError, InputError, ReproducibleReleaseError
from sparsedp.mechanisms import MECHANISMS
from sparsedp.mechanisms.stability import StabilityPlan
from sparsedp.privacy.laws import Geometric, TwoSided, log_bounds
from sparsedp.privacy.randomness import Randomness, ReproducibleRandomness, geometric, reproducible_for_tests, two_sided
from sparsedp.structures.table import add_noise
from sparsedp.structures.thresholds import StableStage
from statistics_helpers import LEVEL, chi_square_p
from test_exact_threshold import stable_law

Figure = Callable[[str], None]
TESTS = Path(__file__).parents[1]


@pytest.mark.promise(1)
def test_the_epsilon_stated_is_the_exact_loss(figure: Figure) -> None:
    linear = next(iter(test_exact_alp.LINEAR.values()))
    worst = test_exact_alp.worst_unit_loss(linear, rows=1, positions=((0,) * linear.levels,), largest=9)
    alp = float(log_bounds(worst).high / linear.step_loss)
    plan = test_exact_tight_alp.make_plan(test_exact_tight_alp.pure_stage("1.1"), (2,))
    tight = float(
        log_bounds(test_exact_tight_alp.worst_step(plan, test_exact_tight_alp.TOGETHER)).high / plan.step_loss
    )
    assert alp == pytest.approx(1, abs=1e-12)
    assert 0.97 < tight <= 1
    figure(f"worst loss of any output / stated loss: {alp:.6f} (ALP), {tight:.6f} (tight-alp, shared cells)")


@pytest.mark.promise(2)
def test_delta_is_exact(figure: Figure) -> None:
    equal = 0
    for threshold in range(1, 41):
        stage = StableStage(TwoSided.with_rate(Decimal("0.5")), threshold, 1, Fraction(1))
        absent, one = (stable_law(stage, count, 60) for count in (0, 1))
        equal += hockey_stick(one, absent, exp_up(stage.step_loss)) == stage.delta
    assert equal == 40
    figure("hockey-stick divergence = stated δ as rational numbers, for 40 of 40 thresholds")


@pytest.mark.promise(3)
def test_behaviour_matches_the_statement(figure: Figure) -> None:
    keys = np.arange(200_000)
    with reproducible_for_tests(31):
        release = sparsedp.release((keys, np.ones_like(keys)), epsilon=1.0, delta=0.02, mechanism="stability")
    assert isinstance(release.plan, StabilityPlan)
    expected = release.delta * len(keys)
    sigmas = (len(release.stored().keys) - expected) / np.sqrt(expected * (1 - release.delta))
    assert abs(sigmas) < 5
    stored = len(release.stored().keys)
    figure(f"of 200 000 keys of count 1, {stored:,} were stored, {expected:,.0f} expected: {sigmas:+.1f} σ")


@pytest.mark.promise(4)
def test_samplers_follow_their_law(figure: Figure) -> None:
    tiny = Geometric.with_rate(Decimal("0.6"), 3)
    length = len(tiny.digits) + 1
    law, _ = law_of_sampler(lambda words: int(geometric(words, tiny, 1)[0]), 3, length)
    assert all(mass == tiny.probability(value) for value, mass in law.items() if value < 1 << len(tiny.digits))
    draws = 10**6
    noise = TwoSided.with_rate(Decimal(1))
    values = two_sided(ReproducibleRandomness(41), noise, draws)
    cells = range(-14, 15)
    counts = np.array([(values == cell).sum() for cell in cells])
    expected = np.array([float(noise.probability(cell)) * draws for cell in cells])
    p = chi_square_p(np.append(counts, draws - counts.sum()), np.append(expected, draws - expected.sum()))
    assert p > LEVEL
    figure(f"{len(law)} values from every string of short words exactly; χ² of 10⁶ draws: p = {p:.2f}")


@pytest.mark.promise(7)
def test_no_float_in_the_noise_path(figure: Figure, tmp_path: Path) -> None:
    integers = 0

    def count(value: Any, place: str) -> None:
        nonlocal integers
        if isinstance(value, dict):
            for name, item in value.items():
                count(item, f"{place}.{name}")
        elif isinstance(value, list):
            for item in value:
                count(item, place)
        else:
            # The masses of a ladder are computed from the growth; they are integers, and ε follows
            # from them.
            assert not isinstance(value, float) or place.endswith((".epsilon", ".delta", ".recipe.growth")), place
            large = isinstance(value, str) and value.lstrip("-").replace("/", "").isdigit()
            integers += large or (isinstance(value, int) and not isinstance(value, bool))

    for name in VARIANTS:
        make(name).save(tmp_path / name)
        entries, description, data = split((tmp_path / name).read_bytes())
        count(description["plan"], "plan")
        description["epsilon"] = float(np.nextafter(description["epsilon"], 0))
        with pytest.raises(FormatError, match="thresholds guarantee"):
            forged_files.load(tmp_path / "forged", join(entries, description, data))
    figure(f"{integers:,} integers and no float decide in {len(VARIANTS)} plans; ε off by one ulp is refused at load")


@pytest.mark.promise(8)
def test_secure_randomness_only(figure: Figure, tmp_path: Path) -> None:
    drawn = {Randomness().words(2).tobytes() for _ in range(1000)}
    assert len(drawn) == 1000
    for name in VARIANTS:
        make(name).save(tmp_path / name)
        with pytest.raises(ReproducibleReleaseError):
            sparsedp.load(tmp_path / name)
    figure(f"1 000 streams, no repeat; {len(VARIANTS)} of {len(VARIANTS)} test-only releases refused by load")


@pytest.mark.promise(9)
def test_fresh_hash_seeds(figure: Figure) -> None:
    build = partial(sparsedp.release, {"a": 1}, epsilon=1, delta=0.1, mechanism="stability")
    seeds = {build().key_space.seed for _ in range(1000)}
    assert len(seeds) == 1000
    figure("1 000 builds, 1 000 seeds")


@pytest.mark.promise(10)
def test_sizes_do_not_depend_on_the_data(figure: Figure) -> None:
    same = 0
    for name, options in VARIANTS.items():
        if "nonzero" in options:
            continue
        shapes = []
        for seed in (1, 2):
            release = make(name, seed)
            arrays = [item for side in release.sides for part in side for item in part.items()]
            shapes.append([(n, array.shape) for n, array in arrays if not n.startswith(("table.", "keys."))])
        same += shapes[0] == shapes[1]
    assert same == sum("nonzero" not in options for options in VARIANTS.values())
    figure(f"equal sizes in {same} kinds of release")


@pytest.mark.promise(11)
def test_any_amount_of_data(figure: Figure) -> None:
    built = 0
    for mechanism, size in product(MECHANISMS, (0, 1, 300)):
        delta = 1e-6 if mechanism in ("stability", "retrieval") else 0.0
        counts = dict.fromkeys(range(size), 10**6)
        domain = 1000 if mechanism == "laplace" else None
        release = sparsedp.release(
            counts, epsilon=1, delta=delta, mechanism=mechanism, nonzero=20, upper=50, domain=domain
        )
        assert release.lookup(range(size)).max(initial=0) <= 50
        built += 1
    figure(f"{built} releases of 0, 1 and 300 keys of 10⁶ with nonzero = 20 and upper = 50: none raised")


@pytest.mark.promise(12)
def test_malformed_input_is_refused(figure: Figure, tmp_path: Path) -> None:
    ledger = sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=1)
    bad: list[Any] = [float("nan"), float("inf"), -1, 0.5, 1 << 63, -(1 << 63) - 1, 10**30, "3", None, True, 1 + 2j]
    keys: list[Any] = [1.5, None, True, 1 << 64, ("a",), "\ud800", object()]
    for value in bad:
        with pytest.raises(InputError, match=r"position 1|numbers|null"):
            sparsedp.release((["a", "b"], [1, value]), epsilon=1, ledger=ledger)
    for key in keys:
        first: Any = "a" if isinstance(key, str) else 7
        with pytest.raises(InputError, match="position 1"):
            sparsedp.release(([first, key], [1, 1]), epsilon=1, ledger=ledger)
    assert ledger.datasets()[0].left_epsilon == 1
    figure(f"{len(bad)} kinds of values and {len(keys)} kinds of keys refused; the ledger is untouched")


@pytest.mark.promise(13)
def test_keys_are_encoded_injectively(figure: Figure) -> None:
    alike: list[Any] = [1, "1", b"1", "1i", b"1s", "é", "e\u0301", "", b"", "\0", b"\0", -1, (1 << 64) - 1, 1 << 63]
    space = replace(sparsedp.release({"a": 1}, epsilon=1).key_space, kind=None)  # otherwise it would accept only text
    assert len({space.id(key) for key in alike}) == len(alike)
    with pytest.raises(InputError):
        space.id(True)
    figure(f"{len(alike)} keys that look alike have {len(alike)} ids; True is refused")


@pytest.mark.promise(15)
def test_loading_allocates_nothing(figure: Figure, tmp_path: Path) -> None:
    make("stability").save(tmp_path / "a")
    entries, description, data = split((tmp_path / "a").read_bytes())
    entries["table.ids"] |= {"shape": [2**40], "data_offsets": [0, 2**43]}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FormatError):
        forged_files.load(tmp_path / "b", join(entries, description, data))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20_000
    length = (tmp_path / "b").stat().st_size
    figure(f"a file of {length:,} bytes that claims 8 TB is refused; the process grew by {grown} KB")


@pytest.mark.promise(19)
def test_intervals_are_honest(figure: Figure) -> None:
    ranges = {"absent": 0, "1": 1, "3": 3, "10": 10, "40": 40, "200": 200}
    truth = np.repeat(list(ranges.values()), 20_000)
    least = 1.0
    kinds: list[dict[str, Any]] = [{}, {"delta": 1e-6, "mechanism": "retrieval"}]
    for options in kinds:
        with reproducible_for_tests(19):
            release = sparsedp.release((np.arange(len(truth)), truth), epsilon=1, nonzero=100_000, **options)
        low, high = release.interval(np.arange(len(truth)))
        covered = ((low <= truth) & (truth <= high)).reshape(len(ranges), -1).mean(axis=1)
        least = min(least, float(covered.min()))
    assert least >= 0.945
    figure(f"95 % intervals cover at least {100 * least:.1f} % at each of {len(ranges)} counts, 240 000 lookups")


@pytest.mark.promise(20)
def test_predictions_are_honest(figure: Figure) -> None:
    values = (0, 1, 2, 5, 10, 20, 60)
    background = np.maximum(1, np.round(2e5 / np.arange(1, 60_001) ** 1.05)).astype(np.int64)
    probes = np.repeat(values, 40_000 // len(values))
    counts = np.concatenate([background, probes])
    asked = np.arange(len(background), len(counts))
    errors = np.zeros(len(probes))
    with reproducible_for_tests(20):
        for _ in range(8):
            release = sparsedp.release((np.arange(len(counts)), counts), epsilon=1, nonzero=len(counts))
            errors += np.abs(release.lookup(asked) - probes) / 8
    off = [abs(errors[probes == value].mean() / release.plan.error(value).mean_absolute - 1) for value in values]
    assert max(off) < 0.05
    figure(f"plan.error is off by at most {100 * max(off):.1f} % at {len(values)} counts")


@pytest.mark.promise(21)
def test_lookups_are_thread_safe(figure: Figure) -> None:
    release = make("tight-alp")
    keys = np.arange(50_000)
    expected = release.lookup(keys)
    wrong: list[int] = []

    def ask() -> None:
        for _ in range(20):
            wrong.append(int((release.lookup(keys) != expected).sum()))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(wrong) == 0
    assert len(wrong) == 160
    figure("8 threads, 8 000 000 lookups on one release, no difference")


def test_the_page_of_promises_has_a_figure_for_each() -> None:
    page = (TESTS.parent / "docs" / "promises.md").read_text(encoding="utf-8")
    files = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")]
    marked = [found for file in files for found in re.findall(r"mark\.promise\((\d+)\)\ndef (test_\w+)\(", file)]
    for number, text in PROMISES.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {number} | "))
        _, _, promise, tests, shown, _ = (cell.strip() for cell in row.split("|"))
        assert promise == text
        assert set(re.findall(r"`(\w+)`", tests)) == {test for of, test in marked if of == str(number)}
        assert shown
        assert "**" not in shown


def test_the_samplers_take_the_same_steps_whatever_the_counts_are() -> None:
    # Catches a draw that is repeated or skipped for some counts. The digits of the noise take a
    # fixed number of words; only its high part, which is independent of the counts, takes more now
    # and then.
    for rate in ("0.01", "1", "3"):
        law = TwoSided.with_rate(Decimal(rate))
        next_words = set()
        for counts in (np.zeros(5000, np.int64), np.arange(5000), np.full(5000, 1 << 61)):
            stream = ReproducibleRandomness(1)
            add_noise(counts, law, stream)
            next_words.add(int(stream.words(1)[0]))
        assert len(next_words) == 1
