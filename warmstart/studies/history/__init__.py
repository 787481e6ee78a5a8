"""Studies and histories: warm start, related datasets, time plans, recorded trials."""
