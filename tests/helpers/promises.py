"""What sparsedp promises, and the page that shows the test and the latest figure of each."""

from __future__ import annotations

from collections.abc import Mapping

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
}

_HEAD = """# Promises

What sparsedp promises, the test that would fail if the promise broke, and what that test measured in the run that wrote
this page, `make promises`. Do not edit it by hand. Each promise has more tests than the one that is shown.

| # | promise | test | figure |
|---|---|---|---|
"""


def page(found: Mapping[int, tuple[str, str, str]]) -> str:
    """The table."""
    rows = []
    for number, text in PROMISES.items():
        test, outcome, figure = found[number]
        name = test.rpartition("::")[2]
        shown = figure if outcome == "passed" else f"**{outcome}**"
        rows.append(f"| {number} | {text} | `{name}` | {shown} |\n")
    return _HEAD + "".join(rows)
