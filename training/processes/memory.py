"""Memory of a process: detection of out-of-memory errors, and reuse of what is freed."""

import ctypes
import re
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of the settings in malloc.h of the GNU C library."""
_LARGEST_BLOCK = 1 << 30
_NO_MEMORY = re.compile(
    r"(?:CUDA|HIP|MPS backend|XPU) (?:error: )?out of memory|OutOfMemoryError|RESOURCE_EXHAUSTED|ResourceExhausted"
    r"|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|CU\w+_STATUS_ALLOC_FAILED|can't allocate memory|^MemoryError",
    re.IGNORECASE,
)
"""What torch (also of AMD and Apple), TensorFlow, JAX, CuPy and Python say where memory runs out."""


def out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that memory ran out."""
    return isinstance(error, MemoryError) or says_out_of_memory(f"{type(error).__name__}: {error}")


def says_out_of_memory(line: str) -> bool:
    """Tell whether a line that a program printed says that memory ran out, that of a GPU too."""
    return _NO_MEMORY.search(line) is not None


def reuse_freed_memory() -> None:
    """Let the GNU C library reuse freed blocks, instead of returning them to the system; elsewhere do nothing.

    A network's maps are tens of megabytes that come and go with every batch: fetching them anew from the system takes as
    long as computing features. Only for a process that does little else: it holds its largest memory until it ends.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_BLOCK)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
