"""DNGO: Bayesian linear regression on a network's last hidden layer [Snoek2015scalable].

The cost grows linearly with the number of evaluations; that of a Gaussian process grows with their cube.

Up to two points for each feature, trained networks over-fit: unneeded features vanish, a narrow minimum counts as
noise, and nothing is expected elsewhere. The weights then stay as drawn. Only the scale of every input is fitted, by
marginal likelihood, like the lengthscales of a process, and all networks share one last layer.

With more points, networks are trained by least squares, and then by the marginal likelihood of a last layer. The errors
of least squares alone would count as noise, and the search would stall in a valley.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.surrogates.base import (
    Prediction,
    Standardised,
    Task,
    checked_data,
    checked_fantasies,
    checked_points,
    points_of_fit,
)
from warmstart.bo.surrogates.dngo.bayesian_linear import Posterior
from warmstart.bo.surrogates.dngo.feature_network import (
    Plan,
    draw_point_weights,
    maximise_evidence,
    scale_inputs,
    side_by_side,
    train,
)
from warmstart.bo.surrogates.dngo.layer_prior import LayerPrior
from warmstart.bo.surrogates.dngo.linear_head import LinearHead, PriorMean
from warmstart.bo.surrogates.inputs import Inputs
from warmstart.bo.surrogates.network import Activation, Network
from warmstart.bo.surrogates.tasks import Pool
from warmstart.history_store.errors import UsageError

Floats = NDArray[np.float64]
Training = Literal["auto", "map", "evidence"]
Shape = Literal["arc", "line"]

ACTIVATIONS: Mapping[str, tuple[Activation, Activation]] = MappingProxyType(
    {"tanh": ("tanh", "tanh"), "relu": ("relu", "relu"), "relu-tanh": ("relu", "tanh")}
)
"""Activations of the inner and of the last hidden layer; with ReLU alone, variances explode away from the data (Fig.
2)."""
SMALLEST_VAR = 1e-12
"""Predicted variances of standardised targets are at least this."""
TRAINED_BEYOND = 2
"""Points for each feature up to which weights stay as drawn."""
BLOCK = 512
"""Points predicted at a time: their activations stay in the cache."""
EVIDENCE_SHARE = 0.3
"""Steps of training by evidence, as a share of those by least squares."""


@dataclass(frozen=True, slots=True)
class Features:
    """Features of K networks, as maps from points.

    Attributes:
        inputs: from points to inputs of the networks.
        context: further inputs that describe the task, `K x 1 x c`, or `K x M x c` with one for each point.
        network: whose outputs are the features.
        theta: `K x P`, float64.
        bias: whether a constant feature is appended.
        joined: whether the features of all networks form one map: K = 1 below.
        root: `K x D x D`, final factor of the features; None = the unit matrix.
    """

    inputs: Inputs
    context: Floats
    network: Network
    theta: Floats
    bias: bool
    joined: bool = False
    root: Floats | None = None

    @property
    def d(self) -> int:
        """Return the number of columns of points."""
        return self.inputs.d

    def values(self, X: Floats) -> Floats:
        """Compute `K x M x D` features of `M x d` points."""
        return self.of_inputs(self._network_inputs(X))

    def of_inputs(self, rows: Floats) -> Floats:
        """Compute `K x M x D` features of `M x in` inputs of the networks."""
        return self._assembled(self.network.forward(self.theta, rows)[-1], 1.0)

    def values_and_jacobian(self, X: Floats) -> tuple[Floats, Floats]:
        """Compute features and their derivatives `K x M x d x D`."""
        layers = self.network.forward(self.theta, self._network_inputs(X))
        jacobian = np.moveaxis(self.network.jacobian(self.theta, layers)[:, :, : self.inputs.width], 3, 0)
        slopes = np.moveaxis(self.inputs.pull_back(X, jacobian), 0, 3)
        return self._assembled(layers[-1], 1.0), self._assembled(slopes, 0.0)

    def _network_inputs(self, X: Floats) -> Floats:
        """Compute the inputs of the networks: `M x in`, or `K x M x in`."""
        rows = self.inputs(X)
        k, _, c = self.context.shape
        if not c:
            return rows
        m = len(rows)
        return np.concatenate(
            [np.broadcast_to(rows, (k, *rows.shape)), np.broadcast_to(self.context, (k, m, c))], axis=2
        )

    def _assembled(self, values: Floats, constant: float) -> Floats:
        """Join the features if they are joined, append the constant one if there is one, and multiply by the root."""
        if self.joined:
            values = side_by_side(values)[None]
        if self.bias:
            values = np.concatenate([values, np.full((*values.shape[:-1], 1), constant)], axis=-1)
        if self.root is None:
            return values
        rotated: Floats = values @ (self.root if values.ndim == 3 else self.root[:, None])
        return rotated


class DNGO:
    """Networks with a Bayesian last layer, whose precisions and prior mean are slice-sampled.

    Use it for hundreds to thousands of evaluations: the cost is linear. Not for a few dozen: `GaussianProcess` is exact
    and affordable there.

    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> model = DNGO(networks=2, burn_in=10).fit(x, (x[:, 0] - 0.3) ** 2, rng=np.random.default_rng(0))
    >>> float(np.abs(model.predict(x).mean.mean(axis=0) - (x[:, 0] - 0.3) ** 2).max()) < 0.1
    True

    Every fit depends on its generator alone. The S samples are those of all networks together. The features of a
    network that fits its points perfectly do so too, and its last layer then trusts them too much. Therefore each
    network has its own last layer and is trained on a part of the points; the last layer uses all. Without this,
    predicted variances away from the data are thousands of times too small.
    """

    _name = "DNGO"

    def __init__(
        self,
        *,
        conditional: Sequence[int] = (),
        hidden: Sequence[int] = (50, 50, 50),
        activation: str = "tanh",
        inputs: Shape = "arc",
        prior_mean: PriorMean = "none",
        training: Training = "auto",
        networks: int = 5,
        samples: int = 2,
        burn_in: int = 50,
        steps: int = 500,
        epochs: int = 500,
        decay: float = 0.01,
        held_out: float = 0.2,
    ) -> None:
        """Build an unfitted surrogate.

        Args:
            conditional: columns of the points that may be NaN, inactive.
            hidden: widths of the hidden layers; the last is the number of features.
            activation: a name in `ACTIVATIONS`.
            inputs: `arc`: every column is a quarter of a circle. Then corners are as far from the origin as other
                points, and predictions there are not more certain. `line`: unconditional columns are in [-1, 1], as
                published; networks that are trained on related tasks use it.
            prior_mean: `quadratic`: a bowl whose centre and curvature are inferred. `fixed`: (x - 0.5)² in every
                dimension. `none`: a constant.
            training: `map`: least squares. `evidence`: then the marginal likelihood of the last layer; twice the cost.
                `auto`: up to two points for each feature (related tasks included), only the scales of the inputs, by
                marginal likelihood; with more, `evidence`, or `map` with related tasks. On lines it is `map` (untrained
                networks without biases are odd functions there).
            networks: their number.
            samples: of hyperparameters, for each network.
            burn_in: discarded sweeps of their chain.
            steps: least number of training steps.
            epochs: least number of passes through the data.
            decay: variance of the noise, in units of the targets', for weights N(0, 1/fan-in).
            held_out: share of the points that a network is not trained on.

        Raises:
            UsageError: when a name or a number does not fit.
        """
        for option, name, choices in (
            ("activation", activation, ACTIVATIONS),
            ("inputs", inputs, get_args(Shape)),
            ("prior_mean", prior_mean, get_args(PriorMean)),
            ("training", training, get_args(Training)),
        ):
            if name not in choices:
                msg = f"{self._name}: expected {option} among {', '.join(choices)}, got {name!r}. Leave it out for the default."
                raise UsageError(msg)
        if min([networks, samples, steps, len(hidden), *hidden]) < 1 or min(burn_in, epochs, decay) < 0:
            msg = f"{self._name}: expected positive hidden sizes, networks, samples and steps and no negative burn_in, epochs or decay, got {list(hidden)}, {networks}, {samples}, {steps}, {burn_in}, {epochs} and {decay}. Leave them out for the defaults."
            raise UsageError(msg)
        if not 0.0 <= held_out < 1.0:
            msg = f"{self._name}: expected held_out in [0, 1), got {held_out}. Leave it out for the default."
            raise UsageError(msg)
        self._conditional, self._hidden = tuple(conditional), tuple(hidden)
        inner, last = ACTIVATIONS[activation]
        self._activations: tuple[Activation, ...] = (*[inner] * (len(hidden) - 1), last)
        self._shape, self._mean = inputs, prior_mean
        self._plan = Plan(networks, steps, epochs, decay, held_out)
        self._training, self._samples, self._burn_in = training, samples, burn_in
        self._related: Sequence[Task] = ()
        self._metas, self._least = np.zeros((1, 0)), 1
        self._features: Features | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Train on `n x d` points and `n` ≥ 1 targets; refusals as in `checked_data`."""
        points, targets = checked_data(X, y, conditional=self._conditional, least=self._least)
        pool = Pool.of(self._related, points, targets)
        d = points.shape[1]
        few = len(pool.z) <= TRAINED_BEYOND * self._plan.stack * self._hidden[-1]
        auto = self._training == "auto" and self._shape == "arc"
        drawn = auto and few
        arcs = drawn or (self._shape == "arc" and not self._related)
        inputs = Inputs(d, range(d) if arcs else self._conditional)
        rows = np.hstack([inputs(pool.X), self._metas[pool.task]])
        sizes = (rows.shape[1], *self._hidden)
        body = Network(sizes, self._activations)
        # The pool ends with the task at hand.
        target_rows = slice(len(pool.z) - len(targets), None)
        unseen = np.ones((1, len(pool.z)), dtype=np.bool_)
        if drawn:
            counts = np.bincount(pool.task, minlength=pool.n_tasks).tolist()
            theta = body.initial(self._plan.stack, rng=rng, dtype=np.float64)
            theta = scale_inputs(body, theta, X=rows, z=pool.z, column=inputs.column, counts=counts)
        else:
            whole = Network((*sizes, pool.n_tasks), (*self._activations, "linear"))
            task = pool.task if self._related else None
            point_weights = draw_point_weights(self._plan, len(pool.z), rng)
            unseen = point_weights == 0.0
            theta = train(whole, rows, pool.z, plan=self._plan, rng=rng, task=task, point_weights=point_weights)
            # The output layer is dropped: a Bayesian regression takes its place.
            theta = theta[:, : body.n_weights].astype(np.float64)
            if self._training == "evidence" or (auto and not self._related):
                steps = max(1, int(EVIDENCE_SHARE * self._plan.steps))
                theta = maximise_evidence(body, theta, X=rows, z=pool.z, steps=steps, training_rows=~unseen)
        self._unseen = unseen[:, target_rows]
        context = np.broadcast_to(self._metas[-1], (self._plan.stack, 1, self._metas.shape[1]))
        features = Features(
            inputs, context, body, theta, self._mean != "quadratic" or bool(self._related), joined=drawn
        )
        priors: Sequence[LayerPrior | None] = [None] * (1 if drawn else self._plan.stack)
        if self._related:  # in units of this prior, weights are standard normal
            bases = features.of_inputs(rows)
            priors = learned = [_related_prior(basis, pool) for basis in bases]
            features = replace(features, root=np.array([prior.root for prior in learned]))
        self._features, maps = features, features.values(points)
        self._heads = [
            LinearHead(
                basis,
                points,
                pool.z[target_rows],
                mean=self._mean,
                samples=self._samples * self._plan.stack // len(maps),
                burn_in=self._burn_in,
                rng=rng,
                prior=prior,
            )
            for basis, prior in zip(maps, priors, strict=True)
        ]
        self._targets = Standardised(np.zeros(0), pool.mean, pool.sd)
        return self

    def predict(self, X: ArrayLike) -> Prediction:
        """Predict the latent function at `m x d` points under every sample.

        Raises:
            UsageError: before a fit, or when the points have other dimensions.
            DataError: when a point is not finite.
        """
        points, features = self._checked(X)
        mean, var = predict(self._heads, [head.posterior for head in self._heads], points, features)
        return self._prediction(mean[:, 0], var)

    def predict_gradient(self, X: ArrayLike) -> tuple[Prediction, Floats, Floats]:
        """Predict, with the gradients `S x m x d` of mean and variance; refusals as in `predict`."""
        points, features = self._checked(X)
        mean, var, dmean, dvar = predict_gradient(
            self._heads, [head.posterior for head in self._heads], points, features
        )
        sd = self._targets.sd
        return self._prediction(mean[:, 0], var), sd * dmean[:, 0], sd**2 * dvar

    def joint_gradient(self, X: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
        """Predict J points jointly, with gradients `S x J x d` and `S x J x J x d`; refusals as in `predict`."""
        points, features = self._checked(X)
        prediction, dmean, _ = self.predict_gradient(points)
        parts = [
            head.posterior.joint_gradient(basis, slopes)
            for head, basis, slopes in zip(self._heads, *features.values_and_jacobian(points), strict=True)
        ]
        covariance, dcovariance = (np.concatenate(part) for part in zip(*parts, strict=True))
        sd = self._targets.sd
        return prediction.mean, sd**2 * covariance, dmean, sd**2 * dcovariance

    def sample_joint(self, X: ArrayLike, n: int, *, rng: np.random.Generator) -> Floats:
        """Draw n values of the latent function per sample, jointly at J points, `S x n x J`; raises as `predict`."""
        points, features = self._checked(X)
        drawn = [
            head.posterior.draw(basis, n, rng=rng) + head.offset(points)[:, None]
            for head, basis in zip(self._heads, features.values(points), strict=True)
        ]
        return self._targets.mean + self._targets.sd * np.concatenate(drawn)

    def condition(self, X: ArrayLike, Y: ArrayLike) -> "ConditionedDNGO":
        """Return the surrogate conditioned on targets `S x F x J` at J pending points; the features do not change."""
        points, features = self._checked(X)
        samples = sum(len(head.alpha) for head in self._heads)
        _, targets = checked_fantasies(X, Y, samples=samples, conditional=self._conditional)
        z = np.split((targets - self._targets.mean) / self._targets.sd, len(self._heads))
        posteriors = [
            head.condition(basis, target_z - head.offset(points)[:, None])
            for head, basis, target_z in zip(self._heads, features.values(points), z, strict=True)
        ]
        return ConditionedDNGO(self._heads, posteriors, features, self._targets, self._conditional)

    def left_out(self, X: ArrayLike, y: ArrayLike) -> float:
        """Compute the mean leave-one-out log density of the targets of the fit.

        A trained network predicts only the targets that it was not trained on.

        Args:
            X: `n x d`, the points of the fit.
            y: `n`, their targets.

        Returns: NaN when trained networks used all points.
        """
        points, features = self._checked(X)
        z = (np.asarray(y, dtype=np.float64) - self._targets.mean) / self._targets.sd
        parts = [
            head.left_out(basis, points, z)[:, unseen].ravel()
            for head, basis, unseen in zip(self._heads, features.values(points), self._unseen, strict=True)
        ]
        densities = np.concatenate(parts)
        return float(densities.mean()) - math.log(self._targets.sd) if len(densities) else math.nan

    def state(self) -> dict[str, Any]:
        """Return an empty state: no fit continues another."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Do nothing: a state is empty."""

    def _checked(self, X: ArrayLike) -> tuple[Floats, Features]:
        """Check points against the columns of the fit."""
        return points_of_fit(X, self._features, self._name, conditional=self._conditional)

    def _prediction(self, mean: Floats, var: Floats) -> Prediction:
        """Return predictions in the units of the targets."""
        sd = self._targets.sd
        noise = np.concatenate([1.0 / head.beta for head in self._heads])
        return Prediction(self._targets.mean + sd * mean, sd**2 * var, sd**2 * noise)


def _related_prior(features: Floats, pool: Pool) -> LayerPrior:
    """Estimate the prior of a last layer from the related tasks of a pool and the features of all its points."""
    is_related = pool.task < pool.n_tasks - 1
    return LayerPrior.of(
        features[is_related], pool.z[is_related], pool.task[is_related], pool.n_tasks - 1, units=pool.units
    )


@dataclass(frozen=True, slots=True)
class ConditionedDNGO:
    """DNGO conditioned on fantasies. The first two fields have one item for each network."""

    heads: Sequence[LinearHead]
    posteriors: Sequence[Posterior]
    features: Features
    targets: Standardised
    conditional: Sequence[int]

    def predict(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Predict `m x d` points: mean `S x F x m`, latent variance `S x 1 x m`."""
        points = checked_points(X, conditional=self.conditional)
        mean, var = predict(self.heads, self.posteriors, points, self.features)
        return self.targets.mean + self.targets.sd * mean, self.targets.sd**2 * var[:, None]

    def predict_gradient(self, X: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
        """Predict, with the gradients of mean, `S x F x m x d`, and of variance, `S x 1 x m x d`."""
        points = checked_points(X, conditional=self.conditional)
        mean, var, dmean, dvar = predict_gradient(self.heads, self.posteriors, points, self.features)
        sd = self.targets.sd
        return self.targets.mean + sd * mean, sd**2 * var[:, None], sd * dmean, sd**2 * dvar[:, None]


def predict(
    heads: Sequence[LinearHead], posteriors: Sequence[Posterior], points: Floats, features: Features
) -> tuple[Floats, Floats]:
    """Predict standardised targets by all networks: mean `S x F x m`, variance `S x m`."""
    samples, fantasies, _ = posteriors[0].mean.shape
    mean = np.empty((samples * len(heads), fantasies, len(points)))
    var = np.empty((samples * len(heads), len(points)))
    for start in range(0, len(points), BLOCK):
        block = slice(start, start + BLOCK)
        for k, basis in enumerate(features.values(points[block])):
            rows = slice(k * samples, (k + 1) * samples)
            mean[rows, :, block], var[rows, block] = posteriors[k].predict(basis)
            mean[rows, :, block] += heads[k].offset(points[block])[:, None]
    return mean, np.maximum(var, SMALLEST_VAR, out=var)


def predict_gradient(
    heads: Sequence[LinearHead], posteriors: Sequence[Posterior], points: Floats, features: Features
) -> tuple[Floats, Floats, Floats, Floats]:
    """Predict standardised targets, with gradients `S x F x m x d` and `S x m x d`."""
    mean, var = predict(heads, posteriors, points, features)
    means, variances = [], []
    for head, posterior, basis, slopes in zip(heads, posteriors, *features.values_and_jacobian(points), strict=True):
        dmean, dvar = posterior.gradient(basis, slopes)
        means.append(dmean + head.slopes(points)[:, None])
        variances.append(dvar)
    return mean, var, np.concatenate(means), np.concatenate(variances)
