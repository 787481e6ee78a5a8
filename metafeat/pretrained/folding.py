"""Batch norms of a trained network folded into the convolutions before them: the same features in half the time on a CPU."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

_SAME = 1e-3
"""Largest difference of an output, in its largest value, at which a folded network counts as the same."""
Network = TypeVar("Network", bound=nn.Module)


@torch.no_grad()
def fold_batch_norms(network: Network, pixels: torch.Tensor) -> Network:
    """Return a copy with folded batch norms for evaluation; the network itself where that changes its output.

    Args:
        network: in evaluation mode, its output a tensor a name.
        pixels: a batch of one image, by which convolutions that lead to a batch norm are found.
    """
    if not any(isinstance(module, nn.BatchNorm2d) for module in network.modules()):
        return network
    folded = deepcopy(network)
    modules = dict(folded.named_modules())
    for conv, norm in _pairs(folded, pixels):
        _fold(modules[conv], modules[norm])
        parent, _, name = norm.rpartition(".")
        setattr(modules[parent], name, getattr(modules[norm], "act", nn.Identity()))  # timm's have an activation
    folded = folded.to(memory_format=torch.channels_last)
    before, after = network(pixels), folded(pixels)
    is_same = all((before[key] - after[key]).abs().max() <= _SAME * before[key].abs().max() for key in before)
    return folded if is_same else network


def _pairs(network: nn.Module, pixels: torch.Tensor) -> list[tuple[str, str]]:
    """Return the names of convolutions and of the batch norms that take their outputs."""
    outputs: dict[int, tuple[str, torch.Tensor]] = {}  # with the tensors, whose ids are then their own
    pairs: list[tuple[str, str]] = []

    def remember(name: str, output: torch.Tensor) -> None:
        outputs[id(output)] = name, output

    def pair(name: str, tensor: torch.Tensor) -> None:
        if id(tensor) in outputs:
            pairs.append((outputs[id(tensor)][0], name))

    hooks = []
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d):
            hooks.append(module.register_forward_hook(lambda _m, _a, output, name=name: remember(name, output)))
        elif isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
            hooks.append(module.register_forward_pre_hook(lambda _m, args, name=name: pair(name, args[0])))
    network(pixels)
    for hook in hooks:
        hook.remove()
    return pairs


def _fold(conv: nn.Module, norm: nn.Module) -> None:
    assert isinstance(conv, nn.Conv2d)  # noqa: S101  of the pairs
    assert isinstance(norm, nn.BatchNorm2d)  # noqa: S101
    assert norm.running_mean is not None  # noqa: S101
    assert norm.running_var is not None  # noqa: S101
    conv.weight, conv.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )
