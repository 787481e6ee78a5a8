import math

import pytest
import torch
from torch import nn

from warmstart.history_store.errors import DataError
from warmstart.training.workloads.cnn.config import TargetConfig
from warmstart.training.workloads.cnn.network import build_network, filters

CONFIG = {
    "log10_learning_rate": -3.0,
    "log10_decay_rate": -5.0,
    "batch_size": 100.0,
    "num_layers_conv": 2.0,
    "num_layers_fc": 1.0,
    "dropout_rate": 0.25,
}


def cast(**changes: float | str) -> TargetConfig:
    return TargetConfig.of({**CONFIG, **changes})


@pytest.mark.parametrize(
    ("n_conv", "expected"),
    [
        (1, [32]),
        (4, [32, 64, 64, 32]),
        (9, [32, 64, 128, 256, 512, 256, 128, 64, 32]),
    ],
)
def test_filters_go_up_and_down(n_conv: int, expected: list[int]) -> None:
    assert filters(n_conv) == expected
    convs = [m for m in build_network(cast(num_layers_conv=n_conv), 3, 32, 10) if isinstance(m, nn.Conv2d)]
    assert [conv.out_channels for conv in convs] == expected
    assert all(conv.kernel_size == (3, 3) and conv.padding == (1, 1) for conv in convs)


def test_reals_are_cut_off_to_integers() -> None:
    config = cast(batch_size=137.99, num_layers_conv=3.999, num_layers_fc=2.5)
    assert (config.batch_size, config.n_conv, config.n_fc) == (137, 3, 2)


@pytest.mark.parametrize(
    ("size", "n_conv", "pools", "side"),
    [
        (32, 9, 5, 1),
        (28, 9, 4, 1),
        (16, 2, 2, 4),
        (1, 3, 0, 1),
        (3, 2, 1, 1),
    ],
)
def test_pools_while_they_fit(size: int, n_conv: int, pools: int, side: int) -> None:
    network = build_network(cast(num_layers_conv=n_conv), 3, size, 10)
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in network) == pools
    first = next(layer for layer in network if isinstance(layer, nn.Linear))
    assert first.in_features == 32 * side * side
    with torch.no_grad():
        assert network.eval()(torch.zeros(2, 3, size, size)).shape == (2, 10)


def test_parameters_counted_by_hand() -> None:
    """Two layers of 32 filters on 8x8 grey pictures, one hidden layer, 5 classes."""
    network = build_network(cast(), 1, 8, 5)
    conv = (1 * 9 * 32 + 32) + 2 * 32 + (32 * 9 * 32 + 32) + 2 * 32
    dense = (32 * 2 * 2 * 256 + 256) + (256 * 5 + 5)
    assert sum(p.numel() for p in network.parameters()) == conv + dense == 44_005


def test_order_of_layers() -> None:
    kinds = [type(layer).__name__ for layer in build_network(cast(num_layers_conv=1, num_layers_fc=2), 1, 8, 3)]
    block = ["Conv2d", "BatchNorm2d", "ReLU", "MaxPool2d"]
    assert kinds == [*block, "Flatten", "Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("batch_size", 0), ("num_layers_conv", 0), ("num_layers_conv", 17), ("num_layers_fc", 0), ("dropout_rate", 1.0)],
)
def test_refuses_values_out_of_range(name: str, value: float) -> None:
    with pytest.raises(DataError, match="target network: expected batch_size ≥ 1, 1 to 16 layers"):
        cast(**{name: value})


def test_refuses_another_space() -> None:
    with pytest.raises(DataError, match="expected numbers for log10_learning_rate"):
        TargetConfig.of({"C": 1.0})
    with pytest.raises(DataError, match="expected numbers for log10_learning_rate"):
        cast(dropout_rate="high")


@pytest.mark.parametrize(
    "change", [{"batch_size": math.nan}, {"num_layers_fc": math.inf}, {"log10_learning_rate": 400}]
)
def test_numbers_that_a_network_cannot_have_are_told(change: dict[str, float]) -> None:
    with pytest.raises(DataError, match="expected numbers for log10_learning_rate"):
        cast(**change)
