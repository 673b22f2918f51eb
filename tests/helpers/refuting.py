"""Audits of mutants: they end with the first game that refutes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from sparsedp.auditing import Audit

playing = import_module("sparsedp.auditing.audit")


class _RefutedError(Exception):
    pass


def refutes(audit: Callable[[], Audit]) -> bool:
    """Whether any of its games refutes, at the failure probability of one among all of them."""
    play = playing._play

    def played(*arguments: Any) -> Any:
        finding = play(*arguments)
        if finding.refutes:
            raise _RefutedError
        return finding

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(playing, "_play", played)
        try:
            return audit().refuted
        except _RefutedError:
            return True
