"""The GPUs of this machine, and the one that a worker sees."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

from warmstart.history_store.errors import UsageError

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable: the GPUs that a process sees, by number or by name, with commas between them."""
AUTO = "auto"


def nvidia_smi(*fields: str) -> list[list[str]]:
    """Query fields of each GPU by `nvidia-smi`; none where there is no such program, or it fails."""
    if shutil.which("nvidia-smi") is None:
        return []
    words = f"nvidia-smi --query-gpu={','.join(fields)} --format=csv,noheader,nounits".split()
    try:
        text = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True).stdout  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return []
    return [[word.strip() for word in line.split(",")] for line in text.splitlines() if line.strip()]


def listed_gpus() -> tuple[str, ...] | None:
    """Return the GPUs that the environment lists; None where it lists none and hides none."""
    text = os.environ.get(VISIBLE)
    return None if text is None else tuple(name for word in text.split(",") if (name := word.strip()) not in ("", "-1"))


def visible_gpus() -> tuple[str, ...]:
    """Return the GPUs that this process sees, without loading torch."""
    listed = listed_gpus()
    return tuple(row[0] for row in nvidia_smi("index")) if listed is None else listed


def chosen_gpus(choice: str | Sequence[str | int]) -> tuple[str, ...]:
    """Return the GPUs of an option: named, with commas in a text, or ``auto``: all that this process sees.

    Raises:
        UsageError: there is none, one is named twice, or one is hidden from this process.
    """
    if choice == AUTO:
        gpus = visible_gpus() or (_gpus_of_torch() if listed_gpus() is None else ())
        if not gpus:
            msg = f"expected a GPU, got none{'' if listed_gpus() is None else f': {VISIBLE} hides them'}. Leave it out to run on the CPU."
            raise UsageError(msg, param="gpus")
        return gpus
    words = choice.split(",") if isinstance(choice, str) else choice
    gpus = tuple(str(word).strip() for word in words)
    if not gpus or len(set(gpus)) < len(gpus) or not all(gpus):
        msg = f"expected different GPUs as in 0,1 or auto, got {choice!r}. `per_gpu` runs several trials on each."
        raise UsageError(msg, param="gpus")
    listed = listed_gpus()
    if listed is not None and (hidden := [name for name in gpus if name not in listed]):
        msg = f"expected GPUs among {VISIBLE}={','.join(listed)}, got {hidden[0]}. Give its names, or auto."
        raise UsageError(msg, param="gpus")
    return gpus


@contextlib.contextmanager
def only_gpus(gpus: Sequence[str | int] | None) -> Iterator[None]:
    """Let this process and those that it starts see some GPUs alone; all where there are none to choose."""
    before = os.environ.get(VISIBLE)
    if gpus:
        os.environ[VISIBLE] = ",".join(map(str, gpus))
    try:
        yield
    finally:
        if gpus and before is None:
            os.environ.pop(VISIBLE, None)
        elif gpus and before is not None:
            os.environ[VISIBLE] = before


def _gpus_of_torch() -> tuple[str, ...]:
    """Return the numbers of the GPUs that torch knows, such as those of AMD; none without torch."""
    try:
        import torch
    except ImportError:
        return ()
    return tuple(str(number) for number in range(torch.cuda.device_count()))
