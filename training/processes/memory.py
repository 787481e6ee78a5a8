"""Errors that say that memory ran out."""


def out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory ran out."""
    # By name, so that torch is not loaded for it; torch's CPU allocator raises a plain RuntimeError.
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )
