"""A series of releases: answers, sums over windows, labels, and releases that do not fit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

import sparsedp
from commands import Command
from sparsedp import InputError, KeyTypeError, ParameterError, Release
from sparsedp.mechanisms import Summed
from sparsedp.privacy.randomness import reproducible_for_tests
from sparsedp.releasing.answers import Sum

COUNTS = {f"page-{at}": 4000 // (at + 1) for at in range(40)}
KEYS = ["page-0", "page-3", "never"]


def day_of(at: int, mechanism: str = "retrieval", **options: Any) -> Release:
    with reproducible_for_tests(at):
        return sparsedp.release(
            {key: count + at for key, count in COUNTS.items()},
            **{"epsilon": 1.0, "delta": 1e-9, "nonzero": 80, "mechanism": mechanism, **options},
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five days, of both mechanisms that have sums."""
    made = tmp_path_factory.mktemp("days")
    for at, day in enumerate(("02-27", "02-28", "02-29", "03-01", "03-02")):
        day_of(at, ("retrieval", "tight-alp")[at % 2]).save(made / f"visits-2024-{day}.sparsedp")
    return made


@pytest.fixture(scope="module")
def days(folder: Path) -> sparsedp.Series:
    return sparsedp.series(folder, allow_reproducible=True)


def test_it_says_which_labels_it_has_and_goes_back(days: sparsedp.Series) -> None:
    """Catches labels that are sought among pairs, and positions that are taken for labels."""
    assert "2024-02-29" in days
    assert date(2024, 3, 1) in days
    assert datetime(2024, 3, 1) in days
    for other in ("2024-02-26", "2024-02", "", date(2025, 2, 27), datetime(2024, 2, 27, 5), 0, None):
        assert other not in days
        with pytest.raises(ParameterError):
            days[other]  # type: ignore[index]  # what has no text either
    for pair in days:
        assert pair in days
    assert list(reversed(days)) == list(days)[::-1]


def test_it_answers_with_a_row_for_each_release(days: sparsedp.Series) -> None:
    """Catches rows in another order, columns that are keys of another, and options that are lost."""
    assert days.labels == ("2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02")
    assert len(days) == 5
    assert [label for label, _ in days] == list(days.labels)
    for options in ({}, {"prior": "flat"}, {"clamp": False}):
        expected = [release.lookup(KEYS, **options) for release in days.releases]
        np.testing.assert_array_equal(days.lookup(iter(KEYS), **options), expected)
    low, high = days.interval(iter(KEYS), 0.9)
    for at, (_, release) in enumerate(days):
        np.testing.assert_array_equal((low[at], high[at]), release.interval(KEYS, 0.9))
    assert days["2024-03-01"] is days[date(2024, 3, 1)] is days.releases[3]


def test_sums_add_up_with_their_variances(days: sparsedp.Series) -> None:
    """Catches standard errors that are added (√5 times as large), or those of one day."""
    total, error = days.sum(iter(KEYS))
    parts = [release.summed(KEYS) for release in days.releases]
    assert total == pytest.approx(sum(part.total for part in parts))
    bias = sum(part.bias for part in parts)
    assert error == pytest.approx(math.sqrt(sum(part.variance for part in parts) + bias**2))
    windows = days.window_sums(KEYS, 2)
    assert (windows.first, windows.last) == (list(days.labels[:4]), list(days.labels[1:]))
    for first, last, total, error in zip(*windows, strict=True):
        assert days.sum(KEYS, first, last) == pytest.approx((total, error))
    assert days.window_sums(KEYS, 5).totals == pytest.approx([days.sum(KEYS).total])


