"""Connections to other systems: DuckDB, Spark.

Uses whatever a caller could use; only the top of the package and the command line use it.
"""
