"""Search spaces as arrays: axes, conditions, the unit cube and points spread over it."""

from bo.space.encoding import Encoding

__all__ = ["Encoding"]
