"""Detection of out-of-memory errors."""


def out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that memory ran out."""
    # By name, without loading torch; torch's CPU allocator raises a plain RuntimeError.
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )
