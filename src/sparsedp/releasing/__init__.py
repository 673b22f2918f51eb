"""From counts to what may be published, and the release that answers for any key.

Uses every room to its left: inputs become cells, a plan is made, the budget is debited, parts are
built and written.
"""
