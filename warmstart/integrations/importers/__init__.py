"""Importers of other tools' runs, one tool a file."""
