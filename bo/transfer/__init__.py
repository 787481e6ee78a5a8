"""Transfer from a history of errors to a new dataset: initial designs, strategies, calibration, regret, novelty."""
