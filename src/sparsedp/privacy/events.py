"""What a release loses, as one line that a ledger can keep and compose again.

Most releases are known by their pair (ε, δ), and have no event. A pair is one point of a curve;
`GaussianEvent` has all of it: for every real t, a release exceeds the loss t by at most
`delta_at(t)`, whether a user is added or removed. `DECIDES` is for a release whose output may choose
the parameters of later ones (docs/privacy.md, "Accounting over releases").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from .composition import Moved, composed_delta
from .cut_laws import CutGaussian

DECIDES = "decides"

# Platforms differ in the last digits of their exponentials.
TOLERANCE = 1e-6

_NUMBER = r"[0-9][0-9.e+-]*"
_DRAWS = r"(\d+) draws by (\d+) of (\d+) bits, variance (\d+(?:/[1-9]\d*)?), to (\d+)"
_WRITTEN = re.compile(
    rf"gaussian: (?P<draws>(?:{_DRAWS}; )+)loss (?P<loss>{_NUMBER}); delta (?P<delta>{_NUMBER})", re.ASCII
)
_LARGEST = 1 << 40  # of the draws, and of their moves


@dataclass(frozen=True)
class GaussianEvent:
    """Draws of cut Gaussian laws whose centres a user moves, and what is lost beside them."""

    moves: tuple[Moved, ...]  # one or two kinds of draws
    loss: float  # added to the loss of the draws
    delta: float  # of everything but the draws: it adds up over releases

    def delta_at(self, epsilon: float) -> float:
        """The δ at any ε, rounded up."""
        return min(1.0, composed_delta(epsilon - self.loss, self.moves) + self.delta)

    def covers(self, epsilon: float, delta: float) -> bool:
        """Whether it states at least the loss of the pair (ε, δ) of its release."""
        return self.delta_at(epsilon) >= delta * (1 - TOLERANCE)

    def written(self) -> str:
        """One line, of which `read` makes the same event on every machine."""
        draws = "".join(
            f"{move.draws} draws by {move.by} of {move.law.bits} bits, variance {move.law.variance}, "
            f"to {move.law.most}; "
            for move in self.moves
        )
        return f"gaussian: {draws}loss {self.loss!r}; delta {self.delta!r}"

    @classmethod
    @lru_cache(maxsize=256)
    def read(cls, text: str) -> GaussianEvent:
        """The event of such a line, or `ValueError`."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise ValueError("an event is not as it is written")
        moves = [
            Moved(CutGaussian(int(bits), Fraction(variance), int(most)), int(draws), int(by))
            for draws, by, bits, variance, most in re.findall(_DRAWS, found["draws"])
        ]
        event = cls(tuple(moves), float(found["loss"]), float(found["delta"]))
        if event.written() != text or list(event.faults()):
            raise ValueError("an event is not as it is written")
        return event

    def faults(self) -> list[str]:
        """What is wrong with an event that was not made here, if anything."""
        wrong = [fault for move in self.moves for fault in move.law.faults()]
        if not 1 <= len(self.moves) <= 2 or not all(1 <= n <= _LARGEST for m in self.moves for n in (m.draws, m.by)):
            wrong.append("there must be one or two kinds of draws")
        if not 0 <= self.loss < 1 or not 0 <= self.delta < 1:
            wrong.append("what is lost beside the draws must be in [0, 1)")
        return wrong
