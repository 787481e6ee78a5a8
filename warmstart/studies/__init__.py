"""Tuning runs: what is evaluated and how, how a run is kept, the loop between them."""
