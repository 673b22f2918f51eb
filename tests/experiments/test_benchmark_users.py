"""The parts of `benchmarks.users` against figures computed by hand, and a run on a small corpus."""

from __future__ import annotations

import json
import math
import sys
import sysconfig
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparsedp
from benchmarks import users, users_tables
from benchmarks.other_libraries import Library, opendp_alp, opendp_gaussian, opendp_laplace
from benchmarks.users_tables import BEGIN, END, Block, Row
from sparsedp.experiments import identifiers
from sparsedp.experiments.drivers.with_opendp import least
from sparsedp.experiments.judging import (
    Questions,
    ask,
    coverage,
    dealt,
    errors,
    means,
    published,
    questions,
    stated_to_seen,
)
from sparsedp.experiments.references import Dense, dense_error, dense_errors, dense_gaussian_error
from sparsedp.privacy.contributions import BoundedCounts, Contribution
from sparsedp.privacy.randomness import reproducible_for_tests


@pytest.fixture
def small() -> Questions:
    """Four present keys with the counts 1, 9, 10, 200 and two absent ones."""
    return questions(list("abcdef"), np.array([1, 9, 10, 200]), 2)


def test_every_identifier_is_a_row_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "code" / "site-packages").mkdir(parents=True)
    (tmp_path / "code" / "one.py").write_text("import os  # x 1a\nos.name\n", encoding="utf-8")
    (tmp_path / "code" / "none.py").write_text("1 + 1\n", encoding="utf-8")
    (tmp_path / "code" / "site-packages" / "other.py").write_text("elsewhere\n", encoding="utf-8")
    (tmp_path / "code" / "text.txt").write_text("words\n", encoding="utf-8")
    corpus = identifiers.write([tmp_path / "code"], tmp_path / "rows.parquet")
    assert (corpus.users, corpus.rows) == (1, 4)
    assert pq.read_table(corpus.path).to_pydict() == {"user": ["0/one.py"] * 4, "key": ["import", "os", "os", "name"]}


