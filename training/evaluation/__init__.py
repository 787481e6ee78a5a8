"""Leave-one-out evaluation: every dataset in turn is a query to the others, which every method answers."""
