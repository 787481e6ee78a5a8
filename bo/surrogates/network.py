"""Stacks of small fully connected networks with a hand-written backward pass, in numpy.

K networks of one shape are one array of weights `K x P`, so an optimiser or a sampler moves them by a few operations on
flat arrays. At these sizes, matrix products and tanh of numpy are faster than those of torch, with or without autograd.
The dtype of the weights, float32 or float64, decides the dtype of everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import UsageError

Array = NDArray[Any]
Activation = Literal["tanh", "relu", "linear"]


@dataclass(frozen=True, slots=True)
class Network:
    """Shape of a network: widths and activations of its layers.

    Attributes:
        sizes: widths of inputs, hidden layers and outputs.
        activations: of each layer after the inputs; () = tanh for hidden layers and linear outputs.
        n_weights: P, weights and biases of one network, layer by layer: weights `in x out`, then biases `out`.
    """

    sizes: tuple[int, ...]
    activations: tuple[Activation, ...] = ()
    n_weights: int = field(init=False)

    def __post_init__(self) -> None:
        """Set the default activations and the number of weights.

        Raises:
            UsageError: when sizes and activations do not fit.
        """
        layers = len(self.sizes) - 1
        tanh: Activation = "tanh"
        activations = self.activations or (*[tanh] * (layers - 1), "linear")
        if (
            layers < 1
            or min(self.sizes) < 1
            or len(activations) != layers
            or not {*activations} <= {*get_args(Activation)}
        ):
            msg = f"Network: expected two positive sizes or more and one activation among {', '.join(get_args(Activation))} a layer, got {self.sizes} and {activations}. Leave activations out for tanh."
            raise UsageError(msg)
        object.__setattr__(self, "activations", activations)
        object.__setattr__(
            self, "n_weights", sum((a + 1) * b for a, b in zip(self.sizes, self.sizes[1:], strict=False))
        )

    def layers(self, theta: Array) -> list[tuple[Array, Array]]:
        """Return views of weights `K x P` or a gradient by layer, `K x in x out` and `K x 1 x out`; writes change θ."""
        views, start = [], 0
        for a, b in zip(self.sizes, self.sizes[1:], strict=False):
            end = start + a * b
            views.append((theta[:, start:end].reshape(-1, a, b), theta[:, None, end : end + b]))
            start = end + b
        return views

    def initial(self, k: int, *, rng: np.random.Generator, dtype: Any = np.float32) -> Array:
        """Draw the weights of k networks: N(0, 1/fan-in) (2/fan-in before a relu), biases 0: `K x P`."""
        theta = np.zeros((k, self.n_weights), dtype=dtype)
        for (weights, _), activation in zip(self.layers(theta), self.activations, strict=True):
            scale = (2.0 if activation == "relu" else 1.0) / weights.shape[1]
            weights[...] = rng.standard_normal(weights.shape) * scale**0.5
        return theta

    def forward(self, theta: Array, X: Array) -> list[Array]:
        """Compute the values of every layer.

        Args:
            theta: `K x P`.
            X: `B x in`, the same for all networks, or `K x B x in`; of the type of θ.

        Returns: X, the hidden layers and the outputs, `K x B x width` each (X unchanged).
        """
        values = [X]
        for (weights, bias), activation in zip(self.layers(theta), self.activations, strict=True):
            value = np.matmul(values[-1], weights)
            value += bias
            if activation == "tanh":
                np.tanh(value, out=value)
            elif activation == "relu":
                np.maximum(value, 0.0, out=value)
            values.append(value)
        return values

    def backward(
        self,
        theta: Array,
        values: Sequence[Array],
        slope: Array,
        *,
        out: Array | None = None,
        inputs: Array | None = None,
    ) -> Array:
        """Compute the gradient of a loss, a sum over points, by the weights.

        Args:
            theta: `K x P`.
            values: output of `forward`.
            slope: `K x B x out`, d loss / d outputs.
            out: array for the result; None = a new one.
            inputs: `K x B x in`, array for the gradient by the inputs; None = not computed.

        Returns: `K x P`.
        """
        gradient = np.empty_like(theta) if out is None else out
        layers, into = self.layers(theta), self.layers(gradient)
        for i in reversed(range(len(layers))):
            slope = _before(slope, values[i + 1], self.activations[i])
            np.matmul(values[i].swapaxes(-1, -2), slope, out=into[i][0])
            np.add.reduce(slope, axis=1, keepdims=True, out=into[i][1])
            if i or inputs is not None:
                slope = np.matmul(slope, layers[i][0].swapaxes(1, 2), out=None if i else inputs)
        return gradient

    def input_gradient(self, theta: Array, values: Sequence[Array], slope: Array) -> Array:
        """Compute the gradient of a loss by the inputs of each point: `K x B x in`; arguments as in `backward`."""
        for i, (weights, _) in reversed([*enumerate(self.layers(theta))]):
            slope = np.matmul(_before(slope, values[i + 1], self.activations[i]), weights.swapaxes(1, 2))
        return slope

    def jacobian(self, theta: Array, values: Sequence[Array]) -> Array:
        """Compute d outputs / d inputs at each point, `K x B x in x out`; for one output `input_gradient` is faster."""
        first, *rest = self.layers(theta)
        tangent = first[0][:, None]  # K x 1 x in x width
        for i, value in enumerate(values[1:]):
            if i:
                tangent = np.matmul(tangent, rest[i - 1][0][:, None])
            tangent = _before(tangent, value[:, :, None], self.activations[i])
        return np.broadcast_to(tangent, (*values[-1].shape[:2], *tangent.shape[2:]))


def _before(slope: Array, value: Array, activation: Activation) -> Array:
    """Compute the slope before an activation from the slope after it and the output of the activation."""
    if activation == "tanh":
        factor = np.square(value)
        np.subtract(1.0, factor, out=factor)
        return slope * factor
    return slope * (value > 0.0) if activation == "relu" else slope
