"""Surrogates as BoTorch models, for its acquisition functions and `optimize_acqf`. Needs the extra ``botorch``.

BoTorch maximises, so a model predicts -error: the best value so far is -min(errors). Points are model columns of the
surrogate, in [0, 1], NaN = inactive (`warmstart.bo.space.encoding.Encoding.columns`).
"""

from typing import Any

import numpy as np
import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.posteriors import Posterior
from botorch.posteriors.fully_bayesian import GaussianMixturePosterior
from gpytorch.distributions import MultivariateNormal

from warmstart.bo.surrogates import Surrogate
from warmstart.history_store.errors import UsageError

JITTER = 1e-10
"""Share of the largest variance added to the diagonal of covariances, which are singular for equal points."""


class SurrogateModel(Model):  # type: ignore[misc]
    """BoTorch model of a fitted surrogate, with its hyperparameter samples as the ensemble dimension.

    Acquisition functions, analytic and Monte-Carlo ones, are averaged over samples; the posterior at q points is joint, and
    differentiable with respect to the points, exactly. `X_pending` goes where BoTorch takes it: to the q... functions, not to
    the analytic ones. The model cannot be conditioned (`fantasize`, knowledge gradient): use `Surrogate.condition`.
    """

    _is_ensemble = True
    _is_fully_bayesian = True  # a hyperparameter sample has its own Gaussian, it is no draw

    def __init__(self, surrogate: Surrogate) -> None:
        """Wrap a fitted surrogate; the model follows later fits of it."""
        super().__init__()
        self.surrogate = surrogate
        self._samples: int | None = None

    @property
    def num_outputs(self) -> int:
        """Return the number of outputs: one, -error."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """Return the number of hyperparameter samples as a shape; empty before the first posterior."""
        return torch.Size([] if self._samples is None else [self._samples])

    def posterior(
        self,
        X: torch.Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | torch.Tensor = False,  # noqa: FBT001, FBT002  BoTorch's signature
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """Predict -error at `b x q x d` points, jointly over q.

        Args:
            X: `b x q x d` model columns.
            output_indices: of the one output.
            observation_noise: add the noise of the surrogate, or a variance that broadcasts to `b x S x q x 1`.
            posterior_transform: applied to the posterior.

        Returns: a mixture of S normal posteriors, `b x S x q x 1`.

        Raises:
            UsageError: another output than the first.
        """
        if output_indices not in (None, [0]):
            msg = f"posterior: expected the one output [0], got {output_indices}. Leave output_indices out."
            raise UsageError(msg)
        self.eval()
        points = self.transform_inputs(X)
        batch, (q, d) = points.shape[:-2], points.shape[-2:]
        flat = points.reshape(-1, q, d)
        mean, covariance = _Joint.apply(flat.double(), self.surrogate)
        self._samples = mean.shape[1]
        diagonal = JITTER * covariance.detach().diagonal(dim1=-2, dim2=-1).amax(dim=-1)[..., None].expand(mean.shape)
        mean, covariance, diagonal = (
            part.reshape(*batch, *part.shape[1:]).to(X) for part in (mean, covariance, diagonal)
        )
        if isinstance(observation_noise, torch.Tensor):
            diagonal = diagonal + observation_noise.to(X).squeeze(-1)
        elif observation_noise:
            prediction = self.surrogate.predict(flat[0, :1].detach().cpu().double().numpy())
            diagonal = diagonal + torch.as_tensor(prediction.noise, dtype=X.dtype, device=X.device)[:, None]
        posterior = GaussianMixturePosterior(MultivariateNormal(mean, covariance + torch.diag_embed(diagonal)))
        return posterior if posterior_transform is None else posterior_transform(posterior, X=X)


class _Joint(torch.autograd.Function):
    """Autograd function of means and covariances of -error, with the surrogate's gradients."""

    @staticmethod
    def forward(ctx: Any, X: torch.Tensor, surrogate: Surrogate) -> tuple[torch.Tensor, torch.Tensor]:
        """Predict `b x q x d` points: means `b x S x q`, covariances `b x S x q x q`."""
        points = X.detach().cpu().numpy()
        if X.shape[1] == 1:  # single points: one call for the whole batch
            prediction, slopes, bends = surrogate.predict_gradient(points[:, 0])
            parts = [prediction.mean.T[..., None], prediction.var.T[..., None, None]]
            parts += [slopes.swapaxes(0, 1)[:, :, None], 0.5 * bends.swapaxes(0, 1)[:, :, None, None]]
        else:
            parts = [np.stack(part) for part in zip(*map(surrogate.joint_gradient, points), strict=True)]
        mean, covariance, dmean, dcovariance = (torch.as_tensor(part, device=X.device) for part in parts)
        ctx.save_for_backward(dmean, dcovariance)
        return -mean, covariance

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Propagate gradients to the points; each acts on its row and its column of a covariance."""
        dmean, dcovariance = ctx.saved_tensors
        by_mean, by_covariance = gradients
        both = by_covariance + by_covariance.mT
        from_mean = torch.einsum("bsi,bsid->bid", by_mean, dmean)
        return torch.einsum("bsij,bsijd->bid", both, dcovariance) - from_mean, None
