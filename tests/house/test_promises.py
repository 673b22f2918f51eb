"""One test for each promise, with a figure: `make promises` writes them into docs/promises.md."""

from __future__ import annotations

import json
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

import sparsedp
import test_attacks
import test_audit
import test_dependence
import test_exact_alp
import test_exact_tight_alp
import test_files
import test_key_kinds
import test_ledger_processes
import test_nothing_published
import test_overload
import test_user_level
from exact import exp_up, hockey_stick, law_of_sampler
from fuzz.forging import join, split
from neighbouring_inputs import KINDS
from neighbours import Seen, check
from promises import PROMISES
from releases import VARIANTS, answers, make
from sparsedp import FormatError, InputError, KeyTypeError, ReproducibleReleaseError
from sparsedp.mechanisms import MECHANISMS
from sparsedp.mechanisms.stability import StabilityPlan
from sparsedp.privacy.laws import Geometric, TwoSided, log_bounds
from sparsedp.privacy.randomness import Randomness, ReproducibleRandomness, geometric, reproducible_for_tests, two_sided
from sparsedp.structures.dependence import dependence
from sparsedp.structures.table import add_noise
from sparsedp.structures.thresholds import StableStage
from statistics_helpers import LEVEL, chi_square_p
from test_dependence import SYSTEMS
from test_exact_threshold import stable_law

Figure = Callable[[str], None]
PROMISED_SEED = 500  # of tables that no other test sees


def test_promise_01_the_epsilon_stated_is_the_exact_loss(figure: Figure) -> None:
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


def test_promise_02_delta_is_exact(figure: Figure) -> None:
    equal = 0
    for threshold in range(1, 41):
        stage = StableStage(TwoSided.with_rate(Decimal("0.5")), threshold, 1, Fraction(1))
        absent, one = (stable_law(stage, count, 60) for count in (0, 1))
        equal += hockey_stick(one, absent, exp_up(stage.step_loss)) == stage.delta
    assert equal == 40
    figure("hockey-stick divergence = stated δ as rational numbers, for 40 of 40 thresholds")


def test_promise_03_behaviour_matches_the_statement(figure: Figure) -> None:
    keys = np.arange(200_000)
    with reproducible_for_tests(31):
        release = sparsedp.release((keys, np.ones_like(keys)), epsilon=1.0, delta=0.02, mechanism="stability")
    assert isinstance(release.plan, StabilityPlan)
    expected = release.delta * len(keys)
    sigmas = (len(release.stored().keys) - expected) / np.sqrt(expected * (1 - release.delta))
    assert abs(sigmas) < 5
    stored = len(release.stored().keys)
    figure(f"of 200 000 keys of count 1, {stored:,} were stored, {expected:,.0f} expected: {sigmas:+.1f} σ")


def test_promise_04_samplers_follow_their_law(figure: Figure) -> None:
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


def test_promise_05_an_audit_cannot_refute_epsilon(figure: Figure) -> None:
    runs = 50_000
    results = [test_audit.same_audit(name, runs) for name in ("tight-alp", "retrieval", "laplace")]
    assert not any(result.refuted for result in results)
    assert all(result.lower_bound > 0.85 for result in results)
    bounds = ", ".join(f"{result.mechanism} {result.lower_bound:.3f}" for result in results)
    figure(f"{runs:,} runs per side and game, claimed ε = 1, proven ε ≥ {bounds}")


def test_promise_06_the_audit_has_teeth(figure: Figure) -> None:
    mutants = test_audit.MUTANTS
    caught = []
    for mechanism, mutate in mutants:
        with pytest.MonkeyPatch.context() as patch:
            mutate(patch)
            caught.append(test_audit.same_audit(mechanism, test_audit.RUNS_FOR[mutate]).refuted)
    assert all(caught)
    figure(f"{sum(caught)} of {len(mutants)} mutants refuted at confidence 1 − 10⁻⁶")


def test_promise_07_no_float_in_the_noise_path(figure: Figure, tmp_path: Path) -> None:
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
            test_attacks.load(tmp_path / "forged", join(entries, description, data))
    figure(f"{integers:,} integers and no float decide in {len(VARIANTS)} plans; ε off by one ulp is refused at load")


