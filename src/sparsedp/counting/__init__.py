"""From tables of events to counts in which no user has more than a bounded share, on DuckDB and on
Spark.

Uses keys and contributions, not mechanisms. Provides `count`, and rows by part for Spark.
"""
