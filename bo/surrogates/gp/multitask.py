"""Multi-task Gaussian process, in which correlated tasks inform the target."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from warmstart.bo.surrogates.base import Task, checked_data
from warmstart.bo.surrogates.gp.chain import Inference
from warmstart.bo.surrogates.gp.coregionalised import Coregionalised
from warmstart.bo.surrogates.gp.covariance import Stationary
from warmstart.bo.surrogates.gp.hyperparameters import Priors
from warmstart.bo.surrogates.gp.model import GaussianProcess
from warmstart.bo.surrogates.tasks import Pool, checked_related, reduced_meta


class MultiTaskGaussianProcess(GaussianProcess):
    """Gaussian process over several tasks, with inferred correlations and noise of the tasks [Swersky2013multi].

    Use it with up to some hundred points of all tasks together. Not for more: the cost grows with their cube, so use
    `MultiTaskDNGO` or `Bohamiann` there. Without related tasks it is `GaussianProcess`.

    >>> x = np.linspace(0, 1, 6)[:, None]
    >>> model = MultiTaskGaussianProcess(related=[Task(x, (x[:, 0] - 0.3) ** 2)], samples=3, burn_in=10)
    >>> model.fit(x[:0], [], rng=np.random.default_rng(0)).predict(x).mean.shape  # no evaluation of the target yet
    (3, 6)
    """

    def __init__(
        self,
        *,
        related: Sequence[Task] = (),
        meta: ArrayLike | None = None,
        kernel: str = "matern52",
        inference: Inference = "slice",
        samples: int = 10,
        burn_in: int | None = None,
        sweeps: int | None = None,
        priors: Priors = "modern",
        conditional: Sequence[int] = (),
    ) -> None:
        """Build an unfitted process.

        Args:
            related: tasks to learn from.
            meta: `p` meta-feature of the target, if and only if the related tasks have theirs.
            kernel: as in `GaussianProcess`, like all other arguments.
            inference: of hyperparameters, correlations and the noise of every task.
            samples: of these.
            burn_in: discarded sweeps of a new chain; None = 100 with related tasks, else 15.
            sweeps: of the chain in each fit.
            priors: of the hyperparameters.
            conditional: columns that may be NaN, inactive.

        Raises:
            UsageError: when a name, a number or a shape does not fit.
            DataError: when a point, a target or a meta-feature is not finite.
        """
        super().__init__(
            kernel=kernel,
            inference=inference,
            samples=samples,
            burn_in=(100 if related else 15) if burn_in is None else burn_in,
            climbs=not related,  # positions of tasks have many modes
            sweeps=sweeps,
            priors=priors,
            conditional=conditional,
        )
        self._related = checked_related(related, conditional=conditional)
        self._meta = reduced_meta(self._related, None if meta is None else np.asarray(meta, dtype=np.float64))

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Fit to `n x d` points and `n` targets; n may be 0 with related tasks.

        Raises:
            UsageError: when shapes do not fit.
            DataError: when a point or a target is not finite.
        """
        points, targets = checked_data(X, y, conditional=self._conditional, least=0 if self._related else 1)
        pool = Pool.of(self._related, points, targets)
        points_alone = Stationary(self._kernel, self._metric(points.shape[1]))
        covariance = Coregionalised(points_alone, self._meta)
        self._learn(
            covariance,
            covariance.prior(self._shape_prior(points_alone.metric)),
            np.column_stack([pool.X, pool.task]),
            pool.z,
            scale=(pool.mean, pool.sd),
            task=pool.n_tasks - 1,
            rng=rng,
        )
        return self
