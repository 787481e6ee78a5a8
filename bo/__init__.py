"""Designs, strategies, surrogates and the search over a table: arrays in, configurations out."""
