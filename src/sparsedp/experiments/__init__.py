"""The paper's experiments, one file per figure. Simulations only: nothing here touches private data."""
