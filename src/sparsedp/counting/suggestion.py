"""A suggested bound on the keys of a user, as text, as a table for notebooks, and as a figure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .._util.plotting import Path, finished, new_figure
from ..mechanisms import notebook


@dataclass(frozen=True)
class Choice:
    """What a bound on the keys of a user would mean."""

    max_keys_per_user: int
    kept: float  # of all pairs of a user and a key: the share that is counted
    noise: float  # the error of noise on a key
    error: float  # the error that both have together, for the key of a random pair


@dataclass(frozen=True)
class Suggestion:
    """The bound with the least estimated error, and the others beside it."""

    max_keys_per_user: int
    asked: float  # the ε of the release to come
    epsilon: float  # what was spent of it on the suggestion
    typical_count: float  # the count of the key of a random pair of a user and a key, as estimated
    choices: tuple[Choice, ...]
    # Whether the bound follows from the data. If not, all that is published may be noise: there are
    # too few users for this ε, the bound is a public default, and what they have is not known (nan).
    supported: bool = True

    @property
    def doubt(self) -> str:
        """What to know of a suggestion that the data does not support; otherwise empty."""
        if self.supported:
            return ""
        return (
            "what is published does not show how many keys users have: it may be noise alone, as there are too few "
            f"users for this epsilon; {self.max_keys_per_user} is a public default, so state a bound, or let "
            "suggest spend a larger share"
        )

    def __str__(self) -> str:
        lines = [
            f"max_keys_per_user = {self.max_keys_per_user}, chosen with ε = {self.epsilon:.4g} "
            f"(ε = {self.left:.4g} is left)",
            f"NOT SUPPORTED: {self.doubt}" if self.doubt else f"{self._typical}, which is typical of what users have:",
            "    keys per user   counted     noise     error",
        ]
        for choice in self.choices:
            mark = "→" if choice.max_keys_per_user == self.max_keys_per_user else " "
            lines.append(
                f"  {mark} {choice.max_keys_per_user:>13,}   {_share(choice.kept):>7}   {_digits(choice.noise):>7}"
                f"   {_digits(choice.error):>7}"
            )
        return "\n".join(lines)

    @property
    def left(self) -> float:
        """What is left of ε for the release, rounded down."""
        return rest(self.asked, self.epsilon)

    @property
    def _typical(self) -> str:
        return f"Errors of a key with a count of about {self.typical_count:,.0f}"

    def plot(self, path: Path | None = None) -> Any:
        """Error and noise against the bound, as a figure of matplotlib that notebooks show.

        With a path it is also written there (PNG, SVG or PDF, by the extension).
        """
        figure, axes = new_figure(7, 4.2)
        bounds = [choice.max_keys_per_user for choice in self.choices]
        if self.supported:
            axes.plot(bounds, [choice.error for choice in self.choices], linewidth=2, label="noise and cut counts")
        axes.plot(bounds, [choice.noise for choice in self.choices], "--", linewidth=2, label="noise alone")
        axes.axvline(self.max_keys_per_user, color="black", linestyle=":", label=f"{self.max_keys_per_user} keys")
        axes.set(xscale="log", yscale="log", xlabel="keys counted of each user, at most", ylabel="mean absolute error")
        typical = f"A key with a count of about {self.typical_count:,.0f}"
        axes.set_title(typical if self.supported else "Not supported by the data: a public default")
        axes.grid(alpha=0.3)
        axes.legend()
        return finished(figure, path)

    def _repr_html_(self) -> str:
        rows: list[list[str] | str] = [
            [
                _share(own.kept),
                _digits(own.noise),
                _digits(own.error),
                "← chosen" if own.max_keys_per_user == self.max_keys_per_user else "",
            ]
            for own in self.choices
        ]
        names = [f"{own.max_keys_per_user:,}" for own in self.choices]
        spent = f"chosen with ε = {self.epsilon:.4g}, so that ε = {self.left:.4g} is left"
        return notebook.grid(
            ["keys per user", "counted", "noise", "error", ""],
            names,
            rows,
            title=f"max_keys_per_user = {self.max_keys_per_user}, {spent}",
            note=f"Not supported: {self.doubt}" if self.doubt else f"{self._typical}, which is typical of users' keys",
        )


def _digits(error: float) -> str:
    """Three digits, or all of the whole ones."""
    if math.isnan(error):
        return "–"
    return f"{error:,.0f}" if error >= 100 else f"{error:.3g}"


def _share(kept: float) -> str:
    return "–" if math.isnan(kept) else f"{kept:.1%}"


def rest(epsilon: float, spent: float) -> float:
    """ε without what is spent; the two never add up to more than ε."""
    return math.nextafter(epsilon - spent, 0.0)
