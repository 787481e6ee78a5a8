"""Exchange of a study with a history: warm start, related datasets, recorded trials."""
