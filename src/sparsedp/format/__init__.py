"""A release as bytes: the container, the codec of plans, files and directories (docs/format.md).

Uses plans and their arrays, not how they were built. Provides `save`, `load` and `verify` for
releases.
"""
