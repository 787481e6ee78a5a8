"""Memory of a process: detection of out-of-memory errors, and reuse of what is freed."""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of the settings in malloc.h of the GNU C library."""
_LARGEST_BLOCK = 1 << 30


def out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that memory ran out."""
    # By name, without loading torch; torch's CPU allocator raises a plain RuntimeError.
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )


def reuse_freed_memory() -> None:
    """Let the GNU C library reuse freed blocks, instead of returning them to the system; elsewhere do nothing.

    A network's maps are tens of megabytes that come and go with every batch: fetching them anew from the system takes as
    long as computing features. Only for a process that does little else: it holds its largest memory until it ends.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_BLOCK)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
