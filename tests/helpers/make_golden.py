"""Writes the golden files of the formats that new releases have, if they are missing; they never
change.

python tests/helpers/make_golden.py
"""

from __future__ import annotations

import json
from pathlib import Path

from releases import COMPOSITE, CUT_LAWS, DIRECTORIES, VARIANTS, answers, make

GOLDEN = Path(__file__).parents[1] / "golden"

if __name__ == "__main__":
    for name in VARIANTS | DIRECTORIES | CUT_LAWS | COMPOSITE:
        release = make(name)
        folder = GOLDEN / f"format-{release.format}"
        if (folder / f"{name}.json").exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        release.save(folder / f"{name}.sparsedp")
        expected = {"epsilon": release.epsilon, "delta": release.delta, **answers(release)}
        (folder / f"{name}.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")
