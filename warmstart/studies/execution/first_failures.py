"""Detect first trials that all fail alike: then the objective is wrong, not a configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable

from warmstart.studies.objectives.base import TrialStatus

ALIKE = 5
"""Number of first trials that fail alike before a call stops."""
COMPARED_CHARS = 100
"""Characters of a note that are compared: the rest may be cut off, or specific to the configuration."""
_VALUE = re.compile(r"""'[^']*'|"[^"]*"|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?""")


def fail_alike(ends: Iterable[tuple[TrialStatus, str]]) -> bool:
    """Tell whether all trials crashed, or all gave no usable error, with the same note but for numbers and quotations.

    Timeouts, lack of memory and signals do not count: other configurations may avoid them.

    Args:
        ends: status and note of each trial.
    """
    kinds = {(status, _VALUE.sub("#", note)[:COMPARED_CHARS]) for status, note in ends}
    return len(kinds) == 1 and next(iter(kinds))[0] in (TrialStatus.FAILED, TrialStatus.CRASHED)
