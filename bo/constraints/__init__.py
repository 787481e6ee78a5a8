"""Models of unknown constraints: the probability that a configuration is valid."""

MEMORY = "memory"
"""Name of the constraint that an evaluation misses which runs out of memory."""
