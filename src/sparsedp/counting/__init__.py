"""From tables of events to counts in which no user has more than a bounded share, on DuckDB and on Spark.

Knows keys and contributions, not mechanisms. Hands out `count`, and rows by part for Spark.
"""
