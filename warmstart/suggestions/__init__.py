"""Suggestions for a dataset: query, location, strategy, answer, output formats."""
