"""PipelineDP on its local backend: Laplace or Gaussian noise, and keys selected by the noisy count
itself, which costs no ε besides.

It takes the rows, and bounds what users contribute itself. Without δ it needs a list of all keys
that is public.
"""

from __future__ import annotations

import importlib
from typing import Any

PACKAGE = "pipeline-dp"

Rows = list[tuple[int, int]]


def prepare(data: dict[str, Any]) -> Rows:
    """Users and positions of keys."""
    importlib.import_module("pipeline_dp")
    return [(user, place) for user, place in data["rows"]]


def release(way: str, rows: Rows, keys: int, epsilon: float, delta: float) -> dict[int, float]:
    """How many users have each key that is selected."""
    import pipeline_dp

    noise = way.upper()
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
        noise_kind=pipeline_dp.NoiseKind[noise],
        max_partitions_contributed=keys,
        max_contributions_per_partition=1,
        partition_selection_strategy=pipeline_dp.PartitionSelectionStrategy[f"{noise}_THRESHOLDING"],
        post_aggregation_thresholding=True,
    )
    columns = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: 0,
    )
    selected = engine.aggregate(rows, parameters, columns)
    accountant.compute_budgets()
    return {place: figures.privacy_id_count for place, figures in selected}


def answer(way: str, released: dict[int, float], data: dict[str, Any]) -> dict[str, Any]:
    """What is published."""
    return {"estimates": released, "named": list(released)}
