"""Buckets of files from before there were cut laws: the loss that is stated for them when they are
read is exact.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from exact import exp_up, hockey_stick
from sparsedp.privacy.laws import TwoSided
from sparsedp.structures.buckets import NoiseBuckets

Law = dict[int | None, Fraction]
BUCKETS = [
    NoiseBuckets(TwoSided.with_rate(Decimal("0.6"), 8), lowest=-1, threshold=2, bits=2),
    NoiseBuckets(TwoSided.with_rate(Decimal("0.9"), 12), lowest=-3, threshold=4, bits=8),
    NoiseBuckets(TwoSided.with_rate(Decimal("0.3")), lowest=-40, threshold=41, bits=40),
]


def present(buckets: NoiseBuckets, count: int) -> Law:
    """What is read of a key with this count: a value of the system, or a stored one of a window."""
    law: Law = {buckets.lowest: buckets.noise.at_least(count - buckets.lowest)}
    for v in range(buckets.lowest + 1, buckets.threshold + 3):
        law[v] = buckets.noise.probability(v - count)
    law[None] = 1 - sum(law.values(), Fraction(0))  # stored beyond the window
    return law


def absent(buckets: NoiseBuckets) -> Law:
    """What is read of a key without a count: a uniform number."""
    return {buckets.lowest + i: Fraction(width, 1 << buckets.bits) for i, width in enumerate(buckets.widths)}


@pytest.mark.parametrize("buckets", BUCKETS, ids=lambda buckets: str(buckets.bits))
def test_the_loss_from_zero_to_one_is_that_of_the_widths(buckets: NoiseBuckets) -> None:
    zero, one = absent(buckets), present(buckets, 1)
    assert sum(buckets.widths) == 1 << buckets.bits
    assert next(buckets.faults(), None) is None or buckets.bits < 8
    worst = max(max(one[v] / zero[v], zero[v] / one[v]) for v in zero)
    assert worst <= exp_up(buckets.zero_loss) <= worst * (1 + Fraction(1, 10**15))  # attained, not only respected


@pytest.mark.parametrize("buckets", BUCKETS, ids=lambda buckets: str(buckets.bits))
def test_one_step_is_within_the_stated_loss_and_delta(buckets: NoiseBuckets) -> None:
    # Catches widths of another law, and T - 1.
    factor = exp_up(max(buckets.noise.step_loss, buckets.zero_loss))
    stored = buckets.noise.at_least(buckets.threshold - 1)
    zero, one, two = absent(buckets), present(buckets, 1), present(buckets, 2)
    assert hockey_stick(one, zero, factor) == stored
    assert hockey_stick(zero, one, factor) == 0
    assert hockey_stick(one, two, factor) == hockey_stick(two, one, factor) == 0
