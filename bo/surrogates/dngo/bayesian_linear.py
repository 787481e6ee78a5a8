"""Bayesian linear regression on features: the exact last layer of DNGO [Snoek2015scalable] §3.

w ~ N(0, I/α), y = Φw + noise of precision β. K = βΦᵀΦ + αI; the posterior is N(m, K⁻¹) with m = βK⁻¹Φᵀỹ. One triangular
factor and one singular value decomposition of D columns serve every α, every β and every target that is a combination
of given columns. So a step of a sampler costs O(D), whatever N is. Nothing is inverted and no determinant overflows.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True)
class Regression:
    """N rows of D features and T columns, whose combinations are targets, reduced to sizes that do not depend on N.

    Φ = U S Vᵀ. Weights are given in the eigenbasis of ΦᵀΦ: multiply features by `vectors` first.

    Attributes:
        n: rows.
        vectors: V, `D x D`.
        squares: S², `D`; 0 beyond the number of rows.
        moments: VᵀΦᵀT, `D x T`.
        inside: UᵀT, `min(N, D) x T`, the part of the columns in the span of the features.
        outside: `≤ T x T`; its combinations have the lengths of the targets' parts outside this span.
    """

    n: int
    vectors: Floats
    squares: Floats
    moments: Floats
    inside: Floats
    outside: Floats

    @classmethod
    def of(cls, features: Floats, columns: Floats) -> Self:
        """Reduce `N x D` features and `N x T` columns, N ≥ 0."""
        n, d = features.shape
        triangle = cast("Floats", np.linalg.qr(np.hstack([features, columns]), mode="r"))
        left, singular, right = np.linalg.svd(triangle[:d, :d])
        squares = np.zeros(d)
        squares[: len(singular)] = np.square(singular)
        inside = left.T @ triangle[:d, d:]
        moments = np.zeros((d, columns.shape[1]))
        moments[: len(singular)] = singular[:, None] * inside[: len(singular)]
        return cls(n, right.T, squares, moments, inside, triangle[d:, d:])

    def explained(self, combination: Floats) -> tuple[Floats, float]:
        """Split the squared length of the target columns·combination (`T`): by direction, `min(N, D)`, and the rest."""
        rest = self.outside @ combination
        return np.square(self.inside @ combination), float(rest @ rest)

    def evidence(self, explained: tuple[Floats, float], alpha: float, beta: float) -> float:
        """Compute log p(ỹ | α, β), the target split by `explained`."""
        squares, rest = explained
        precision = beta * self.squares + alpha
        misfit = beta * (rest + alpha * float((squares / precision[: len(squares)]).sum()))
        return 0.5 * (
            len(precision) * math.log(alpha)
            + self.n * (math.log(beta) - LOG_2PI)
            - misfit
            - float(np.log(precision).sum())
        )

    def posterior(self, combinations: Floats, alpha: Floats, beta: Floats) -> "Posterior":
        """Infer the weights under S samples of a target (`S x T`), α and β (`S`)."""
        precision = beta[:, None] * self.squares + alpha[:, None]
        moments = combinations @ self.moments.T
        return Posterior(self.vectors, (beta[:, None] * moments / precision)[:, None], precision)

    def posterior_with(
        self, combinations: Floats, alpha: Floats, beta: Floats, *, features: Floats, targets: Floats
    ) -> "Posterior":
        """Infer the weights with J more rows, by one decomposition for all samples and fantasies.

        Args:
            combinations: `S x T`.
            alpha: `S`.
            beta: `S`.
            features: `J x D` of the new rows.
            targets: `S x F x J` of the new rows.
        """
        root = np.sqrt(self.squares)[:, None] * self.vectors.T
        _, singular, right = np.linalg.svd(np.vstack([root, features]), full_matrices=False)
        precision = beta[:, None] * np.square(singular) + alpha[:, None]
        data_moments = combinations @ (right @ (self.vectors @ self.moments)).T
        moments = data_moments[:, None] + targets @ (features @ right.T)
        return Posterior(right.T, beta[:, None, None] * moments / precision[:, None], precision)


@dataclass(frozen=True, slots=True)
class Posterior:
    """Normal posteriors of D weights under S samples of α and β, given F targets each.

    Attributes:
        vectors: V, `D x D`, the basis in which all covariances are diagonal.
        mean: `S x F x D` in that basis.
        precision: `S x D` in that basis.
    """

    vectors: Floats
    mean: Floats
    precision: Floats

    def moved(self, weights: Floats) -> "Posterior":
        """Add `D` weights in the basis of the features to the mean."""
        return replace(self, mean=self.mean + weights @ self.vectors)

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Predict at `M x D` features: mean `S x F x M`, latent variance `S x M`."""
        rotated = features @ self.vectors
        return self.mean @ rotated.T, (1.0 / self.precision) @ np.square(rotated).T

    def gradient(self, features: Floats, jacobian: Floats) -> tuple[Floats, Floats]:
        """Compute the gradients of the output of `predict`.

        Args:
            features: `M x D`.
            jacobian: `M x d x D`, of the features.

        Returns: of the mean `S x F x M x d`, of the variance `S x M x d`.
        """
        rotated, slopes = features @ self.vectors, jacobian @ self.vectors
        dmean = np.einsum("sfi,mki->sfmk", self.mean, slopes, optimize=True)
        dvar = 2.0 * np.einsum("si,mki->smk", 1.0 / self.precision, slopes * rotated[:, None], optimize=True)
        return dmean, dvar

    def joint_gradient(self, features: Floats, jacobian: Floats) -> tuple[Floats, Floats]:
        """Compute the covariance `S x M x M` of M points, and its gradient by the first one, `S x M x M x d`."""
        rotated, slopes = features @ self.vectors, jacobian @ self.vectors
        spread = rotated / self.precision[:, None]
        return spread @ rotated.T, np.einsum("mki,sni->smnk", slopes, spread, optimize=True)

    def draw(self, features: Floats, n: int, *, rng: np.random.Generator) -> Floats:
        """Draw n functions at `M x D` features: `S x n x M`, for F = 1."""
        noise = rng.standard_normal((len(self.mean), n, features.shape[1]))
        weights = self.mean + noise / np.sqrt(self.precision)[:, None]
        drawn: Floats = weights @ (features @ self.vectors).T
        return drawn


