"""Unknown constraints: the probability that a configuration is valid."""
