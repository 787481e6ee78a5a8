"""Device and number of threads for networks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import TYPE_CHECKING

from warmstart.history_store.errors import UsageError
from warmstart.history_store.extras import require_extra

if TYPE_CHECKING:
    import torch


def resolve_device(device: str) -> str:
    """Check the name of a torch device and return it; ``auto`` is the first GPU, if there is one.

    Raises:
        UsageError: no such device, here or at all.
        MissingExtraError: when torch is not installed.
    """
    require_extra("pictures", modules=["torch"])
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        msg = f"expected cpu, cuda or auto, got {device!r}, which torch cannot use here. Use cpu."
        raise UsageError(msg, param="device") from error
    return device


def open_device(name: str | None) -> torch.device:
    """Return a torch device after testing it by one small operation.

    Args:
        name: of torch; None = the first GPU if there is one, else the CPU.

    Raises:
        UsageError: when torch cannot use the device here.
        MissingExtraError: when torch is not installed.
    """
    require_extra("pictures", modules=["torch"])
    import torch

    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.zeros(1, device=device)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, AssertionError, ValueError) as error:
        msg = f"expected one that torch can use here, got {name!r}. Use cpu, cuda or cuda:0."
        raise UsageError(msg, param="device") from error
    return device


_lock, _thread = Lock(), local()
_n_limits, _outer_threads = 0, 0
"""Limits that hold now, and torch's number of threads outside all of them. A new Python thread inherits the limit."""


@contextmanager
def cpu_threads(threads: int | None) -> Iterator[None]:
    """Limit torch to so many CPU threads inside the block, safely also from several threads; None = no limit."""
    global _n_limits, _outer_threads
    if threads is None:
        yield
        return
    require_extra("pictures", modules=["torch"])
    import torch

    depth = getattr(_thread, "depth", 0)
    with _lock:
        before = torch.get_num_threads() if depth or not _n_limits else _outer_threads
        _n_limits, _outer_threads = _n_limits + 1, _outer_threads if _n_limits else before
        torch.set_num_threads(threads)
    _thread.depth = depth + 1
    try:
        yield
    finally:
        _thread.depth = depth
        with _lock:
            _n_limits -= 1
            torch.set_num_threads(before)
