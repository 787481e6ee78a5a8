"""Search spaces as arrays: axes, conditions, the unit cube, and designs in it."""

from bo.space.encoding import Encoding

__all__ = ["Encoding"]
