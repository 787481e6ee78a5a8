"""Warm starts for hyperparameter search on image datasets."""
