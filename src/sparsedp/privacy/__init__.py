"""What is promised, and where randomness comes from: laws of noise, neighbours, contributions, bounds.

Knows only errors and helpers. Hands out exact integer laws with their losses, `Neighbours` and `Contribution` (between
which inputs a guarantee holds), secure randomness, and the paper's bounds on errors.
"""
