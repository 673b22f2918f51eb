"""The experiments find the paper's numbers, mutants do not, and the report holds what was found."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import run as run_command
from sparsedp import _native
from sparsedp.experiments import corpus, error_distribution, observed_error, peers, simulation
from sparsedp.experiments.reproduction import EXPERIMENTS, reproduce
from sparsedp.experiments.sections import Check, duration, number, size
from sparsedp.experiments.study import Study
from sparsedp.experiments.workloads import Workload, errors_by_range, measure
from sparsedp.structures.embedding import dyadic_flip_probability

RUNS = 30_000


def verdicts(collision: float) -> dict[str, bool]:
    """Which of the paper's numbers come out of a small run."""
    found = error_distribution.summary(collision, RUNS, seed=3)["numbers"]
    printed = error_distribution.PAPER[collision]
    return {name: Check(name, printed[name], *found[name]).reached for name in printed}


@pytest.mark.parametrize("collision", [0.1, 0.01])
def test_the_numbers_of_section_6_come_out(collision: float) -> None:
    assert all(verdicts(collision).values())


def unpacked(words: np.ndarray, levels: int) -> np.ndarray:
    """The partial sums of every row, from n = 0 on."""
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :levels]
    steps = bits.astype(np.int16) * 2 - 1
    return np.concatenate([np.zeros((len(bits), 1), np.int16), np.cumsum(steps, axis=1, dtype=np.int16)], axis=1)


def first_maximiser(words: np.ndarray, levels: int) -> np.ndarray:
    return np.asarray(np.argmax(unpacked(words, levels), axis=1), np.float64)


def number_of_ones(words: np.ndarray, levels: int) -> np.ndarray:
    return np.asarray((unpacked(words, levels)[:, -1] + levels) / 2, np.float64)


def test_the_packed_estimator_is_the_one_that_mutants_replace() -> None:
    words = simulation.unary_words(np.array([0, 5, 64, 100, 200]), 150)
    assert first_maximiser(words, 150).tolist() == [0, 5, 64, 100, 150]
    assert _native.estimate_rows(words, 150).tolist() == [0, 5, 64, 100, 150]


