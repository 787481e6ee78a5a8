"""Acquisition functions: what one more evaluation promises, fantasies of pending ones, cost, and the search for the best point."""
