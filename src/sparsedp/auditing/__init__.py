"""Attempts to refute a privacy claim from outside: `sparsedp audit`.

Reading order: evidence (from counted outcomes to a lower bound on ε) → games (neighbouring inputs
that are hard to hide) → audit (play the games against a mechanism). Uses the library as a caller
does, and its mechanisms by name.
"""

from .audit import Audit, audit, audit_samples, check_audit, check_plot
from .evidence import Finding, refute

__all__ = ["Audit", "Finding", "audit", "audit_samples", "check_audit", "check_plot", "refute"]
