"""Budgets: a ledger of what was spent, the file that keeps it, and the debit before noise is drawn.

Knows ε and δ as numbers, and files. Hands out `Ledger` and `spending`.
"""
