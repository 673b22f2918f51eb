"""The paper's experiments and the comparisons it could not make, one file per figure: `sparsedp
reproduce`.

Reading order: simulation (the paper's experiment) → study (cached pieces of work) → sections (what
a page consists of) → worked_example, error_bound, observed_error, error_distribution (Section 6 of
the paper) → workloads → table_one, growth, peers, corpus (measured comparisons) → identifiers,
judging, references, environments, drivers → users, users_page (people with many keys) → drawing →
page → reproduction (all of it, in order).

Uses the whole library; only the command line uses it. Everything here is simulated or public data,
drawn with the reproducible randomness, which protects nobody.
"""
