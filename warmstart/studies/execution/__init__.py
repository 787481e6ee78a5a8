"""Execution of trials: workers, and the processes of trials."""
