"""One of each that warmstart can be given more of."""