def test_biases_of_the_same_key_add_up_day_by_day(days: sparsedp.Series, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches biases that are added like independent errors: four of 3 would count as 6, not 12."""
    monkeypatch.setattr(Release, "summed", lambda *_: Summed(10.0, 4.0, 3.0))
    assert days.sum(KEYS, until="2024-03-01") == Sum(40.0, math.sqrt(4 * 4 + 12**2))


def test_standard_errors_of_sums_are_those_of_repeated_series() -> None:
    """Catches a standard error that is off by a fifth: what 400 series of 4 days show varies by 3.5 %,
    and is within 17 % in all but one of 10⁶ runs. Seeds are fixed.
    """
    truth, keys, deviations = np.arange(40) * 10, [3, 8, 30], []
    for seed in range(400):
        with reproducible_for_tests(seed):
            releases = [sparsedp.release((np.arange(40), truth), epsilon=1.0, domain=40) for _ in range(4)]
        total, error = sparsedp.series(releases, labels=list("abcd")).sum(keys)
        deviations.append((total - 4 * truth[keys].sum()) / error)
    assert 0.85 < np.sqrt(np.mean(np.square(deviations))) < 1.18


@pytest.mark.parametrize(
    ("since", "until", "found"),
    [
        (None, None, 5),
        ("2024-02-28", None, 4),
        (date(2024, 2, 28), date(2024, 3, 1), 3),
        ("2024-03", None, 2),
        (None, "2024-02", 3),
        ("2023", "2024", 5),
        ("2024-02-29", "2024-02-29", 1),
    ],
)
def test_windows_include_both_ends(days: sparsedp.Series, since: Any, until: Any, found: int) -> None:
    assert len(days.between(since, until)) == found


def test_a_series_with_names_has_their_order() -> None:
    """Catches names that are sorted like dates, and windows by position that leave out an end."""
    made = sparsedp.series([day_of(1), day_of(2), day_of(3)], labels=["summer", "autumn", "spring"])
    assert made.labels == ("summer", "autumn", "spring")
    assert made.between("autumn").labels == ("autumn", "spring")
    assert made.between(None, "autumn").labels == ("summer", "autumn")
    for ends in (("winter", None), ("spring", "summer")):
        with pytest.raises(ParameterError, match="no release"):
            made.between(*ends)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("visits-2024-01-31.sparsedp", "2024-01-31"),
        ("20240131.sparsedp", "2024-01-31"),
        ("v2_2024-01.sparsedp", "2024-01"),
        ("day=2024-01-31/visits.sparsedp", "2024-01-31"),
        ("2023-12-31/2024-01-31.sparsedp", "2024-01-31"),
        ("9999999-2024-01-31.sparsedp", "2024-01-31"),
    ],
)
def test_names_have_dates(name: str, label: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    day_of(1).save(path)
    assert sparsedp.series([path], allow_reproducible=True).labels == (label,)
    opened = sparsedp.load(path, allow_reproducible=True)
    assert sparsedp.series(opened).labels == (label,)


@pytest.mark.parametrize("name", ["visits.sparsedp", "2024-13-01.sparsedp", "120240131.sparsedp"])
def test_a_name_without_a_date_needs_a_label(name: str, tmp_path: Path) -> None:
    day_of(1).save(tmp_path / name)
    with pytest.raises(ParameterError, match=r"no date such as 2024-01-31 in the name of .*pass labels="):
        sparsedp.series([tmp_path / name], allow_reproducible=True)


@pytest.mark.parametrize(
    ("opening", "message"),
    [
        (lambda: sparsedp.series([]), "at least one release"),
        (lambda: sparsedp.series(cast(Any, 3)), "must be paths or releases, got int"),
        (lambda: sparsedp.series([cast(Any, 3)]), "must be paths or releases, got int"),
        (lambda: sparsedp.series([day_of(1)]), "pass labels="),
        (lambda: sparsedp.series([day_of(1)], labels=[]), "as many as releases"),
        (lambda: sparsedp.series([day_of(1)] * 2, labels=["a", "a"]), "'a' is that of two"),
        (lambda: sparsedp.series([day_of(1)], labels=[""]), "a label must be text or a date"),
        (lambda: sparsedp.series([day_of(1)], labels="a"), "must be a list of labels"),
        (lambda: sparsedp.series([day_of(1)], labels=[datetime(2024, 1, 1, 5)]), "a time of a day"),
        (lambda: sparsedp.series({"a": day_of(1)}, labels=["a"]), "beside a mapping"),
        (lambda: sparsedp.series({"2024-01": day_of(1)}).between("2024-01-05"), "since must be a month or a year"),
        (
            lambda: sparsedp.series({"2024-01-01": day_of(1)}).between(until="2024-W01-3"),
            "until must be a date such as",
        ),
        (lambda: sparsedp.series({"a": day_of(1)}).window_sums(KEYS, 2), "window must be at most 1"),
        (lambda: sparsedp.series({"a": day_of(1)})["b"], "no release 'b'"),
        (lambda: sparsedp.series({"2024-01-01": day_of(1)}).between("soon"), "since must be a date such as"),
        (lambda: sparsedp.series({"a": day_of(1, "threshold")}).sum(KEYS), "release a: mechanism 'threshold' has no"),
    ],
)
def test_what_is_wrong_is_told(opening: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        opening()


def test_a_release_is_not_listed_twice(folder: Path, tmp_path: Path) -> None:
    """Catches sums whose errors count as independent although they are the same."""
    one = day_of(1)
    path = next(folder.iterdir())
    (tmp_path / "2030-01-01.sparsedp").write_bytes(path.read_bytes())
    for twice in ([one, one], [path, tmp_path / "2030-01-01.sparsedp"]):
        with pytest.raises(ParameterError, match="are one and the same"):
            sparsedp.series(twice, labels=["a", "b"], allow_reproducible=True)


@pytest.mark.parametrize("mechanism", ["retrieval", "tight-alp"])
def test_a_key_that_is_asked_for_again_has_the_same_error_again(mechanism: str) -> None:
    """Catches a standard error of four answers that is twice, and not four times, that of one."""
    release = day_of(1, mechanism)
    one, four = release.sum(["page-0"]), release.sum(["page-0"] * 4)
    assert (four.total, four.standard_error) == pytest.approx((4 * one.total, 4 * one.standard_error))
    both = release.sum(["page-0", "page-1", "page-1"])
    apart = [release.summed([key]) for key in ("page-0", "page-1")]
    assert both.total == pytest.approx(apart[0].total + 2 * apart[1].total)
    bias = apart[0].bias + 2 * apart[1].bias
    assert both.standard_error == pytest.approx(
        math.sqrt(apart[0].variance + 4 * apart[1].variance + bias**2), rel=0.02
    )
    assert release.sum([]) == (0, 0)


def test_files_that_are_not_there_or_broken(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no release"):
        sparsedp.series(tmp_path / "*.sparsedp")
    with pytest.raises(InputError, match="there is no release"):
        sparsedp.series(tmp_path)
    (tmp_path / "2024-01-01.sparsedp").write_bytes(b"no release")
    with pytest.raises(sparsedp.FormatError):
        sparsedp.series(tmp_path)


def users(per_key: int, keys: int = 2) -> sparsedp.BoundedCounts:
    table = pa.table({"u": [1, 1, 2], "k": ["a", "b", "a"]})
    return sparsedp.count(table, key="k", user="u", max_keys_per_user=keys, max_per_key=per_key)


COLUMNS = {"day": ["x"], "page": ["y"]}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: sparsedp.release({1: 2}, epsilon=1), "their keys are text and integer"),
        (lambda: sparsedp.release({("x", "y"): 2}, epsilon=1), "their keys are text and"),
        (lambda: sparsedp.release({1: 2}, epsilon=1, domain=10), "their keys are"),
        (lambda: sparsedp.release({"a": 2.5}, epsilon=1, step=0.5), "sums of real or signed values"),
        (lambda: sparsedp.release({"a": 2}, epsilon=1, signed=True), "sums of real or signed values"),
        (lambda: sparsedp.release(users(5), epsilon=1), "users, each up to 1 for a key, and the other users, each up"),
        (lambda: sparsedp.release({"a": 2}, epsilon=1), "and the other what the caller counted"),
    ],
)
def test_releases_that_answer_another_question_do_not_fit(other: Callable[[], Release], message: str) -> None:
    """Catches a series of days and something else, whose sums would mean nothing."""
    first = sparsedp.release(users(1), epsilon=1)
    with pytest.raises(InputError, match=f"day 1 and day 2 do not fit together: .*{message}"):
        sparsedp.series({"day 1": first, "day 2": other()})


def test_what_may_change_from_day_to_day() -> None:
    """Other mechanisms, bounds on keys, ε and parts answer the same question."""
    releases = [
        sparsedp.release(users(1), epsilon=1),
        sparsedp.release(users(1, 20), epsilon=0.5, delta=1e-6),
        sparsedp.release(users(1), epsilon=2, parts=2),
    ]
    days = sparsedp.series(releases, labels=["a", "b", "c"])
    assert days.lookup(["a", "b"]).shape == (3, 2)
    assert days.epsilon >= sum(Fraction(own.epsilon) for own in releases)
    assert days.epsilon == pytest.approx(sum(own.epsilon for own in releases))
    assert "protect a user that is in all of them with ε ≤ 3.5" in days.guarantee
    assert "3 releases, a to c" in repr(days)


def test_parts_are_found_in_a_folder(tmp_path: Path) -> None:
    """Catches a folder of parts that is taken for a folder of releases."""
    for day in (1, 2):
        sparsedp.release({"a": 5}, epsilon=1, parts=2, path=tmp_path / f"2024-01-{day:02}.sparsedp")
    assert sparsedp.series(tmp_path).labels == ("2024-01-01", "2024-01-02")
    assert sparsedp.series(tmp_path / "2024-01-01.sparsedp").labels == ("2024-01-01",)


def test_keys_of_several_columns(tmp_path: Path) -> None:
    counts = {("de", 1): 500, ("fr", 2): 100}
    days = sparsedp.series({f"day {at}": sparsedp.release(counts, epsilon=1) for at in range(3)})
    assert days.lookup([("de", 1), ("fr", 2)]).shape == (3, 2)
    frame = days.to_pandas([("de", 1), ("fr", 2)])
    assert list(frame.columns) == ["label", "key1", "key2", "estimate", "low", "high"]
    assert frame[["label", "key1", "key2"]].values.tolist()[:3] == [
        ["day 0", "de", 1],
        ["day 0", "fr", 2],
        ["day 1", "de", 1],
    ]
    for at, keys in enumerate((("de", 1), [("de", 1), ("fr", 2)], (["de", "fr"], [1, 2]), (("de", 1), ("fr", 2)))):
        days.plot(keys, tmp_path / f"{at}.png")
        assert (tmp_path / f"{at}.png").stat().st_size > 5000
    with pytest.raises(KeyTypeError):
        days.lookup(["de"])


def test_a_table_has_a_row_for_each_day_and_key(days: sparsedp.Series) -> None:
    frame = days.to_pandas(iter(KEYS), 0.9)
    np.testing.assert_array_equal(frame["estimate"].to_numpy().reshape(5, 3), days.lookup(KEYS))
    np.testing.assert_array_equal(frame["high"].to_numpy().reshape(5, 3), days.interval(KEYS, 0.9)[1])
    assert frame["key"].tolist() == KEYS * 5


def test_plots(days: sparsedp.Series, tmp_path: Path) -> None:
    for keys, name in (("page-0", "one.svg"), (["page-0", "never", "_a$b$"], "three.png")):
        days.plot(keys, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5000
    for keys in ([], [f"page-{at}" for at in range(9)]):
        with pytest.raises(ParameterError, match="keys to plot must be 1 to 8"):
            days.plot(keys, tmp_path / "many.png")


def run(*arguments: object, code: int = 0) -> Any:
    done = Command("series", *arguments).wait()
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_commands(days: sparsedp.Series, folder: Path, tmp_path: Path) -> None:
    """Catches another window, another key, and rows of another release than Python gives."""
    test = "--allow-reproducible"
    shown = json.loads(run("show", folder, "--json", test).stdout)
    assert [one["label"] for one in shown["releases"]] == list(days.labels)
    assert shown["epsilon"] == days.epsilon
    assert "Together they protect" in run("show", folder, test).stdout
    lines = run("lookup", f"{folder}/*.sparsedp", *KEYS, "--json", "--since", "2024-03", test).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    expected = days.between("2024-03").to_pandas(KEYS)
    assert [row["key"] for row in rows] == KEYS * 2
    assert [row["estimate"] for row in rows] == expected["estimate"].tolist()
    assert [row["label"] for row in rows] == expected["label"].tolist()
    (only,) = json.loads(run("sum", folder, *KEYS, "--json", test).stdout)
    assert (only["total"], only["standard_error"]) == pytest.approx(tuple(days.sum(KEYS)))
    table = run("sum", folder, *KEYS, "--window", 2, test).stdout.splitlines()
    assert table[0] == '"first","last","total","standard_error"'
    assert len(table) == 5
    run("plot", folder, "page-0", "-o", tmp_path / "p.png", test)
    assert (tmp_path / "p.png").stat().st_size > 5000
    for wrong, message in (
        (("lookup", tmp_path / "none", "a"), "there is no release"),
        (("sum", folder, "a", "--since", "soon", test), "--since must be a date such as"),
        (("lookup", folder, "a"), "reproducible"),
        (("plot", folder, "a", "-o", tmp_path / "p.jpeg2", test), "p.jpeg2"),
    ):
        assert message in run(*wrong, code=1 if message == "reproducible" else 2).stderr


def test_commands_take_keys_of_several_columns(tmp_path: Path) -> None:
    """Catches columns of one key that are taken for keys."""
    for day in (1, 2):
        release = sparsedp.release({("de", 1): 500, ("fr", 2): 100}, epsilon=1)
        release.save(tmp_path / f"2024-01-{day:02}.sparsedp")
    lines = run("lookup", tmp_path, "de", 1).stdout.splitlines()
    assert lines[0] == '"label","key1","key2","estimate","low","high"'
    assert len(lines) == 3
    run("plot", tmp_path, "de", 1, "-o", tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 5000
    (tmp_path / "keys.csv").write_text("key1,key2\nde,1\nfr,2\n")
    (made,) = json.loads(run("sum", tmp_path, "-f", tmp_path / "keys.csv", "--json").stdout)
    assert abs(made["total"] - 1200) < 200
