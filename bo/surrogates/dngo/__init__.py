"""DNGO: Bayesian linear regression on the features of a network, for one task and for several."""
