"""Connections to other systems: Spark and OpenDP.

Uses whatever a caller could use; only the top of the package and the command line use it.
"""
