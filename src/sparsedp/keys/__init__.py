"""From a caller's keys to ids: containers, columns, canonical bytes, fingerprints, and keys that are kept.

Knows `privacy` for its randomness. Hands out `KeySpace`, `Partition` and one adapter for columns of keys.
"""
