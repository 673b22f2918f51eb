"""Writes the golden files of the current format that are missing; they never change.

python tests/helpers/make_golden.py
"""

from __future__ import annotations

import json
from pathlib import Path

from releases import DIRECTORIES, VARIANTS, answers, make
from sparsedp.format.description import FORMAT

FOLDER = Path(__file__).parents[1] / "golden" / f"format-{FORMAT}"

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in VARIANTS | DIRECTORIES:
        if (FOLDER / f"{name}.json").exists():
            continue
        release = make(name)
        release.save(FOLDER / f"{name}.sparsedp")
        expected = {"epsilon": release.epsilon, "delta": release.delta, **answers(release)}
        (FOLDER / f"{name}.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")
