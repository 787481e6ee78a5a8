"""Target network: the six-dimensional CNN family of the warm-start paper [Kim2017warmstart] §5.

A configuration sets the learning rate, its decay, the batch size, the numbers of convolutional and fully
connected layers, and the dropout rate.
"""

import torch
from torch import nn

from warmstart.training.workloads.cnn.config import FC_WIDTH, TargetConfig, filters


def build_network(config: TargetConfig, channels: int, size: int, n_classes: int) -> nn.Sequential:
    """Build the network for `n x channels x size x size` images.

    3x3 convolutions with batch norm and ReLU, each followed by a 2x2 max-pool while both sides are at least 2;
    then `n_fc` layers of 256 with ReLU and dropout, then the classifier.
    """
    layers: list[nn.Module] = []
    width, side = channels, size
    for n_filters in filters(config.n_conv):
        layers += [nn.Conv2d(width, n_filters, 3, padding=1), nn.BatchNorm2d(n_filters), nn.ReLU(inplace=True)]
        width = n_filters
        if side >= 2:
            layers.append(nn.MaxPool2d(2))
            side //= 2
    layers.append(nn.Flatten())
    width *= side * side
    for _ in range(config.n_fc):
        layers += [nn.Linear(width, FC_WIDTH), nn.ReLU(inplace=True), nn.Dropout(config.dropout)]
        width = FC_WIDTH
    layers.append(nn.Linear(width, n_classes))
    return nn.Sequential(*layers)


def has_native_bf16(device: torch.device) -> bool:
    """Tell whether bfloat16 arithmetic is native on a device."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        # Without AVX512-BF16 instructions oneDNN emulates bfloat16, slower than float32.
        is_native = getattr(torch.cpu, "_is_avx512_bf16_supported", None)  # torch 2.4 and 2.5 cannot tell
        return is_native is not None and bool(is_native())
    return False
