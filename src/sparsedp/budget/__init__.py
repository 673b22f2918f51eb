"""Budgets: a ledger of what was spent, the file that keeps it, and the debit before noise is drawn.

Uses ε and δ as numbers, and files. Provides `Ledger` and `spending`.
"""
