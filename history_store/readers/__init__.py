"""Readers of image datasets, one layout a file."""
