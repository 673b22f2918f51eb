"""Releases built on Spark, and asked there: `sparsedp.spark.release`, `lookup`; `register` for SQL."""

from .reach.spark import lookup, plan, register, release

__all__ = ["lookup", "plan", "register", "release"]
