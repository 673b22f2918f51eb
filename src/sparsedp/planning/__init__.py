"""Size and error before any data is read, and the choice of a mechanism.

Uses mechanisms. Provides `plan`, `compare`, `error_curves`, and drafts of releases whose size is
still open.
"""
