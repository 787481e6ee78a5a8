"""Last layer of DNGO: weights in closed form, precisions and prior mean by slice sampling."""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.dngo.bayesian_linear import LOG_2PI, Posterior, Regression
from warmstart.bo.surrogates.dngo.layer_prior import LayerPrior
from warmstart.bo.surrogates.slice_sampling import slice_step

Floats = NDArray[np.float64]

CENTRE, CENTRE_SD = 0.5, 0.25
"""c_k ~ N(0.5, 0.25²) in [0, 1]; λ ~ N(0, 1); Λ_k ~ half-horseshoe of scale 1."""
LOG_CURVATURE = (-20.0, 8.0)
"""Bounds of log Λ_k."""
ASYMPTOTIC_ABOVE = 500.0


def bowl_columns(X: Floats) -> Floats:
    """Compute the columns 1, a, ax, ax² of `n x d` points: `n x (1 + 3d)`."""
    active = np.isfinite(X).astype(np.float64)
    x = np.nan_to_num(X)
    return np.hstack([np.ones((len(X), 1)), active, x, np.square(x)])


def bowl_coefficients(eta: Floats) -> Floats:
    """Convert η = (λ, c_1..d, log Λ_1..d), `... x (1 + 2d)`, to coefficients of the columns of `bowl_columns`, `... x (1 + 3d)`."""
    d = eta.shape[-1] // 2
    centre, curvature = eta[..., 1 : 1 + d], np.exp(eta[..., 1 + d :])
    return np.concatenate([eta[..., :1], curvature * np.square(centre), -2.0 * curvature * centre, curvature], axis=-1)


def bowl_slopes(X: Floats, eta: Floats) -> Floats:
    """Compute the gradients of `S` bowls (`S x (1 + 2d)`) at `n x d` points: `S x n x d`, 0 in inactive columns."""
    d = X.shape[1]
    centre, curvature = eta[:, None, 1 : 1 + d], np.exp(eta[:, None, 1 + d :])
    return np.nan_to_num(2.0 * curvature * (X - centre))


def initial_bowl(d: int) -> Floats:
    """Return the initial bowl of sampling, which is also the fixed one: λ = 0, c = 0.5, Λ = 1."""
    return np.concatenate([[0.0], np.full(d, CENTRE), np.zeros(d)])


def log_bowl_density(eta: Floats) -> float:
    """Compute the log prior of η, up to a constant, with the Jacobian of log Λ; -inf outside the bounds."""
    d = len(eta) // 2
    centre, log_curvature = eta[1 : 1 + d], eta[1 + d :]
    if (
        min(
            centre.min(),
            1.0 - centre.max(),
            log_curvature.min() - LOG_CURVATURE[0],
            LOG_CURVATURE[1] - log_curvature.max(),
        )
        < 0.0
    ):
        return -math.inf
    off = (centre - CENTRE) / CENTRE_SD
    return -0.5 * float(eta[0] ** 2 + off @ off) + float(
        (log_half_horseshoe(np.exp(log_curvature)) + log_curvature).sum()
    )


def log_half_horseshoe(x: Floats) -> Floats:
    """Compute the log density of the half-horseshoe of scale 1 [Carvalho2010horseshoe] at x > 0.

    p(x) = 2 (2π³)^(-1/2) exp(x²/2) E1(x²/2), E1 the exponential integral.
    """
    from scipy.special import exp1

    z = 0.5 * np.square(x)
    near, far = np.minimum(z, ASYMPTOTIC_ABOVE), np.maximum(z, ASYMPTOTIC_ABOVE)
    tail = np.log1p((-1.0 + (2.0 - 6.0 / far) / far) / far) - np.log(far)
    value: Floats = np.where(z < ASYMPTOTIC_ABOVE, near + np.log(exp1(near)), tail)
    return value + math.log(2.0) - 0.5 * math.log(2.0 * math.pi**3)


PriorMean = Literal["none", "quadratic", "fixed"]

LOCATION, SCALE = (0.0, 6.0), (2.0, 3.0)
"""log α ~ N(0, 2²), log β ~ N(6, 3²), for standardised targets."""
RELATED_SCALE = (1.0, 2.0)
"""Standard deviations of both with a prior from related tasks."""
LOWER, UPPER = (-12.0, -6.0), (12.0, 18.0)
WIDTHS = (2.0, 2.0, 1.0, 0.5, 2.0)
"""First brackets of the slice sampler: log α, log β, λ, c, log Λ."""
THIN = 3
SMALLEST_SHARE = 1e-9
"""Least share of a target that the other targets have to explain."""


