"""Side-by-side timings, as ratios against a peer in the same run."""
