"""From a dataset to configurations: the query, its answer, and how the answer is told."""
