"""Importers of runs of other tools, one tool a file."""
