"""Designs, strategies and (later) surrogates: arrays and spaces in, configurations out."""
