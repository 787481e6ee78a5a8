"""Where networks run, and on how many threads."""

from collections.abc import Iterator
from contextlib import contextmanager

from history_store.errors import UsageError


def resolve_device(device: str) -> str:
    """Give the torch device that a person named: ``auto`` is the first GPU, if there is one.

    Raises:
        UsageError: no such device, here or at all.
    """
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        msg = f"expected cpu, cuda or auto, got {device!r} ({str(error).splitlines()[0]}). Use cpu."
        raise UsageError(msg, param="device") from error
    return device


@contextmanager
def cpu_threads(threads: int | None) -> Iterator[None]:
    """Run torch on so many CPU threads, then put the caller's number back; None changes nothing."""
    if threads is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
