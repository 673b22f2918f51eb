"""Connections to other systems: DuckDB, polars, pandas, Spark, OpenDP.

Uses whatever a caller could use; only the top of the package and the command line use it.
"""
