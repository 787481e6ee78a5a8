"""Moved to `warmstart.status`; this path goes with the next release."""

import warnings

from warmstart.status import exit_code

__all__ = ["exit_code"]

warnings.warn("warmstart.exit_codes has moved to warmstart.status", DeprecationWarning, stacklevel=2)
