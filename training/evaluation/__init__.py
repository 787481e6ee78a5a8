"""Honest comparison: every dataset asks the others in turn, and every rival answers."""
