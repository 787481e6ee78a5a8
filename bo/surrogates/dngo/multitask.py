"""Multi-task DNGO: tasks share the networks' features; their last layers have a common prior."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.surrogates.base import Task, checked_data
from warmstart.bo.surrogates.dngo.model import DNGO
from warmstart.bo.surrogates.tasks import checked_related, reduced_meta

LEAST_ALONE = 3
"""Points from which the task at hand can be modelled alone..."""
IN_FAVOUR = 5.0
"""...and the prior log odds in favour of the joint model."""
FITTED = ("_features", "_heads", "_targets", "_unseen")
"""Attributes that a fit sets."""


class MultiTaskDNGO(DNGO):
    """Networks of the input [x; meta-feature]: tasks share features, and each has a Bayesian last layer of its own.

    Use it with related tasks of many evaluations each: the cost is linear in all of them together. Without related
    tasks it is `DNGO`. Not for up to some hundred points in all: `MultiTaskGaussianProcess` is exact there.

    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> model = MultiTaskDNGO(related=[Task(x, (x[:, 0] - 0.3) ** 2)], networks=2, burn_in=10)
    >>> model.fit(x[:0], [], rng=np.random.default_rng(0)).predict(x).mean.shape[1]  # no evaluation of the target yet
    20

    As in [Perrone2018scalable], with a difference for few points: up to two points for each feature, of all tasks
    together, the networks stay as drawn, like those of `DNGO`. With more they are trained, with one output for each
    task. The mean and spread of the related tasks' last layers are the prior of the target's last layer. Features of
    unrelated tasks can hurt. So each point is predicted from all others by either model, and the better model is used.
    """

    _name = "MultiTaskDNGO"

    def __init__(
        self,
        *,
        related: Sequence[Task] = (),
        meta: NDArray[np.float64] | None = None,
        conditional: Sequence[int] = (),
        **options: Any,
    ) -> None:
        """Build an unfitted surrogate.

        Args:
            related: tasks to learn from.
            meta: `p` meta-feature of the target, or None if no task has one.
            conditional: columns of the points that may be NaN, inactive.
            options: of `DNGO`.

        Raises:
            UsageError: when an option or a shape does not fit.
            DataError: when a number is not finite.
        """
        super().__init__(conditional=conditional, **options)
        self._options = options
        self._related = checked_related(related, conditional=conditional)
        if related:
            self._metas, self._least = reduced_meta(self._related, meta), 0

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Fit all tasks, or `DNGO` to `n x d` points and `n` targets alone if that predicts them better.

        Errors as in `checked_data`.
        """
        points, targets = checked_data(X, y, conditional=self._conditional, least=self._least)
        alone = None
        if self._related and len(targets) >= LEAST_ALONE:
            alone = DNGO(conditional=self._conditional, **self._options).fit(points, targets, rng=rng)
        super().fit(points, targets, rng=rng)
        if alone and len(targets) * (alone.left_out(points, targets) - self.left_out(points, targets)) > IN_FAVOUR:
            vars(self).update({name: getattr(alone, name) for name in FITTED})
        return self
