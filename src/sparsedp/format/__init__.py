"""A release as bytes: the container, the codec of plans, files and directories (docs/format.md).

Knows plans and their arrays, not how they were built. Hands out `save`, `load` and `verify` for what a release holds.
"""
