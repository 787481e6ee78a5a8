"""Studies: objectives, state, execution, results, and exchange with a history."""
