"""The bundled sample, and the demo on it."""

from __future__ import annotations

import re

import pytest

from sparsedp import demo
from sparsedp.privacy.randomness import reproducible_for_tests

SEED = 2021


@pytest.fixture(scope="module")
def sample() -> dict[str, int]:
    return demo.load_sample()


def run_demo(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    with reproducible_for_tests(SEED):
        demo.main()
    captured = capsys.readouterr()
    return captured.out, captured.err


def number(text: str) -> float:
    return float(text.replace(",", ""))


def row(output: str, name: str) -> list[str]:
    """The cells to the right of the name in its table row."""
    (line,) = re.findall(rf"^  {re.escape(name)}  +(.*)$", output, re.MULTILINE)
    return re.split(r"  +", line.strip())


def test_the_sample_is_large_and_skewed(sample: dict[str, int]) -> None:
    assert len(sample) >= 10_000
    assert 780_000 < sum(sample.values()) < 800_000
    assert sample["the"] > 60_000
    assert min(sample.values()) == 1


def test_the_sample_is_in_its_stated_order(sample: dict[str, int]) -> None:
    assert list(sample.items()) == sorted(sample.items(), key=lambda pair: (-pair[1], pair[0]))
    assert all(re.fullmatch(r"[a-z]+('[a-z]+)*", word) for word in sample)


def test_the_public_bound_of_the_demo_covers_the_sample(sample: dict[str, int]) -> None:
    assert len(sample) <= demo.PUBLIC_BOUND
    assert all(word in sample for word in demo.WORDS)
    assert not any(word in sample for word in demo.ABSENT)


def test_the_demo_prints_estimate_interval_and_truth(
    capsys: pytest.CaptureFixture[str], sample: dict[str, int]
) -> None:
    output, progress = run_demo(capsys)
    assert progress
    assert "ε = " in output
    covered = 0
    for word in (*demo.WORDS, *demo.ABSENT):
        estimate, interval, truth = row(output, word)
        low, high = map(number, interval.split(" to "))
        assert number(truth) == sample.get(word, 0)
        assert number(estimate) >= 0
        covered += low <= number(truth) <= high
    assert covered >= len(demo.WORDS)  # 95 % of 12, and more than two misses have probability below 2 %


def test_the_demo_measures_errors_near_their_predictions(capsys: pytest.CaptureFixture[str]) -> None:
    output, _ = run_demo(capsys)
    for name in ("0 (absent)", "1 to 9", "10 to 99", "100 and more", "all words"):
        words, measured, predicted = map(number, row(output, name))
        assert words > 0
        assert 0.3 * predicted < measured < 1.2 * predicted


def test_the_demo_repeats_under_a_seed_up_to_its_timing(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (re.sub(r"took [\d,]+ ns", "", run_demo(capsys)[0]) for _ in range(2))
    assert first == second