class LinearHead:
    """S samples of (α, β, η) and the weights' posterior under each.

    Attributes:
        alpha: `S`, precisions of the weights.
        beta: `S`, precisions of the noise.
        eta: `S x (1 + 2d)`, prior means.
    """

    def __init__(
        self,
        features: Floats,
        X: Floats,
        z: Floats,
        *,
        mean: PriorMean,
        samples: int,
        burn_in: int,
        rng: np.random.Generator,
        prior: LayerPrior | None = None,
    ) -> None:
        """Sample precisions and prior mean from `N x D` features of `N x d` points and `N` targets.

        Args:
            features: `N x D`; with a prior, multiplied by its root.
            X: `N x d`.
            z: `N`.
            mean: η.
            samples: S.
            burn_in: discarded sweeps.
            rng: draws the samples.
            prior: of the weights and the noise, from related tasks.
        """
        self._location, self._scale, self._weights = LOCATION, SCALE, np.zeros(features.shape[1])
        if prior is not None:
            self._location, self._scale, self._weights = (0.0, prior.log_beta), RELATED_SCALE, prior.centre
        self._regression = Regression.of(features, np.column_stack([z - features @ self._weights, bowl_columns(X)]))
        self._mean: PriorMean = mean
        d = X.shape[1]
        state = np.concatenate([self._location, initial_bowl(d)])
        if mean == "none":
            state[3 + d :] = -np.inf  # no curvature: λ is the weight of the constant feature
        widths = np.repeat(WIDTHS, [1, 1, 1, d, d])[: len(state) if mean == "quadratic" else 2]
        draws = []
        for step in range(1, burn_in + THIN * samples + 1):
            self._sweep(state, widths, rng)
            if step > burn_in and (step - burn_in) % THIN == 0:
                draws.append(state.copy())
        states = np.array(draws)
        self.alpha, self.beta, self.eta = np.exp(states[:, 0]), np.exp(states[:, 1]), states[:, 2:]
        posterior = self._regression.posterior(self._combination(self.eta), self.alpha, self.beta)
        self.posterior = posterior.moved(self._weights)

    def offset(self, X: Floats) -> Floats:
        """Compute the prior means at `m x d` points: `S x m`, or `S x 1` without one."""
        if self._mean == "none":
            return np.zeros((len(self.eta), 1))
        result: Floats = bowl_coefficients(self.eta) @ bowl_columns(X).T
        return result

    def slopes(self, X: Floats) -> Floats:
        """Compute the gradients of the prior means at `m x d` points: `S x m x d`."""
        return bowl_slopes(X, self.eta)

    def condition(self, features: Floats, targets: Floats) -> Posterior:
        """Infer the weights with `J x D` more features and their targets `S x F x J`, without the prior mean."""
        combination = self._combination(self.eta)
        rest = targets - features @ self._weights
        posterior = self._regression.posterior_with(combination, self.alpha, self.beta, features=features, targets=rest)
        return posterior.moved(self._weights)

    def left_out(self, features: Floats, X: Floats, z: Floats) -> Floats:
        """Compute the leave-one-out log densities of the `N` targets, at their features and points: `S x N`."""
        mean, var = self.posterior.predict(features)
        share = np.maximum(
            1.0 - var * self.beta[:, None], SMALLEST_SHARE
        )  # a residual shrinks by its target's own leverage
        residual = (z - mean[:, 0] - self.offset(X)) / share
        precision = self.beta[:, None] * share
        density: Floats = 0.5 * (np.log(precision) - LOG_2PI - precision * np.square(residual))
        return density

    def _combination(self, eta: Floats) -> Floats:
        """Return the target z - η as a combination of columns."""
        return np.concatenate([np.ones((*eta.shape[:-1], 1)), -bowl_coefficients(eta)], axis=-1)

    def _sweep(self, state: Floats, widths: Floats, rng: np.random.Generator) -> None:
        """Update every coordinate once, in place and in random order; the posterior is invariant."""
        regression = self._regression
        explained = regression.explained(self._combination(state[2:]))

        def log_density(k: int) -> float:
            if k < 2:
                if not LOWER[k] <= state[k] <= UPPER[k]:
                    return -math.inf
                prior = -0.5 * ((float(state[k]) - self._location[k]) / self._scale[k]) ** 2
                return prior + regression.evidence(explained, math.exp(state[0]), math.exp(state[1]))
            prior = log_bowl_density(state[2:])
            if prior == -math.inf:
                return prior
            split = regression.explained(self._combination(state[2:]))
            return prior + regression.evidence(split, math.exp(state[0]), math.exp(state[1]))

        for k in rng.permutation(len(widths)).tolist():
            start = float(state[k])

            def along(offset: float, k: int = k, start: float = start) -> float:
                state[k] = start + offset
                return log_density(k)

            offset, _ = slice_step(along, log_density(k), rng=rng, width=float(widths[k]))
            state[k] = start + offset
            if k >= 2:
                explained = regression.explained(self._combination(state[2:]))
