"""Figures that pages quote: sentences with places for values, which are found in a page, compared
with what was measured, and brought up to date.

A place is `{name}` or `{name|form}`; `FORMS` says how a value is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparsedp.experiments.sections import duration, number, size

Values = Mapping[str, Any]

_NUMBER = r"\d+(?:[ ,]\d{3})*(?:\.\d+)*(?:e-?\d+)?"
_PLACE = re.compile(r"\{([^{}|]+)(?:\|(\w+))?\}")


def grouped(value: float) -> str:
    """A whole number, in groups of three digits from five digits on."""
    return f"{value:,.0f}".replace(",", " ") if value >= 10_000 else f"{value:.0f}"


def error(value: float) -> str:
    """A mean error, with a digit after the point below 100."""
    return f"{value:.1f}" if value < 99.95 else grouped(value)


# How a value is written, and what such text looks like.
FORMS: dict[str | None, tuple[Callable[[float], str], str]] = {
    None: (str, _NUMBER),
    "whole": (grouped, _NUMBER),
    "error": (error, _NUMBER),
    "tenths": (lambda value: f"{value:.1f}", _NUMBER),
    "hundredths": (lambda value: f"{value:.2f}", _NUMBER),
    "digits": (number, _NUMBER),
    "size": (size, _NUMBER + " [KMGT]?B"),
    "duration": (duration, _NUMBER + " (?:s|ms|µs|ns)"),
}


@dataclass(frozen=True)
class Quote:
    """A sentence of a page, or a part of one, with places for values."""

    page: str
    sentence: str

    def places(self) -> list[tuple[str, str | None]]:
        """The name and the form of each value."""
        return [(name, form or None) for name, form in _PLACE.findall(self.sentence)]

    def pattern(self) -> re.Pattern[str]:
        """What finds it in its page, whatever its values are and however its lines are broken."""
        pieces, at = [], 0
        for place in _PLACE.finditer(self.sentence):
            pieces += [_words(self.sentence[at : place.start()]), f"({FORMS[place[2]][1]})"]
            at = place.end()
        return re.compile("".join([*pieces, _words(self.sentence[at:])]))

    def found(self, text: str) -> re.Match[str]:
        """Where it stands in the text of its page."""
        matches = list(self.pattern().finditer(text))
        if len(matches) != 1:
            raise ValueError(f"{self.page} has {len(matches)} places for: {self.sentence}")
        return matches[0]

    def written(self, values: Values) -> list[str]:
        """The values as the page should have them."""
        return [FORMS[form][0](values[name]) for name, form in self.places()]

    def faults(self, text: str, values: Values) -> Iterator[str]:
        """What the page says otherwise than it was measured."""
        for (name, _), there, right in zip(self.places(), self.found(text).groups(), self.written(values), strict=True):
            if there != right:
                yield f"{self.page} has {there} for {name!r}, which is {right}: make quotes"

    def updated(self, text: str, values: Values) -> str:
        """The text of the page with these values."""
        match, at, pieces = self.found(text), 0, []
        for place, right in enumerate(self.written(values), 1):
            pieces += [text[at : match.start(place)], right]
            at = match.end(place)
        return "".join([*pieces, text[at:]])


def _words(literal: str) -> str:
    return re.sub(r"\s+", r"\\s+", re.escape(literal).replace(r"\ ", " "))
