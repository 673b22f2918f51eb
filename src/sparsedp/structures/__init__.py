"""What a release is made of: tables, thresholds, ladders, embeddings, linear systems, and how they are decoded.

Knows laws, randomness and ids, and nothing of mechanisms.
Each structure states its own exact loss, or its chance of failure.
"""
