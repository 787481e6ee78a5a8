"""Failures of a call's first trials: when they are the objective's, and no configuration's."""

from __future__ import annotations

import re
from collections.abc import Iterable

from warmstart.studies.objectives.base import TrialStatus

ALIKE = 5
"""First trials that may fail in the same way before no more is begun."""
COMPARED_CHARS = 100
"""Of a note: what comes later may be cut off, or tell of the configuration."""
_VALUE = re.compile(r"""'[^']*'|"[^"]*"|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?""")


def fail_alike(ends: Iterable[tuple[TrialStatus, str]]) -> bool:
    """Tell whether trials all raised, or all came back without a usable error, and with the same note but for numbers and quotations.

    Timeouts, lack of memory and signals are left to the search: other configurations may do without.

    Args:
        ends: status and note of each.
    """
    kinds = {(status, _VALUE.sub("#", note)[:COMPARED_CHARS]) for status, note in ends}
    return len(kinds) == 1 and next(iter(kinds))[0] in (TrialStatus.FAILED, TrialStatus.CRASHED)
