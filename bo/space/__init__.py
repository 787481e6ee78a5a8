"""Search spaces as arrays: axes, conditions, the unit cube, and designs in it."""

from warmstart.bo.space.encoding import Encoding

__all__ = ["Encoding"]
