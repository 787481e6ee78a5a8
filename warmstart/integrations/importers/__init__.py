"""Runs of other tools, one importer a file."""
