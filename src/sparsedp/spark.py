"""Releases built on Spark, and lookups there: `sparsedp.spark.release`, `sparsedp.spark.lookup`."""

from .reach.spark import lookup, plan, release

__all__ = ["lookup", "plan", "release"]