def test_promise_08_secure_randomness_only(figure: Figure, tmp_path: Path) -> None:
    drawn = {Randomness().words(2).tobytes() for _ in range(1000)}
    assert len(drawn) == 1000
    for name in VARIANTS:
        make(name).save(tmp_path / name)
        with pytest.raises(ReproducibleReleaseError):
            sparsedp.load(tmp_path / name)
    figure(f"1 000 streams, no repeat; {len(VARIANTS)} of {len(VARIANTS)} test-only releases refused by load")


def test_promise_09_fresh_hash_seeds(figure: Figure) -> None:
    build = partial(sparsedp.release, {"a": 1}, epsilon=1, delta=0.1, mechanism="stability")
    seeds = {build().key_space.seed for _ in range(1000)}
    assert len(seeds) == 1000
    figure("1 000 builds, 1 000 seeds")


def test_promise_10_sizes_and_header_do_not_depend_on_the_data(figure: Figure, tmp_path: Path) -> None:
    test_files.test_headers_do_not_depend_on_the_data(tmp_path)
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
    figure(f"equal headers for two data sets; equal sizes in {same} kinds of release")


def test_promise_11_any_amount_of_data(figure: Figure) -> None:
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


def test_promise_12_malformed_input_is_refused(figure: Figure, tmp_path: Path) -> None:
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


def test_promise_13_keys_are_encoded_injectively(figure: Figure) -> None:
    alike: list[Any] = [1, "1", b"1", "1i", b"1s", "é", "e\u0301", "", b"", "\0", b"\0", -1, (1 << 64) - 1, 1 << 63]
    space = replace(sparsedp.release({"a": 1}, epsilon=1).key_space, kind=None)  # otherwise it would accept only text
    assert len({space.id(key) for key in alike}) == len(alike)
    with pytest.raises(InputError):
        space.id(True)
    figure(f"{len(alike)} keys that look alike have {len(alike)} ids; True is refused")


def test_promise_14_the_same_answers(figure: Figure, tmp_path: Path) -> None:
    test_files.test_another_process_gives_the_same_answers(tmp_path)
    golden = sorted((Path(__file__).parents[1] / "golden").glob("*/*.json"))
    for path in golden:
        release = sparsedp.load(path.with_suffix(".sparsedp"), allow_reproducible=True)
        assert answers(release)["estimates"] == json.loads(path.read_text(encoding="utf-8"))["estimates"]
    figure(f"{len(golden)} golden files answer as they did; other processes and hash seeds too")


def test_promise_15_loading_allocates_nothing(figure: Figure, tmp_path: Path) -> None:
    make("stability").save(tmp_path / "a")
    entries, description, data = split((tmp_path / "a").read_bytes())
    entries["table.ids"] |= {"shape": [2**40], "data_offsets": [0, 2**43]}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FormatError):
        test_attacks.load(tmp_path / "b", join(entries, description, data))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20_000
    length = (tmp_path / "b").stat().st_size
    figure(f"a file of {length:,} bytes that claims 8 TB is refused; the process grew by {grown} KB")


