"""What sparsedp promises, and the page that shows the tests of each with what they measured.

A test of a promise has the mark `promise(number)`. It says what it measured with the fixture
`figure`; tests of which many belong together record facts with the fixture `measured`, and
`SUMMARIES` says what they come to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PROMISES = {
    1: "the ε stated is the exact loss",
    2: "the δ stated is exact, ≥ against > included",
    3: "behaviour matches the statement",
    4: "samplers follow their law exactly",
    5: "a black-box audit cannot refute ε",
    6: "the audit has teeth",
    7: "no float in the noise path",
    8: "secure randomness only",
    9: "fresh hash seeds",
    10: "sizes, order and header do not depend on the data",
    11: "more non-zeros than `nonzero`, values above `upper`, empty data: no exception, no truncation",
    12: "malformed values and keys are refused with position and fix, before anything is spent",
    13: "keys are encoded injectively",
    14: "the same release gives the same answers",
    15: "loading executes nothing and allocates nothing it was not promised",
    16: "damaged files are refused",
    17: "saving is atomic",
    18: "the budget is spent once",
    19: "intervals are honest",
    20: "predictions are honest",
    21: "lookups are thread-safe",
    22: "one user moves the counts by at most m keys and M each, from the bytes of the input on",
    23: "nothing published is read off the data: shape, dtype, largest index, number of rows, order",
    24: "an overloaded release says so, and its intervals still cover",
    25: "intervals and standard errors of sums hold on user-level data with sizes estimated",
    26: "the δ of dependent rows is an upper bound with a proven numerical error",
    27: "keys are typed: looking integers up as text is an error, not a wrong answer",
    28: "a fresh machine with an empty home and no package cache passes `make demo` and `make test`",
}

_HEAD = """# Promises

What sparsedp promises, the tests that would fail if the promise broke, and what they measured in the run that wrote
this page, `make promises`. Do not edit it by hand. Each promise has more tests than those that are shown.

| # | promise | tests | figure |
|---|---|---|---|
"""

Facts = Mapping[str, Any]


@dataclass
class Found:
    """What the tests of a promise found, in the order of their names."""

    outcomes: dict[str, str] = field(default_factory=dict)  # by test
    figures: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)

    def add(self, test: str, outcome: str, properties: Mapping[str, Any]) -> None:
        """Add a test that has ended."""
        self.outcomes[test] = outcome
        if "figure" in properties:
            self.figures[test] = properties["figure"]
        if "measured" in properties:
            self.facts[test] = properties["measured"]

    @property
    def tests(self) -> list[str]:
        """The names of the tests, without their parameters."""
        return list(dict.fromkeys(test.partition("[")[0].rpartition("::")[2] for test in sorted(self.outcomes)))

    def figure(self, number: int) -> str:
        """What they measured; a failure, if one of them failed."""
        failed = sorted({outcome for outcome in self.outcomes.values() if outcome != "passed"})
        if failed:
            return f"**{', '.join(failed)}**"
        if number in SUMMARIES:
            return SUMMARIES[number]([self.facts[test] for test in sorted(self.facts)])
        return "; ".join(self.figures[test] for test in sorted(self.figures))


def page(found: Mapping[int, Found]) -> str:
    """The table. `ValueError` if a promise was not tested, or says less than it should."""
    missing = [number for number in PROMISES if number not in found]
    if missing:
        raise ValueError(f"promises {missing} were not tested in this run")
    rows = []
    for number, text in PROMISES.items():
        names = ", ".join(f"`{name}`" for name in found[number].tests)
        rows.append(f"| {number} | {text} | {names} | {found[number].figure(number)} |\n")
    return _HEAD + "".join(rows)


def _audited(facts: Sequence[Facts]) -> str:
    bounds = ", ".join(f"{one['mechanism']} {one['bound']:.3f}" for one in facts)
    return f"{facts[0]['runs']:,} runs per side and game, claimed ε = 1, proven ε ≥ {bounds}"


def _teeth(facts: Sequence[Facts]) -> str:
    kinds = len({one["mutant"] for one in facts})
    return f"{len(facts)} of {len(facts)} mutants of {kinds} kinds refuted at confidence 1 − 10⁻⁶"


def _golden(facts: Sequence[Facts]) -> str:
    files, processes = (sum(one.get(name, 0) for one in facts) for name in ("files", "processes"))
    return f"{files} golden files answer as they did; {processes} other processes with other hash seeds too"


def _damaged(facts: Sequence[Facts]) -> str:
    truncations, bits = (sum(one.get(name, 0) for one in facts) for name in ("truncations", "bits"))
    return f"all {truncations:,} truncations of two files and all {bits:,} flipped bits of one refused"


def _moved(facts: Sequence[Facts]) -> str:
    pairs, refused = (sum(one[name] for one in facts) for name in ("pairs", "refused"))
    keys, most = (max(one[name] for one in facts) for name in ("keys", "most"))
    if (keys, most) != (1, 1) or refused >= pairs / 2:  # more would have been refuted, and less would say little
        raise ValueError(f"promise 22 was hardly tried: {keys} m keys, {most} M each, {refused} of {pairs} refused")
    return (
        f"{pairs:,} pairs of tables as {len(facts)} kinds of input: at most {keys:.2f} m keys, {most:.2f} M each; "
        f"of {refused} pairs both were refused, or one by its broken rows"
    )


def _published(facts: Sequence[Facts]) -> str:
    inputs, kinds = (len({one[name] for one in facts if name in one}) for name in ("input", "kind"))
    (sets,) = {one["sets"] for one in facts if "sets" in one}
    return (
        f"equal headers for {sets} data sets as {inputs} kinds of input; equal bytes in any order for "
        f"{kinds} kinds of release"
    )


def _overloaded(facts: Sequence[Facts]) -> str:
    releases, told = (sum(one[name] for one in facts) for name in ("releases", "told"))
    least = min(one["least"] for one in facts)
    return f"{releases} releases at a tenth of their size, {told} say so; 95 % intervals cover {least:.1%} at least"


def _user_level(facts: Sequence[Facts]) -> str:
    ratios = [one["sums"] for one in facts]
    return (
        f"95 % intervals cover {min(one['least'] for one in facts):.1%} at least; standard errors of sums are "
        f"{min(ratios):.2f} to {max(ratios):.2f} of the errors seen"
    )


def _dependent(facts: Sequence[Facts]) -> str:
    ratio = max(one["ratio"] for one in facts)
    return f"1 to {ratio:.3g} times the exact sum, in rational arithmetic, of {len(facts)} systems"


def _typed(facts: Sequence[Facts]) -> str:
    refused = sum(one["refused"] for one in facts)
    return f"{refused} columns of another kind than the release's refused, in all containers"


SUMMARIES: dict[int, Callable[[Sequence[Facts]], str]] = {
    5: _audited,
    6: _teeth,
    14: _golden,
    16: _damaged,
    22: _moved,
    23: _published,
    24: _overloaded,
    25: _user_level,
    26: _dependent,
    27: _typed,
}
