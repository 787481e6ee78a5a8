"""Models of unknown constraints: the probability that a configuration is valid."""
