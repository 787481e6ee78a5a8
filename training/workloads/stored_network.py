"""Networks of saved classifiers: compared with their file before any memory is taken for them."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import nn

from warmstart.history_store.limits import PIXELS
from warmstart.history_store.wording import FaultError

Network = TypeVar("Network", bound=nn.Module)


def load_network(build: Callable[[], Network], state: Mapping[str, torch.Tensor]) -> Network:
    """Build a network and load its tensors.

    Args:
        build: builds it, as the header of the file says.
        state: tensors of the file.

    Raises:
        ValueError: the tensors have other names or shapes than the network.
    """
    try:
        with torch.device("meta"):  # shapes without memory
            shapes = {name: tensor.shape for name, tensor in build().state_dict().items()}
    except NotImplementedError:  # a network that computes with its own tensors while it is built
        shapes = {name: tensor.shape for name, tensor in state.items()}
    if shapes != {name: tensor.shape for name, tensor in state.items()}:
        differing = min(shapes.keys() ^ state.keys(), default="its tensors")
        msg = f"a header whose network has other tensors than the file, such as {differing}"
        raise FaultError(msg)
    network = build()
    network.load_state_dict(dict(state), strict=True)
    return network


def check_size(size: object) -> int:
    """Return the image size that a header names.

    Raises:
        ValueError: it is none.
        DataError: pictures of it would have more pixels than may be read.
    """
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        msg = f"the image size {size!r:.20}"
        raise FaultError(msg)
    PIXELS.check(size * size, "image size")
    return size