def test_a_file_adds_at_most_one_to_each_of_its_m_keys(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    for name in "abc":
        (tmp_path / "code" / f"{name}.py").write_text("first first second third", encoding="utf-8")
    corpus = identifiers.write([tmp_path / "code"], tmp_path / "rows.parquet")

    def counted(most: int) -> list[int]:
        counts = sparsedp.count(str(corpus.path), key="key", user="user", max_keys_per_user=most, max_per_key=1)
        return sorted(counts.units.tolist())

    assert counted(3) == [3, 3, 3]
    assert sum(counted(2)) == 6
    assert max(counted(2)) <= 3


def test_errors_are_means_over_groups(small: Questions) -> None:
    found = errors(small, np.array([0.0, 9.0, 14.0, 191.0, 2.0, 0.0]))
    assert found == {"all": 3.5, "absent": 1.0, "frequent": 3.5, "1–9": 0.5, "10–99": 4.0, "100+": 9.0}


def test_keys_that_were_not_asked_for_do_not_count(small: Questions) -> None:
    found = errors(small, np.array([0.0, np.nan, 14.0, 191.0, np.nan, 3.0]))
    assert found["1–9"] == 1.0
    assert found["absent"] == 3.0


def test_questions_do_not_depend_on_the_order_of_counting() -> None:
    bound = Contribution(1, Fraction(1), "user")
    asked = [
        ask(BoundedCounts(pa.chunked_array([keys]), np.array(counts), Fraction(1), None, bound), 2)
        for keys, counts in ((["b", "a", "c"], [7, 1, 2]), (["c", "b", "a"], [2, 7, 1]))
    ]
    for one in asked:
        assert one.keys.to_pylist()[:3] == ["a", "b", "c"]
        assert one.truth.tolist() == [1, 7, 2, 0, 0]
        assert all(key.startswith("0x") for key in one.keys.to_pylist()[3:])
    assert asked[0].keys == asked[1].keys


def test_the_most_frequent_keys_are_those_of_the_largest_counts() -> None:
    counts = np.random.default_rng(0).permutation(np.arange(1, 2001))
    frequent = questions(None, counts, 0).groups["frequent"]
    assert sorted(counts[frequent].tolist()) == list(range(1501, 2001))


def test_intervals_cover_what_is_in_them(small: Questions) -> None:
    low = np.array([1.0, 10.0, 0.0, 100.0, 0.0, 1.0])
    high = np.array([5.0, 12.0, 9.9, 200.0, 0.0, 2.0])
    found = coverage(small, low, high)
    assert found == {"all": 0.5, "absent": 0.5, "frequent": 0.5, "1–9": 0.5, "10–99": 0.0, "100+": 1.0}


@pytest.mark.parametrize("scale", [1.0, 5.0, 20.0])
def test_the_error_of_dense_noise_is_the_sum_over_its_law(scale: float) -> None:
    counts = np.array([0, 1, 2, 7, 30, 500])
    noise = np.arange(-2000, 2001)
    law = np.exp(-np.abs(noise) / scale)
    law /= law.sum()
    direct = [(law * np.abs(np.maximum(count + noise, 0) - count)).sum() for count in counts.tolist()]
    assert dense_error(counts, scale) == pytest.approx(direct, rel=1e-12)


def test_dense_errors_are_means_over_groups(small: Questions) -> None:
    each = dense_error(np.array([1, 9, 10, 200, 0]), 5.0)
    found = dense_errors(small, 5.0)
    assert found["all"] == pytest.approx(each[:4].mean())
    assert found["absent"] == pytest.approx(each[4])
    assert found["1–9"] == pytest.approx(each[:2].mean())


@pytest.mark.parametrize("spread", [2.0, 24.5])
def test_the_error_of_dense_gaussian_noise_is_the_integral_over_its_density(spread: float) -> None:
    # Mutants: no clamp, a variance in place of the standard deviation.
    counts, noise = np.array([0, 1, 7, 30, 500]), np.linspace(-12, 12, 400_001) * spread
    density = np.exp(-(noise**2) / (2 * spread**2))
    density /= density.sum()
    direct = [(density * np.abs(np.maximum(count + noise, 0) - count)).sum() for count in counts.tolist()]
    assert dense_gaussian_error(counts, spread) == pytest.approx(direct, rel=1e-6)


def test_dense_noise_is_of_the_kind_that_errs_less(small: Questions) -> None:
    assert [Dense(keys, 1.0, 1e-9).spread is None for keys in (1, 5, 20, 100)] == [True, True, False, False]
    assert Dense(100, 1.0, 0.0).spread is None
    assert Dense(100, 1.0, 1e-9).errors(small)["absent"] == pytest.approx(54.95 / math.sqrt(2 * math.pi), rel=1e-3)
    assert Dense(5, 1.0, 1e-9).errors(small) == dense_errors(small, 5.0)


def test_names_of_the_reference_are_those_above_its_threshold() -> None:
    # With 20 keys per user and δ = 1e-9 a key is named from about 161 on, by the sparse histogram of
    # Wilkins et al.; far from there all keys are, or none.
    dense = Dense(20, 1.0, 1e-9)
    assert dense.names(np.array([10] * 50 + [400] * 7)) == pytest.approx(7, abs=1e-6)
    assert dense.names(np.array([161])) == pytest.approx(0.5, abs=0.1)


def test_stated_standard_errors_are_compared_with_what_was_seen() -> None:
    assert stated_to_seen(np.array([2.0, -2.0])) == 0.5
    assert stated_to_seen(np.array([0.1, -0.1, 0.1])) == pytest.approx(10)
    assert means([{"all": 1.0}, {"all": 2.0}]) == {"all": 1.5}


def test_sums_of_retrieval_deviate_as_stated() -> None:
    # 4 · 100 deviations: their mean square is 1 ± 0.07. The seeds are fixed.
    counts = {f"k{at}": 1 + at % 50 for at in range(5000)}
    asked = pa.array([*counts, "absent"])
    truth = questions(asked, np.array(list(counts.values())), 1)
    seen = []
    for seed in range(4):
        with reproducible_for_tests(seed):
            release = sparsedp.release(counts, epsilon=1, delta=1e-6, mechanism="retrieval", nonzero=5000)
        found = users.sum_deviations(release, truth, seed)
        assert found is not None
        seen.append(found)
    assert len(seen[0]) == users.SUMS
    assert 0.8 < stated_to_seen(np.concatenate(seen)) < 1.25
    stable = sparsedp.release(counts, epsilon=1, delta=1e-6, mechanism="stability")
    assert users.sum_deviations(stable, truth, 0) is None


def test_dealt_rows_have_the_counts_and_keep_to_the_bound() -> None:
    counts = np.array([5, 1, 3, 3, 1, 1, 8])
    for most in (1, 2, 3, 50):
        people, places = dealt(counts, most)
        assert np.bincount(places).tolist() == counts.tolist()
        assert len(set(zip(people.tolist(), places.tolist(), strict=True))) == counts.sum()
        assert np.bincount(people).max() <= most


def test_what_is_not_published_is_zero(small: Questions) -> None:
    assert published(small, {3: 190.5, 1: 12.0}).tolist() == [0, 12, 0, 190.5, 0, 0]
    assert published(small, {}).tolist() == [0] * 6


@pytest.mark.parametrize("start", [1, 3, 17])
def test_the_least_that_is_enough(start: int) -> None:
    for wanted in range(start, 60):
        assert least(lambda tried, wanted=wanted: tried >= wanted, start) == wanted  # type: ignore[misc]


@pytest.mark.parametrize("library", [opendp_laplace, opendp_gaussian], ids=["Laplace", "Gaussian"])
def test_opendp_publishes_large_counts_only(library: Library) -> None:
    # An error above 300 has probability exp(−60), a count of 1 is published with 10⁻⁹.
    truth = questions(None, np.array([1, 5000, 1, 6000]), 3)
    estimates = library(truth, 5, 1.0, 1e-9, 0)
    assert estimates[[0, 2, 4, 5, 6]].tolist() == [0] * 5
    assert np.abs(estimates[[1, 3]] - [5000, 6000]).max() < 300


def test_opendp_alp_answers_for_every_key() -> None:
    truth = questions(None, np.full(300, 40), 300)
    estimates = opendp_alp(truth, 1, 1.0, 0.0, 0)
    assert not np.isnan(estimates).any()
    assert np.median(estimates[:300]) > 20 > np.median(estimates[300:])


def test_the_least_coverage_is_that_of_a_group_with_enough_keys() -> None:
    figures = {"all": 0.97, "100+": 0.5, "10–99": 0.96}
    row = Row(0.0, "x", figures, figures, figures)
    block = Block(1, 1000, 1, 1, {"all": 1000, "100+": 9, "10–99": 100}, 10, [row])
    assert block.least(row) == ("10–99", 0.96)
    assert block.least(Row(0.0, "x", figures, figures)) is None


def test_both_tables_show_every_row() -> None:
    error = {"all": 3.0, "absent": 2.0, "frequent": 4.5}
    rows = [
        Row(None, "limit", error, dict.fromkeys(error, 1.0)),
        Row(1e-6, "ours", error, dict.fromkeys(error, 1.25), dict.fromkeys(error, 0.97), 41.0, 1.02, 12.0),
    ]
    block = Block(5, 1000, 2000, 77, {"all": 1000, "absent": 1000, "frequent": 500}, 1, rows)
    *_, first, second = users_tables.text("about", [block]).splitlines()
    assert first.split() == ["limit", "3.00", "2.00", "4.50", *["1.00"] * 3, *["–"] * 7]
    cells = ["3.00", "2.00", "4.50", *["1.25"] * 3, *["97.0", "%"] * 4, "41.0", "1.02", "12.0"]
    assert second.split() == ["1e-6", "ours", *cells]
    *_, first, second = users_tables.markdown("about", [block]).splitlines()
    assert first == "|  | limit | 3.00 (× 1.00) | 2.00 (× 1.00) | 4.50 (× 1.00) | – | – | – | – |"
    assert second.endswith("| 4.50 (× 1.25) | 97.0 % (all) | 41.0 | 1.02 | 12.0 |")


def test_figures_are_rounded_to_what_they_say() -> None:
    assert [users_tables.number(one) for one in (None, 0.126, 9.996, 99.96, 12345.0)] == [
        "–",
        "0.13",
        "10.0",
        "100",
        "12,345",
    ]
    assert [users_tables.percent(one) for one in (None, 0.0, 0.9451, 0.99999, 1.0)] == [
        "–",
        "0.0 %",
        "94.5 %",
        "99.9 %",
        "100.0 %",
    ]
    assert [users_tables.power(one) for one in (None, 0.0, 1e-9, 1e-12)] == ["", "0", "1e-9", "1e-12"]


def test_a_page_keeps_all_but_the_tables(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n", encoding="utf-8")
    for table in ("first", "second"):
        users_tables.replace(page, table)
    assert page.read_text(encoding="utf-8") == f"before\n\n{BEGIN}\n\nsecond\n\n{END}\n\nafter\n"
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match="has no place for the table"):
        users_tables.replace(page, "third")


ASYNCIO = str(Path(sysconfig.get_path("stdlib")) / "asyncio")


def test_a_quick_run_measures_every_mechanism(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pipeline_dp", None)  # as if it were not installed
    users.main(["--quick", "--json", "--corpus", ASYNCIO])
    report = json.loads(capsys.readouterr().out)
    assert report["notes"] == ["PipelineDP is not installed, so its rows are missing: pip install pipeline-dp"]
    (block,) = report["blocks"]
    assert block["keys_per_user"] == 5
    rows = {(row["delta"], row["name"]): row for row in block["rows"]}
    for delta, names in (
        (0.0, ["tight-alp", "tight-alp, fitted", "threshold", "OpenDP ALP"]),
        (1e-6, ["tight-alp", "tight-alp, fitted", "retrieval", "stability", "OpenDP, Laplace", "OpenDP, Gaussian"]),
    ):
        assert sum(row["name"].startswith("auto: ") and row["delta"] == delta for row in block["rows"]) == 1
        for name in names:
            assert math.isfinite(rows[delta, name]["error"]["all"]), name
    dense = rows[1e-6, "dense geometric noise, clamped at 0"]["error"]
    measured = rows[1e-6, "stability"]
    assert measured["ratio"]["all"] == pytest.approx(measured["error"]["all"] / dense["all"])
    assert set(measured["coverage"]) == set(block["groups"])
    assert rows[0.0, "tight-alp"]["sums"] > 0
    assert rows[0.0, "tight-alp"]["bits"] > 0
    assert rows[0.0, "tight-alp"]["named"] is None  # pure privacy names nothing
    assert rows[1e-6, "stability"]["named"] >= 0


def test_a_run_fills_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    users.main(["--quick", "--ours", "--corpus", ASYNCIO, "--folder", str(tmp_path / "data"), "--markdown", str(page)])
    written = page.read_text(encoding="utf-8")
    assert "| 0 | threshold |" in written
    assert "| 1e-6 | stability |" in written
    assert "OpenDP" not in written
    assert (tmp_path / "data" / identifiers.NAME).is_file()
