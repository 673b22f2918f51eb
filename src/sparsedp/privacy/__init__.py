"""What is promised, and where randomness comes from: laws of noise, neighbours, contributions,
bounds.

Uses only errors and helpers. Provides exact integer laws with their losses, `Neighbours` and
`Contribution` (the inputs between which a guarantee holds), secure randomness, and the paper's
bounds on errors.
"""
