"""Files of `torch.save` in the form before torch 1.6, read without torch: its import takes seconds."""

import pickle
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import ModelError

_STORAGES = {"FloatStorage": np.float32, "LongStorage": np.int64}


def read_tensors(path: Path) -> Mapping[str, NDArray[Any]]:
    """Read the tensors of a state dict by name; nothing in the file is executed.

    Raises:
        ModelError: the file is not of this form, or cut short.
    """
    try:
        with path.open("rb") as file:
            for _ in range(3):  # a number that marks the form, its version, facts of the machine
                _Unpickler(file).load()
            reader = _Unpickler(file)
            tensors = reader.load()
            for key in _Unpickler(file).load():
                _fill(reader.storages[key], file)
    except (OSError, EOFError, pickle.UnpicklingError, KeyError, ValueError, TypeError, AttributeError) as error:
        msg = f"{path}: expected tensors as torch saves them, got {type(error).__name__}. Install the weights anew."
        raise ModelError(msg) from error
    return dict(tensors)


class _Unpickler(pickle.Unpickler):
    """Build tensors as arrays over storages that are filled later; everything else is refused."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, NDArray[Any]] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a class of the file."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        msg = f"{module}.{name}"
        raise pickle.UnpicklingError(msg)

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        """Return the storage of ``("storage", type, key, device, length, view)``."""
        _, dtype, key, _, length, _ = pid
        return self.storages.setdefault(key, np.empty(length, dtype=dtype))


def _fill(storage: NDArray[Any], file: BinaryIO) -> None:
    """Read the values of a storage, behind their number.

    Raises:
        EOFError: there are fewer, or others.
    """
    if int.from_bytes(file.read(8), "little") != storage.size or file.readinto(storage.data) != storage.nbytes:  # type: ignore[attr-defined]
        raise EOFError


def _tensor(
    storage: NDArray[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object
) -> NDArray[Any]:
    """Return a tensor as a view of its storage; the strides count values.

    Raises:
        ValueError: it reaches outside.
    """
    last = offset + sum((length - 1) * step for length, step in zip(shape, strides, strict=True))
    if offset < 0 or min((*shape, *strides, 1)) < 0 or last >= storage.size:
        msg = f"tensor of {shape}: outside its storage"
        raise ValueError(msg)
    steps = [step * storage.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, steps)
