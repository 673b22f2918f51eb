"""From a caller's keys to ids: containers, columns, canonical bytes, fingerprints, and keys that
are kept.

Uses `privacy` for its randomness. Provides `KeySpace`, `Partition` and one adapter for columns of
keys.
"""
