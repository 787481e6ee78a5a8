"""A Gaussian process by dense solves under given lengthscales: what an acquisition function is tested on."""

import numpy as np

from warmstart.bo.surrogates import Prediction


def kernel(A, B, scale):
    return np.exp(-0.5 * np.sum((A[:, None] - B[None]) ** 2, axis=2) / scale**2)


class DenseGp:
    """Squared exponential, amplitude 1, mean 0; satisfies the protocols `Surrogate` and `Conditioned`."""

    def __init__(self, *, lengthscales=(0.3,), noise=0.0, conditional=()):
        self.lengthscales, self.noise = lengthscales, noise

    def fit(self, X, y, *, rng=None):
        self.X, self.Y = np.asarray(X, dtype=float), np.broadcast_to(y, (len(self.lengthscales), 1, len(y)))
        return self

    def condition(self, X, Y):
        told = DenseGp(lengthscales=self.lengthscales, noise=self.noise)
        told.X = np.concatenate([self.X, X])
        told.Y = np.concatenate([np.broadcast_to(self.Y, (*Y.shape[:2], self.Y.shape[2])), Y], axis=2)
        told.is_conditioned = True
        return told

    is_conditioned = False

    def moments(self, X):
        """Return mean `S x F x m`, variance `S x m`, and their gradients."""
        means, variances, dmeans, dvars = [], [], [], []
        for scale, Y in zip(self.lengthscales, self.Y, strict=True):
            inverse = self._inverse(scale)
            cross = kernel(X, self.X, scale)
            dcross = -cross[:, :, None] * (X[:, None] - self.X[None]) / scale**2
            means.append(Y @ inverse @ cross.T)
            variances.append(np.maximum(1.0 - np.sum(cross @ inverse * cross, axis=1), 1e-12))
            dmeans.append(np.einsum("fn,mnd->fmd", Y @ inverse, dcross))
            dvars.append(-2.0 * np.einsum("mn,mnd->md", cross @ inverse, dcross))
        return np.array(means), np.array(variances), np.array(dmeans), np.array(dvars)

    def _inverse(self, scale):
        return np.linalg.inv(kernel(self.X, self.X, scale) + (self.noise + 1e-12) * np.eye(len(self.X)))

    def predict(self, X):
        mean, var, _, _ = self.moments(X)
        if self.is_conditioned:
            return mean, var[:, None]
        return Prediction(mean[:, 0], var, np.full(len(mean), self.noise))

    def predict_gradient(self, X):
        mean, var, dmean, dvar = self.moments(X)
        if self.is_conditioned:
            return mean, var[:, None], dmean, dvar[:, None]
        return Prediction(mean[:, 0], var, np.full(len(mean), self.noise)), dmean[:, 0], dvar

    def sample_joint(self, X, n, *, rng):
        mean, _, _, _ = self.moments(X)
        noise = rng.standard_normal((len(mean), n, len(X)))
        for s, scale in enumerate(self.lengthscales):
            cross = kernel(X, self.X, scale)
            covariance = kernel(X, X, scale) - cross @ self._inverse(scale) @ cross.T
            noise[s] = noise[s] @ np.linalg.cholesky(covariance + 1e-10 * np.eye(len(X))).T
        return mean + noise

    def state(self):
        return {}

    def restore(self, state):
        pass
