"""Leave-one-out evaluation: every dataset asks the others in turn, and every method answers."""
