"""Small helpers that know nothing of privacy: lazy attributes and progress.

Knows `errors` only. Hands out `cached_property` and what shows how far long work has come.
"""
