"""Budgets: a ledger of what was spent, the file that keeps it, what releases cost together, and the
debit before noise is drawn.

Uses ε, δ and the laws of noise as numbers, and files. Provides `Ledger` and `spending`.
"""
