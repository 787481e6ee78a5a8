"""DNGO over several tasks: they share the networks' features, and their last layers are draws from one distribution."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bo.surrogates.base import Task
from bo.surrogates.dngo import DNGO
from bo.surrogates.tasks import checked_related, reduced_meta


class MultiTaskDNGO(DNGO):
    """Networks of the input [x; meta-feature] with one output a task, of which the target's is a Bayesian last layer.

    Tasks share the features, as in [Perrone2018scalable]; what the last layers of the related tasks have in common, and how far they
    lie apart, is the prior of the target's, be there many points of it, few or none.
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
            self._metas, self._least = reduced_meta(self._related, meta), 0
