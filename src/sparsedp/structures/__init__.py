"""What a release is made of: tables, thresholds, ladders, embeddings, linear systems, and how they
are decoded.

Uses laws, randomness and ids, and no mechanisms.
Each structure states its own exact loss, or its probability of failure.
"""
