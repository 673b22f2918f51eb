"""Fuzzing: bytes that look for a way past the checks (docs/fuzzing.md). `python -m fuzz` runs every
target.

A target is a module with `check(data)`, which raises when a promise is broken, `seeds()`, and
perhaps `mutate()`. Only `drive` needs atheris, so that tests replay what was found without it.
"""
