"""The Gaussian process with a short chain of hyperparameters: a suggestion in a fraction of the time, a little worse."""

from functools import partial

from warmstart.bo.surrogates import GaussianProcess, SurrogateInfo

GP_QUICK = SurrogateInfo(
    "gp-quick", partial(GaussianProcess, burn_in=5, samples=3, sweeps=2), min_points=2, growth="cubic"
)
