"""The target network: the six-dimensional CNN family of the warm-start paper [Kim2017warmstart] §5.

A configuration sets the learning rate, its decay, the batch size, the numbers of convolutional and fully
connected layers, and the dropout rate.
"""

from dataclasses import dataclass

import torch
from torch import nn

from history_store.errors import DataError
from history_store.records import Config

FC_WIDTH = 256
BASE_FILTERS = 32


@dataclass(frozen=True, slots=True)
class TargetConfig:
    """A configuration of the target network, cast to what is trained.

    Attributes:
        learning_rate: of Adam at step 0.
        decay_rate: of the exponential decay, per update.
        batch_size: images an update, ≥ 1.
        n_conv: convolutional layers, 1 .. 9.
        n_fc: hidden fully connected layers, 1 .. 3; the classifier follows them.
        dropout: rate after each hidden fully connected layer, in [0, 1).
    """

    learning_rate: float
    decay_rate: float
    batch_size: int
    n_conv: int
    n_fc: int
    dropout: float

    @classmethod
    def of(cls, config: Config) -> "TargetConfig":
        """Read a configuration of the history; reals become integers by cutting off.

        Raises:
            DataError: when a hyperparameter is missing or not a number in its range.
        """
        names = (
            "log10_learning_rate",
            "log10_decay_rate",
            "batch_size",
            "num_layers_conv",
            "num_layers_fc",
            "dropout_rate",
        )
        try:
            rate, decay, batch, n_conv, n_fc, dropout = (float(config[name]) for name in names)
        except (KeyError, TypeError, ValueError) as error:
            msg = f"target network: expected numbers for {', '.join(names)}, got {dict(config)}. The space must be the target network's."
            raise DataError(msg) from error
        cast = cls(10.0**rate, 10.0**decay, int(batch), int(n_conv), int(n_fc), dropout)
        if not (cast.batch_size >= 1 and 1 <= cast.n_conv <= 16 and 1 <= cast.n_fc <= 16 and 0 <= dropout < 1):
            msg = f"target network: expected batch_size ≥ 1, 1 to 16 layers and 0 ≤ dropout_rate < 1, got {dict(config)}. Correct the configuration."
            raise DataError(msg)
        return cast


def filters(n_conv: int) -> list[int]:
    """List the filters of each layer: doubling to the middle and back, 5 layers are 32, 64, 128, 64, 32."""
    return [BASE_FILTERS * 2 ** min(i, n_conv - 1 - i) for i in range(n_conv)]


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


def bf16_pays(device: torch.device) -> bool:
    """Tell whether bfloat16 arithmetic is native on this device."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        # Without AVX512-BF16 instructions oneDNN emulates bfloat16, slower than float32.
        return bool(torch.cpu._is_avx512_bf16_supported())  # noqa: SLF001
    return False
