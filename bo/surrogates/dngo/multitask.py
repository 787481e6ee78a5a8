"""DNGO over several tasks: they share the networks' features, and their last layers are draws from one distribution."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bo.surrogates.base import Task, checked_data
from bo.surrogates.dngo.model import DNGO
from bo.surrogates.tasks import checked_related, reduced_meta

LEAST_ALONE = 3
"""Points from which on the task at hand may be better off alone..."""
IN_FAVOUR = 5.0
"""...and log odds, given for nothing, that it is not."""
FITTED = ("_features", "_heads", "_targets", "_unseen")
"""What a fit sets."""


class MultiTaskDNGO(DNGO):
    """Networks of the input [x; meta-feature] whose features all tasks share, each with a Bayesian last layer of its own.

    As in [Perrone2018scalable], but for few points: up to two a feature, of all tasks together, networks stay as drawn, as those of
    `DNGO` do; beyond, they are trained, one output a task. What the last layers of the related tasks have in common, and how far
    they lie apart, is the prior of the target's, be there many points of it, few or none. Features that unrelated tasks have a say in
    are of less use to the target than its own: what predicts its points better, each from all others, is believed.
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
        """Set up the networks.

        Args:
            related: tasks seen before.
            meta: `p` meta-feature of the target, or None where no task has one.
            conditional: columns of the points that may be NaN, inactive.
            options: those of `DNGO`.

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
        """Learn from all tasks; or be `DNGO` of `n x d` points and `n` targets alone, where that predicts each of them better.

        Refusals as in `checked_data`.
        """
        points, targets = checked_data(X, y, conditional=self._conditional, least=self._least)
        alone = None
        if self._related and len(targets) >= LEAST_ALONE:
            alone = DNGO(conditional=self._conditional, **self._options).fit(points, targets, rng=rng)
        super().fit(points, targets, rng=rng)
        if alone and len(targets) * (alone.left_out(points, targets) - self.left_out(points, targets)) > IN_FAVOUR:
            vars(self).update({name: getattr(alone, name) for name in FITTED})
        return self