def evidence_and_gradient(
    features: Floats, y: Floats, log_alpha: float, log_beta: float
) -> tuple[float, Floats, Floats]:
    """Compute the log evidence, and its gradient with respect to `N x D` features and to (log α, log β).

    Both follow from the posterior at fixed weights, because m maximises the exponent: dE/dΦ = β(ỹ - Φm)mᵀ - βΦK⁻¹.
    """
    from scipy.linalg import cho_factor, cho_solve

    n, d = features.shape
    alpha, beta = math.exp(log_alpha), math.exp(log_beta)
    if n < d:  # K⁻¹Φᵀ = Φᵀ(βΦΦᵀ + αI)⁻¹
        factor: Any = cho_factor(beta * features @ features.T + alpha * np.eye(n), lower=True)
        spread = cho_solve(factor, features)  # ΦK⁻¹
        weights = beta * (spread.T @ y)
    else:
        factor = cho_factor(beta * features.T @ features + alpha * np.eye(d), lower=True)
        weights = cho_solve(factor, beta * (features.T @ y))
        spread = cho_solve(factor, features.T).T
    residual = y - features @ weights
    misfit, size = float(residual @ residual), float(weights @ weights)
    used = beta * float(np.vdot(spread, features))  # β tr(ΦK⁻¹Φᵀ), the effective number of weights
    value = 0.5 * (min(n, d) * log_alpha + n * (log_beta - LOG_2PI) - beta * misfit - alpha * size) - float(
        np.log(factor[0].diagonal()).sum()
    )
    slope = beta * (np.outer(residual, weights) - spread)
    return value, slope, 0.5 * np.array([used - alpha * size, n - used - beta * misfit])
