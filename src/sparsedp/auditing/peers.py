"""The same game against other libraries: their claims are tested against their behaviour."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import MissingDependencyError
from ..privacy.numbers import check_epsilon
from .audit import Audit, audit_samples, check_trials

PEERS = ("opendp:laplace_threshold",)


def check_peer(runs: int, confidence: float) -> Any:
    """OpenDP, or an error that says what is wrong or missing, before any run."""
    check_trials(runs, confidence)
    try:
        import opendp.prelude as dp
    except ImportError:
        raise MissingDependencyError("OpenDP is not installed: pip install 'sparsedp[peers]'") from None
    return dp


def audit_peer(name: str, epsilon: float, *, runs: int, confidence: float) -> Audit:
    """Audit OpenDP's thresholded Laplace noise at the ε and δ that it states for one person with
    one key.
    """
    dp = check_peer(runs, confidence)
    check_epsilon(epsilon)
    dp.enable_features("contrib")
    domain = dp.map_domain(dp.atom_domain(T="i64"), dp.atom_domain(T="i64"))
    metric = dp.l01inf_distance(dp.absolute_distance(T="i64"))
    measurement = dp.m.make_laplace_threshold(domain, metric, scale=1 / epsilon, threshold=4)
    stated: Any = measurement.map((1, 1, 1))

    def sample(right: bool, count: int) -> npt.NDArray[np.float64]:
        # Many keys in one run: without the person there are no keys, with the person each key has
        # one count.
        released = measurement(dict.fromkeys(range(count), 1)) if right else {}
        seen = np.zeros(count)
        for key, value in released.items():
            seen[key] = value
        return seen

    return audit_samples(name, sample, float(stated[0]), float(stated[1]), runs=runs, confidence=confidence)
