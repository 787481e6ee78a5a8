"""DNGO over several tasks: its networks also see an embedding of the task, learned with them, and its meta-feature."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bo.surrogates.base import Task
from bo.surrogates.dngo import DNGO
from bo.surrogates.tasks import checked_related, reduced_meta

EMBEDDING = 5
"""L, as in [Springenberg2016bayesian] §4."""


class MultiTaskDNGO(DNGO):
    """Networks of the input [x; meta-feature; ψ_t], ψ_t the embedding of task t, with a Bayesian last layer.

    The last layer is the target's own from three points on, before that one for all tasks: learned from all, precisions say
    how noisy the related tasks are. Without a point, the target has the mean embedding of the related tasks.
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
        self._related = checked_related(related, conditional=conditional)
        if related:
            self._metas, self._embedding, self._least = reduced_meta(self._related, meta), EMBEDDING, 0
