"""Studies: objectives, state, execution, and what a study exchanges with a history."""