def test_promise_16_damaged_files_are_refused(figure: Figure, tmp_path: Path) -> None:
    path = tmp_path / "a"
    make("stability").save(path)
    content = bytearray(path.read_bytes())
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(FormatError):
            sparsedp.load(path)
    for bit in range(8 * len(content)):
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        with pytest.raises(FormatError):
            sparsedp.verify(path)
        content[bit // 8] ^= 1 << bit % 8
    figure(f"all {len(content):,} truncations and all {8 * len(content):,} flipped bits of a file refused")


def test_promise_17_saving_is_atomic(figure: Figure, tmp_path: Path) -> None:
    test_files.test_a_killed_writer_leaves_the_old_file_or_the_new_one(tmp_path)
    figure("a writer killed at 5 moments: a whole file each time")


def test_promise_18_the_budget_is_spent_once(figure: Figure, tmp_path: Path) -> None:
    test_ledger_processes.test_of_two_processes_one_gets_the_last_epsilon(tmp_path / "budget.db")
    rounds = test_ledger_processes.ROUNDS
    figure(f"two processes race {rounds} times for the last ε: one wins each time, and what is left is exact")


def test_promise_19_intervals_are_honest(figure: Figure) -> None:
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


def test_promise_20_predictions_are_honest(figure: Figure) -> None:
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


def test_promise_21_lookups_are_thread_safe(figure: Figure) -> None:
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


def test_promise_22_one_user_moves_the_counts_by_a_bounded_share(figure: Figure, tmp_path: Path) -> None:
    seen = Seen()
    for name in KINDS:
        seen.add(check(name, PROMISED_SEED, tmp_path))
    assert len(seen.kinds) == len(KINDS)
    assert seen.refused < seen.pairs / 2
    assert (seen.keys, seen.most) == (1, 1)  # more would have been refuted, and less would say little
    figure(
        f"{seen.pairs:,} pairs of tables as {len(seen.kinds)} kinds of input: at most {seen.keys:.2f} m keys, "
        f"{seen.most:.2f} M each; of {seen.refused} pairs both were refused, or one by its broken rows"
    )


def test_promise_23_nothing_published_is_read_off_the_data(figure: Figure, tmp_path: Path) -> None:
    for at, name in enumerate(test_nothing_published.TEXT_INPUTS):
        mechanism = ("tight-alp", "stability")[at % 2]  # other tests try both with each
        test_nothing_published.test_headers_of_text_keys_are_equal_for_all_data(name, mechanism, tmp_path)
    for name in test_nothing_published.INTEGER_INPUTS:
        test_nothing_published.test_headers_of_a_domain_are_equal_for_all_data(name, "tight-alp", tmp_path)
    for variant in VARIANTS:
        test_nothing_published.test_the_order_of_rows_is_not_published(variant, tmp_path)
    kinds = len(test_nothing_published.TEXT_INPUTS) + len(test_nothing_published.INTEGER_INPUTS)
    data = len(test_nothing_published.DATA)
    figure(
        f"equal headers for {data} data sets as {kinds} kinds of input; equal bytes in any order for "
        f"{len(VARIANTS)} kinds of release"
    )


def test_the_page_of_promises_has_a_figure_for_each() -> None:
    page = (Path(__file__).parents[2] / "docs" / "promises.md").read_text(encoding="utf-8")
    here = Path(__file__).read_text(encoding="utf-8")
    for number, text in PROMISES.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {number} | "))
        _, _, promise, test, shown, _ = (cell.strip() for cell in row.split("|"))
        assert promise == text
        assert f"def {test.strip('`')}(" in here
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


def test_promise_24_an_overloaded_release_says_so_and_its_intervals_cover(figure: Figure) -> None:
    least, told, releases = 1.0, 0, 0
    heavy = np.full(test_overload.KEYS, 150)
    for (mechanism, delta), counts in product(test_overload.CASES, (test_overload.zipf(), heavy)):
        release = test_overload.overloaded(counts, mechanism, delta, 10, test_overload.KEYS // 10)
        sized = mechanism in test_overload.SIZED
        assert counts is not heavy or (release.overload is not None) == sized
        least, releases = min(least, *test_overload.coverages(release, counts)), releases + 1
        told += release.overload is not None
    assert least >= 0.94
    figure(f"{releases} releases at a tenth of their size, {told} say so; 95 % intervals cover {least:.1%} at least")


def test_promise_25_intervals_and_sums_hold_on_user_level_data(figure: Figure, user_level_log: Path) -> None:
    least, ratios = 1.0, []
    for keys_per_user, delta in product((1, 10, 50), (0.0, 1e-9)):
        judged = test_user_level.judge(user_level_log, keys_per_user, delta)
        assert judged.honest
        least = min(least, *judged.coverages)
        ratios.append(judged.sums)
    assert 0.8 <= min(ratios) <= max(ratios) <= 1.35
    figure(
        f"95 % intervals cover {least:.1%} at least; standard errors of sums are {min(ratios):.2f} to "
        f"{max(ratios):.2f} of the errors seen"
    )


def test_promise_26_the_delta_of_dependent_rows_is_an_upper_bound(figure: Figure) -> None:
    ratios = [dependence(*system) / min(Fraction(1), test_dependence.exact(*system)) for system in SYSTEMS]
    assert all(ratio >= 1 for ratio in ratios)
    figure(f"1 to {float(max(ratios)):.3g} times the exact sum, in rational arithmetic, of {len(ratios)} systems")


def test_promise_27_keys_are_typed(figure: Figure) -> None:
    refused = 0
    for kind, asked in product(test_key_kinds.KINDS, repeat=2):
        release = test_key_kinds.made(kind)
        for keys in test_key_kinds.columns_of(test_key_kinds.KEYS[asked]):
            if asked == kind:
                assert release.lookup(keys).min() > 900
                continue
            with pytest.raises(KeyTypeError):
                release.lookup(keys)
            refused += 1
    figure(f"{refused} columns of another kind than the release's refused, in all containers")
