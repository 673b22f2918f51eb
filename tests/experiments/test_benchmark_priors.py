"""`benchmarks.priors` on a small corpus."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from benchmarks import priors


def test_each_prior_has_a_column_and_each_bound_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Mutant: a table alone that also answers for keys that it does not store has another error.
    monkeypatch.setattr(priors, "ALIKE", 3000)
    folder = str(Path(sysconfig.get_path("stdlib")) / "asyncio")
    priors.main(["--releases", "1", "--keys-per-user", "1", "5", "--corpus", folder])
    tables = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if " | " in line]
    heads = tables[0][1:]
    assert len(heads) == 2 + sum(map(len, priors.PRIORS.values()))
    assert all(len(cells) == len(tables[0]) for cells in tables)
    bounds = ["1", "5"]
    heading = {group: f"{words}: m" for group, words in priors.GROUPS.items()}
    assert [cells[0] for cells in tables] == [
        *(heading["all"], *bounds, heading["frequent"], *bounds, heading["all"], str(priors.ALIKE_BOUND))
    ]
    alike = dict(zip(heads, map(float, tables[-1][1:]), strict=True))
    assert alike[priors.TABLE] == priors.ALIKE_COUNT  # nothing is stored
    assert alike["`tight-alp`, fitted"] < alike["`tight-alp`, flat"] / 2
    assert alike["`retrieval`, fitted"] == alike["`retrieval`, flat"]
