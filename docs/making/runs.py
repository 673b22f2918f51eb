"""What is kept of the runs whose figures the pages quote, and the values in it, by name.

It is kept beside this file, in `kept/`, so that a test can compare.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parent / "kept"

Block = dict[str, Any]

PICTURES = ("table-one", "peers", "corpus-errors", "users-errors", "users-names")  # of the report
BLOCKS = {
    "pure": "m = 20, δ = 0",
    "delta": "m = 20, δ = 1e-6",
    "one key, pure": "m = 1, δ = 0",
    "one key, delta": "m = 1, δ = 1e-6",
}
RANGES = ("absent", "1", "2–5", "6–20", "21–60", "61–120", "> 120")
BY_COUNT = ("threshold", "stability", "alp", "threshold-alp", "tight-alp", "retrieval")
LIBRARIES = {
    "OpenDP": "OpenDP, Gaussian",
    "PipelineDP": "PipelineDP, Gaussian",
    "PyDP": "PyDP, Gaussian",
    "Tumult Analytics": "Tumult Analytics, Laplace",
}
ACCURACY = ("tight-alp, 40 bits (default), balanced", "threshold-alp, the paper's")
# What only the captions of pictures say.
CAPTIONS = {
    "tight-alp by dense": r"tight-alp has ([\d.]+) times the error of noise",
    "threshold-alp by dense": r"\(threshold-alp\) has ([\d.]+);",
    "OpenDP ALP by tight-alp": r"OpenDP's ALP has ([\d.]+) times the error",
}
OURS = ("tight-alp", "threshold-alp", "retrieval", "stability")


def kept(name: str) -> Any:
    """What is kept of a run."""
    return json.loads((KEPT / f"{name}.json").read_text(encoding="utf-8"))


def of_report(results: Any) -> Any:
    """What is quoted of `results.json`."""
    sections = results["sections"]
    one = {name: sections["table-one"]["settings"][f"{name}, k = 100000, domain 2⁶⁴, ε = 1"] for name in BY_COUNT}
    words = sections["corpus"]["mechanisms"]
    users = sections["users"]
    return {
        "facts": results["facts"],
        "agree": sum(check["reached"] for check in results["checks"]),
        "numbers": len(results["checks"]),
        "captions": {name: results["captions"][name] for name in PICTURES},
        "table one": {name: {"bits": row["bits"], "errors": _means(row["errors"])} for name, row in one.items()},
        "words": {
            name: {"keys": row["keys"], "nbytes": row["nbytes"], "errors": _means(row["errors"])}
            for name, row in words.items()
        },
        "users": {"facts": users["facts"], "blocks": {name: users["blocks"][block] for name, block in BLOCKS.items()}},
    }


def _means(errors: Any) -> dict[str, float]:
    return {label: error["mean"] for label, error in errors.items()}


def of_bench(results: Any) -> Any:
    """What is quoted of `bench.json`: the rows, without their own figures."""
    wanted = ("name", "against", "ours", "theirs", "ratio", "target", "reached")
    return {**results, "rows": [{key: row[key] for key in wanted} for row in results["rows"]]}


def of_accuracy(results: Any) -> Any:
    """What is quoted of `accuracy.json`: the mean error and the size of two rows, and all tables."""
    rows = {
        name: {"error": results["rows"][name]["error"]["non-zero"], "bits": results["rows"][name]["bits"]["release"]}
        for name in ACCURACY
    }
    return {"sparsedp": results["sparsedp"], "rows": rows, "tables": results["tables"].splitlines()}


TAKEN: dict[str, Callable[[Any], Any]] = {"report": of_report, "bench": of_bench, "accuracy": of_accuracy}


def values() -> dict[str, Any]:
    """Every value that may be quoted, by name."""
    return {
        **dict(_of_report(kept("report"))),
        **dict(_of_bench(kept("bench"))),
        **dict(_of_accuracy(kept("accuracy"))),
    }


def _of_report(report: Any) -> Iterator[tuple[str, Any]]:
    yield "numbers", report["agree"]
    for name, words in CAPTIONS.items():
        yield name, float(re.findall(words, " ".join(report["captions"].values()))[0])
    for name, row in report["table one"].items():
        yield f"by count {name} bits", row["bits"]
        for label in RANGES:
            yield f"by count {name} {label}", row["errors"][label]
    for name, row in report["words"].items():
        yield f"words {name} nbytes", row["nbytes"]
        yield "words keys", row["keys"]
        for label in RANGES:
            yield f"words {name} {label}", row["errors"][label]
    facts, blocks = report["users"]["facts"], report["users"]["blocks"]
    yield "files", facts["files"]
    counted = facts["m = 20"]
    yield from (("keys", counted["keys"]), ("mean count", counted["total"] / counted["keys"]))
    yield "largest count", counted["largest"]
    for name, rows in blocks.items():
        for row, one in rows.items():
            yield from ((f"{name} {row} {group}", value) for group, value in one.get("errors", {}).items())
            for key in ("nbytes", "memory", "frequent", "version", "python"):
                if one.get(key) is not None:
                    yield f"{name} {row} {'names' if key == 'frequent' else key}", one[key]
            if one.get("coverage") is not None:
                yield f"{name} {row} coverage", 100 * one["coverage"]
    yield from _ranges(blocks)


def _ranges(blocks: dict[str, Block]) -> Iterator[tuple[str, float]]:
    """The least and the largest of several rows."""
    delta = blocks["delta"]
    named = [delta[row]["errors"] for row in (*LIBRARIES.values(), "stability, Gaussian")]
    gaussian = [errors for row, errors in zip(LIBRARIES, named, strict=False) if "Gaussian" in LIBRARIES[row]]
    yield "least named frequent", int(min(errors["frequent"] for errors in named))
    yield "least named all", min(errors["all"] for errors in named)
    yield "largest named all", max(errors["all"] for errors in named)
    yield "least gaussian frequent", min(errors["frequent"] for errors in gaussian)
    memory = [
        one["memory"]
        for name in ("pure", "delta")
        for row, one in blocks[name].items()
        if row.startswith(OURS) and "memory" in one
    ]
    yield from (("least memory", min(memory) / 1e6), ("largest memory", max(memory) / 1e6))
    others = [
        blocks[name][row]["memory"] / 1e6
        for name, row in (("pure", "OpenDP, ALP"), ("delta", "OpenDP, Laplace"), ("delta", "OpenDP, Gaussian"))
    ]
    yield from (("least memory of OpenDP", min(others)), ("largest memory of OpenDP", max(others)))


def _of_bench(bench: Any) -> Iterator[tuple[str, Any]]:
    for row in bench["rows"]:
        yield f"{row['name']} ratio", row["ratio"]
    for name in ("tight-alp", "retrieval"):
        (row,) = (row for row in bench["rows"] if row["name"] == f"{name}: 10⁷ lookups in 10⁷ keys, one thread")
        yield f"{name} lookup", row["ours"] / 1e7 / 1e-9  # nanoseconds


def _of_accuracy(accuracy: Any) -> Iterator[tuple[str, float]]:
    for name, one in accuracy["rows"].items():
        yield from ((f"{name} error", one["error"]), (f"{name} bits", one["bits"]))
