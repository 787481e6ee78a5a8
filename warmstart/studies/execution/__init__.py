"""Execution of trials: workers and trial processes."""