@pytest.mark.parametrize("estimator", [first_maximiser, number_of_ones])
def test_a_wrong_estimator_misses_a_number(estimator: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "estimate_rows", estimator)
    assert not all(verdicts(0.1).values())


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)])
def test_wrong_flips_miss_a_number(factor: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    right = dyadic_flip_probability(3.0)
    wrong = Fraction(round(right * factor * (1 << 16)) | 1, 1 << 16)
    monkeypatch.setattr(simulation, "dyadic_flip_probability", lambda alpha: wrong)
    assert not all(verdicts(0.1).values())


def test_forgotten_collisions_miss_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    right = simulation.simulate_errors
    monkeypatch.setattr(error_distribution, "simulate_errors", lambda alpha, _, runs, seed: right(alpha, 0, runs, seed))
    assert not all(verdicts(0.1).values())


def test_pieces_are_remembered_and_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    done: list[str] = []

    def work(name: str) -> str:
        if name == "third" and len(done) == 2:
            raise KeyboardInterrupt
        done.append(name)
        return name.upper()

    tasks = {name: partial(work, name) for name in ("first", "second", "third")}
    study = Study(tmp_path, quick=True, seed=1)
    with pytest.raises(KeyboardInterrupt):
        study.pieces("Something", tasks)
    done.append("interrupted")
    assert study.pieces("Something", tasks) == {"first": "FIRST", "second": "SECOND", "third": "THIRD"}
    assert done == ["first", "second", "interrupted", "third"]
    assert Study(tmp_path, quick=True, seed=2).pieces("Something", {"first": lambda: 5}) == {"first": 5}


def test_pieces_in_processes_are_the_same(tmp_path: Path) -> None:
    tasks = {f"α = {alpha}": partial(observed_error.mean_error, alpha, 0.1, 500, 7) for alpha in (2.0, 3.0, 4.0)}
    alone = Study(tmp_path / "a", quick=True, seed=1).pieces("Points", tasks)
    assert Study(tmp_path / "b", quick=True, seed=1).pieces("Points", tasks, parallel=True) == alone
    assert set(alone) == set(tasks)


@pytest.mark.parametrize("mechanism", ["threshold", "tight-alp", "stability", "retrieval", "compact", "alp"])
def test_mechanisms_are_measured_or_refused(mechanism: str) -> None:
    found = measure(Workload(200, 2**64), mechanism, 1.0, seed=1)
    assert found["epsilon"] <= 1
    assert found["errors"]["absent"]["mean"] < 10
    assert "GB" in measure(Workload(10**8, 2**64, 10**4), "alp", 1.0, seed=1)["refused"]
    assert "quadratic" in measure(Workload(2000, 2**64), "compact", 1.0, seed=1)["refused"]
    assert "domain" in measure(Workload(200, 2**64), "laplace", 1.0, seed=1)["refused"]


def test_errors_are_sorted_into_ranges() -> None:
    found = errors_by_range(np.array([0, 0, 1, 500]), np.array([1.0, 0.0, 3.0, 490.0]))
    assert {name: error["mean"] for name, error in found.items()} == {"absent": 0.5, "1": 2.0, "> 120": 10.0}
    assert found["absent"]["largest"] == 1


@pytest.mark.parametrize(
    "measured",
    [peers.measure_opendp_alp, peers.measure_opendp_threshold, peers.measure_diffprivlib, peers.measure_numpy],
)
def test_peers_are_measured_on_the_same_data(measured: Callable[..., Any]) -> None:
    # Catches a peer that looks up other keys: four counts of 305 on average, so it would err by
    # 300. OpenDP's ALP errs by 5 on average; the chance of a key's error falls by e for each 10,
    # and that of 60 for the mean of four is below 10⁻⁸.
    found = measured(Workload(300, 5000), 1)
    assert found["errors"]["> 120"]["mean"] < 60
    assert found["lookup"] > 0


def test_the_corpus_has_many_pairs() -> None:
    counts = corpus.pairs_of_words(quick=True)
    assert len(counts) > 20_000
    assert counts["of the"] > 50


class Outline(HTMLParser):
    """Checks that tags are closed, and collects what the page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)
        self.references += [value for name, value in attrs if name in ("src", "srcset", "href") and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_page_that_needs_nothing_else(tmp_path: Path) -> None:
    said: list[str] = []
    sections = reproduce(tmp_path / "report", quick=True, only=("worked-example", "error-bound"), say=said.append)
    html = (tmp_path / "report/index.html").read_text(encoding="utf-8")
    outline = Outline()
    outline.feed(html)
    assert outline.open == []
    assert all(reference.startswith(("data:", "#")) for reference in outline.references)
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport"' in html
    results = json.loads((tmp_path / "report/results.json").read_text(encoding="utf-8"))
    assert all(check["reached"] for check in results["checks"])
    for section in sections:
        for drawn in section.figures:
            assert (tmp_path / f"report/figures/{drawn.name}.png").stat().st_size > 5000
            assert results["captions"][drawn.name] == drawn.caption
    assert said == ["worked-example …", "error-bound …"]


def test_the_command_says_what_agrees(tmp_path: Path) -> None:
    options = ("--only", "error-bound", "--quick", "--out", tmp_path / "r")
    done = run_command("reproduce", *options)
    assert "75.33" in done.stdout
    assert "agrees" in done.stdout
    assert json.loads(run_command("reproduce", *options, "--json").stdout)[0]["reached"] is True
    wrong = run_command("reproduce", "--only", "figure-9", "--out", tmp_path / "r", code=2)
    assert f"choose from {', '.join(EXPERIMENTS)}" in " ".join(wrong.stderr.split())


def test_numbers_are_written_for_people() -> None:
    assert [number(x) for x in (0.0, 1.2345, 1234.5, None, float("nan"))] == ["0", "1.23", "1,234", "–", "–"]
    assert [size(x) for x in (12, 12_345, 3e9)] == ["12 B", "12.3 KB", "3 GB"]
    assert [duration(x) for x in (2.0, 0.0123, 4.5e-6, 4.5e-8, None)] == ["2 s", "12.3 ms", "4.5 µs", "45 ns", "–"]
