"""Size and error before any data is touched, and which mechanism when.

Knows mechanisms. Hands out `plan`, `compare`, `error_curves`, and drafts of releases whose size is still open.
"""
