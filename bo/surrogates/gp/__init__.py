"""Gaussian processes: for one task, and for several."""
