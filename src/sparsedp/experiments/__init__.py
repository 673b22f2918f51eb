"""The paper's experiments and the comparisons it could not make, one file per figure: `sparsedp reproduce`.

Reading order: simulation (the paper's experiment) → study (pieces of work that are remembered) → sections (what a page
is made of) → worked_example, error_bound, observed_error, error_distribution (Section 6 of the paper) → workloads →
table_one, growth, peers, corpus (measured comparisons) → drawing → page → reproduction (all of it, in order).

Knows the whole library, and is known by the command line alone. Everything here is simulated or public data, drawn with
the reproducible randomness: nothing protects anybody.
"""
