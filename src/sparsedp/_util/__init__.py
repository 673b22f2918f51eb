"""Small helpers that have nothing to do with privacy: lazy attributes and progress.

Uses only `errors`. Provides `cached_property` and progress bars for long work.
"""
