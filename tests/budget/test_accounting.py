"""What releases cost together is never understated, and overstated by less than 2 %: compared with
every outcome of randomised responses, and of draws of tiny Gaussian laws, in rational arithmetic.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import reduce

import pytest

from responses import SCALE, Exact, power
from sparsedp.budget import accounting
from sparsedp.budget.accounting import MANY, Composition, Together
from sparsedp.budget.balance import most_that_fit
from sparsedp.budget.book import Budget, Tally
from sparsedp.budget.convolving import Composed
from sparsedp.budget.kinds import Debit
from sparsedp.budget.losses import Gaussian, Pure
from sparsedp.errors import LedgerError
from sparsedp.planning.drafts import draft
from sparsedp.planning.request import Request
from sparsedp.privacy.composition import Moved
from sparsedp.privacy.cut_laws import CutGaussian
from sparsedp.privacy.events import DECIDES, GaussianEvent
from test_composition import hockey_stick, pairs
from test_composition import together as joint_law

DELTAS = [Fraction("1e-10"), Fraction("1e-6"), Fraction("0.01"), Fraction("0.3")]


def pure(epsilons: list[str]) -> Counter[Debit]:
    return Counter(Debit(epsilon, "0.0", "") for epsilon in epsilons)


random.seed(20)
MIXED = [repr(round(random.uniform(0.02, 0.6), 4)) for _ in range(12)]
CASES: dict[str, list[str]] = {
    "one": ["0.1"],
    "two": ["0.1", "0.2"],
    "20 equal ones": ["0.1"] * 20,
    "20 large ones": ["1.5"] * 20,
    "20 tiny ones": ["1e-05"] * 20,
    "85 equal ones": ["0.1"] * 85,
    "365 equal ones": ["0.1"] * 365,
    "12 different ones": MIXED,
    "20 of 5 kinds": ["0.05", "0.1", "0.21", "0.3", "0.47"] * 4,
    "a large one and small ones": ["2.0", *["0.03"] * 19],
    "nearly equal ones": [repr(0.1 + 0.001 * i) for i in range(12)],
}


@pytest.mark.parametrize("case", CASES)
def test_composed_pure_releases_are_never_understated_and_by_less_than_2_percent_overstated(case: str) -> None:
    """Catches losses that are rounded to the nearest point of the grid, or down; masses that are not
    rounded up; a tail that is dropped.
    """
    epsilons = CASES[case]
    exact, debits = Exact(epsilons), pure(epsilons)
    most = sum(map(Fraction, epsilons))
    for delta in DELTAS:
        made = Together.of(debits, float(delta))
        true, stated = exact.epsilon(delta), made.epsilon_at(delta)
        assert exact.delta(stated) <= delta
        # For a few releases the sum is better, and a ledger takes the smaller of both.
        assert min(Fraction(stated), most) <= Fraction(1.02) * Fraction(true) + Fraction("1e-8")
        for share in (0.0, 0.2, 0.5, 0.9, 1.0):
            assert made.delta_at(Fraction(share * float(most))) >= exact.delta(share * float(most))


def test_twenty_different_releases_are_composed_exactly_enough() -> None:
    epsilons = [repr(round(0.04 * i + 0.013, 3)) for i in range(10)] * 2
    exact = Exact(epsilons)
    stated = Together.of(pure(epsilons), 1e-6).epsilon_at(Fraction("1e-6"))
    true = exact.epsilon(Fraction("1e-6"))
    assert exact.delta(stated) <= Fraction("1e-6")
    assert true <= stated <= 1.001 * true


@pytest.mark.parametrize("many", [MANY + 1, 200])
def test_many_kinds_are_merged_upwards(many: int) -> None:
    """Merged ones are compared with the composition of each on its own. Catches merging to a smaller
    ε, and merging that costs more than a percent.
    """
    debits = pure([repr(round(0.01 + 0.0003 * i, 6)) for i in range(many)])
    assert len(accounting._merged(Counter({float(debit.epsilon): 1 for debit in debits}))) <= many
    step = Together.of(debits, 1e-6).step
    each = [Composed.of(Pure(float(debit.epsilon), 1), step, 1e-14) for debit in debits]
    apart = reduce(lambda first, second: Composed.product([first, second], 1e-14), each).epsilon_at(1e-6)
    merged = Together.of(debits, 1e-6).epsilon_at(Fraction("1e-6"))
    assert apart * (1 - 1e-5) <= merged <= 1.01 * apart


def test_merging_rounds_up_and_keeps_every_release() -> None:
    random.seed(3)
    epsilons = Counter({10 ** random.uniform(-6, 0): random.randrange(1, 5) for _ in range(5000)})
    merged = accounting._merged(epsilons)
    assert sum(merged.values()) == epsilons.total()
    assert len(merged) < 1000
    ordered = sorted(epsilons.elements(), reverse=True)
    upper = sorted((epsilon for epsilon, times in merged.items() for _ in range(times)), reverse=True)
    assert all(large >= small for large, small in zip(upper, ordered, strict=True))
    squares = sum(epsilon**2 for epsilon in ordered)
    assert sum(epsilon**2 for epsilon in upper) <= 1.01 * squares


@pytest.mark.parametrize("delta", ["1e-07", "0.001"])
def test_pairs_add_their_deltas(delta: str) -> None:
    debits = Counter({Debit("0.1", delta, ""): 20})
    exact = Exact(["0.1"] * 20)
    whole = 1 - (1 - Fraction(delta)) ** 20
    for epsilon in (0.3, 1.0, 1.9):
        # Of (ε, δ)-private releases the worst fail with δ, and are randomised responses otherwise.
        true = whole + (1 - whole) * exact.delta(epsilon)
        stated = Together.of(debits, 1e-3).delta_at(Fraction(epsilon))
        assert true <= stated <= true * (1 + whole) + Fraction("1e-3") * true


LAWS = [CutGaussian(16, Fraction(2), 40), CutGaussian(16, Fraction(3), 40), CutGaussian(16, Fraction(9, 4), 5)]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.variance}-{law.most}")
@pytest.mark.parametrize(("draws", "times"), [(1, 1), (1, 3), (2, 2)])
def test_gaussian_releases_are_never_understated(law: CutGaussian, draws: int, times: int) -> None:
    """Catches rounding that is counted once for all releases, and a plain δ that is left out."""
    event = GaussianEvent((Moved(law, draws, 1),), 0.0, 1e-3)
    debits = Counter({Debit("1.0", "0.001", event.written()): times})
    assert Gaussian(event, times).is_fine
    made = Together.of(debits, 0.1)
    joint = joint_law([pairs(law, 1)] * (draws * times))
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        exact = hockey_stick(joint, epsilon)
        true = 1 - (1 - Fraction("1e-3")) ** times * (1 - exact)
        stated = made.delta_at(Fraction(epsilon))
        assert true <= stated
        assert stated <= Fraction(1.1) * exact + Fraction(1.01) * (Fraction(Gaussian(event, times).plain))


def test_gaussian_and_pure_releases_compose() -> None:
    law = LAWS[0]
    event = GaussianEvent((Moved(law, 1, 1),), 0.0, 0.0)
    debits = Counter(
        {Debit("1.0", "1e-09", event.written()): 2, Debit("0.3", "0.0", ""): 3, Debit("0.7", "0.0", ""): 1}
    )
    made = Together.of(debits, 0.1)
    responses = [Counter({(power(e), SCALE): 1, (SCALE, power(e)): 1}) for e in ("0.3", "0.3", "0.3", "0.7")]
    joint = joint_law([pairs(law, 1), pairs(law, 1), *responses])
    for epsilon in (0.0, 0.5, 1.5, 2.5):
        exact = hockey_stick(joint, epsilon)
        assert exact <= made.delta_at(Fraction(epsilon)) <= Fraction(1.1) * exact + Fraction("0.002")


def test_two_kinds_of_draws_are_composed_over_releases() -> None:
    first, second = CutGaussian(16, Fraction(4), 40), CutGaussian(16, Fraction(8), 40)
    event = GaussianEvent((Moved(first, 1, 1), Moved(second, 1, 2)), 0.0, 0.0)
    made = Together.of(Counter({Debit("1.0", "1e-09", event.written()): 2}), 0.1)
    joint = joint_law([pairs(first, 1), pairs(second, 2)] * 2)
    for epsilon in (0.0, 0.5, 1.5):
        assert hockey_stick(joint, epsilon) <= made.delta_at(Fraction(epsilon))


def test_a_law_that_is_too_coarse_counts_by_epsilon_and_delta() -> None:
    law = CutGaussian(16, Fraction(1, 2), 40)
    event = GaussianEvent((Moved(law, 5, 1),), 0.0, 0.0)
    assert not Gaussian(event, 10).is_fine
    debit = Debit("2.0", "1e-09", event.written())
    by_pair = Together.of(Counter({debit._replace(event=""): 10}), 1e-6)
    assert Together.of(Counter({debit: 10}), 1e-6).epsilon_at(Fraction("1e-6")) == by_pair.epsilon_at(Fraction("1e-6"))


def test_an_event_that_states_less_than_its_pair_is_refused() -> None:
    law = CutGaussian(32, Fraction(10000), 1000)
    event = GaussianEvent((Moved(law, 1, 1),), 0.0, 1e-9)
    with pytest.raises(LedgerError, match=r"must state at least ε = 1\.0, δ = 1e-06 of its release"):
        Together.of(Counter({Debit("1.0", "1e-06", event.written()): 1}), 1e-6)


@pytest.mark.parametrize(
    "change",
    [
        ("gaussian", "laplace"),
        ("16 bits", "17 bits"),
        ("variance 2,", "variance 4/2,"),
        ("variance 2,", "variance 1/0,"),
        ("1 draws", "0 draws"),
        ("1 draws", "01 draws"),
        ("loss 0.0", "loss 0"),
        ("loss 0.0", "loss nan"),
        ("; delta", ";  delta"),
        ("delta 0.001", "delta 1.0"),
        ("delta 0.001", "delta -0.001"),
        ("to 40", "to 999999999"),
        ("to 40", "to 40 "),
    ],
)
def test_an_event_is_read_as_it_was_written_or_not_at_all(change: tuple[str, str]) -> None:
    event = GaussianEvent((Moved(LAWS[0], 1, 1),), 0.0, 1e-3)
    assert GaussianEvent.read(event.written()) == event
    other = event.written().replace(*change)
    assert other != event.written()
    with pytest.raises(ValueError, match="an event is not as it is written"):
        GaussianEvent.read(other)


def test_releases_that_decide_are_added() -> None:
    delta = Fraction("1e-6")
    others = pure(["0.1"] * 30)
    deciding = Counter({Debit("0.2", "0.0", DECIDES): 2})
    alone, both = Together.of(others, 1e-6).epsilon_at(delta), Together.of(others + deciding, 1e-6).epsilon_at(delta)
    assert both == pytest.approx(alone + 0.4, rel=1e-9)
    assert both >= alone + 0.4
    assert Together.of(deciding, 1e-6).epsilon_at(delta) == pytest.approx(0.4, rel=1e-9)
    assert Together.of(deciding, 1e-6).delta_at(Fraction("0.39")) == 1


def test_sizes_that_are_chosen_by_earlier_outputs_can_cost_more_than_either_choice() -> None:
    """Why the assumption is needed: after a first response, take many small ones or a single large
    one, whichever is worse at what is left. Each choice alone stays within δ, and both together do
    not.
    """
    first, small, large = 0.5, Exact(["0.1"] * 40), Exact(["0.9"])
    chance = math.exp(first) / (1 + math.exp(first))

    def after(one: Exact, other: Exact, epsilon: float) -> float:
        return chance * float(one.delta(epsilon - first)) + (1 - chance) * float(other.delta(epsilon + first))

    epsilons = [0.5 + 0.005 * i for i in range(200)]
    gains = [
        after(one, other, e) / max(after(small, small, e), after(large, large, e))
        for e in epsilons
        for one, other in ((small, large), (large, small))
    ]
    assert max(gains) > 1.02


def test_noise_that_is_chosen_by_earlier_outputs_can_cost_more_than_either_choice() -> None:
    """Why the assumption is about all parameters: after ten responses, take as many releases of
    ε = 0.2 as fit, with Gaussian noise or with other noise, whichever is worse at what is left.
    """
    options = {"max_keys_per_user": 50, "max_per_key": 1, "noise": "gaussian", "mechanism": "retrieval"}
    event = draft(Request(epsilon=0.2, delta=1e-9, **options)).event  # type: ignore[arg-type]
    assert event is not None
    budget, first, times = Budget("4", "1e-06", ""), 0.2, 10
    tally = Tally("", Composition(1e-6))
    for _ in range(times):
        tally.add(Debit(repr(first), "0.0", ""))
    kinds = [Debit("0.2", "1e-09", event), Debit("0.2", "1e-09", "")]
    each = [most_that_fit(budget._replace(accounting="pld"), tally, kind) for kind in kinds]
    choices = [Together.of(Counter({kind: most}), 1e-6) for kind, most in zip(kinds, each, strict=True)]
    chance = math.exp(first) / (1 + math.exp(first))

    def after(choose: Callable[[list[float]], float]) -> float:
        """The δ at ε = 4, if what follows is chosen by how many of the ten responses were true."""
        whole = 0.0
        for true in range(times + 1):
            left = 4 - (2 * true - times) * Fraction(repr(first))
            mass = math.comb(times, true) * chance**true * (1 - chance) ** (times - true)
            whole += mass * choose([float(choice.delta_at(left)) for choice in choices])
        return whole

    assert after(lambda deltas: deltas[0]) < 1e-6
    assert after(lambda deltas: deltas[1]) < 1e-6
    assert after(max) > 1.1e-6


def test_an_incremental_composition_is_that_of_all_debits() -> None:
    """Debits that are tried first, debits of others, and many of them. Catches one that is counted
    twice or not at all.
    """
    random.seed(4)
    kept = Composition(1e-6)
    epsilon, delta = Fraction(3), Fraction("1e-6")
    for number in range(3 * MANY):
        debit = Debit(repr(round(random.uniform(0.05, 0.1), 9)), "1e-09", "")
        if number % 3:
            kept.together(debit).delta_at(epsilon)
        kept.add(debit)
        if number % 10 == 9:
            whole = Together.of(kept.kinds.counts, 1e-6)
            assert kept.together().epsilon_at(delta) == pytest.approx(whole.epsilon_at(delta), rel=2e-3)
            assert kept.together().plain == whole.plain
    assert kept.kinds.counts.total() == 3 * MANY


@pytest.mark.parametrize("event", ["", DECIDES])
@pytest.mark.parametrize("larger", ["0.05", "1.0", "3.0"])
def test_a_larger_debit_after_many_tiny_ones_gets_a_grid_of_its_own(event: str, larger: str) -> None:
    """Catches losses of 3 on a grid for 1e-6, which took gigabytes, and on a grid for none."""
    budget, tally, debit = Budget("1.0", "1e-06", "", "pld"), Tally("", Composition(1e-6)), Debit(larger, "0.0", "")
    for number in range(MANY + 1):
        tally.add(Debit(repr(1e-6 * (1 + number / 100)), "0.0", event))
    tally.debits.together()
    planned = most_that_fit(budget, tally, debit)
    assert planned == {"0.05": 26, "1.0": 0, "3.0": 0}[larger]
    for _ in range(planned):
        assert tally.fits(budget, debit)
        tally.add(debit)
    assert not tally.fits(budget, debit)
    losses = tally.debits.together(debit).losses
    assert losses is not None
    assert 1 << 12 < losses.masses.size < 1 << 18


def test_a_larger_debit_of_another_process_gets_a_grid_of_its_own() -> None:
    kept = Composition(1e-6)
    for number in range(MANY + 1):
        kept.add(Debit(repr(1e-6 * (1 + number / 100)), "0.0", ""))
    kept.together()
    kept.add(Debit("3.0", "0.0", ""))
    assert kept.together().epsilon_at(Fraction("1e-6")) == pytest.approx(3, rel=1e-3)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-12, 1e-3, 700.0, 1e6, 1e99, 1.4e154, 5e307])
def test_no_epsilon_is_too_small_or_too_large(epsilon: float) -> None:
    debits = Counter({Debit(repr(epsilon), "0.0", ""): 3})
    made = Together.of(debits, 1e-6)
    assert 0 <= made.epsilon_at(Fraction("1e-6")) <= 3.1 * epsilon + 1e-25
    assert made.delta_at(Fraction(0)) >= 0
