"""What the CNN says that a run costs, counted by hand and by torch."""

import torch

from warmstart.training.workloads.cnn.config import TargetConfig, multiply_adds
from warmstart.training.workloads.cnn.network import build_network

CONFIG = {
    "log10_learning_rate": -3.0,
    "log10_decay_rate": -6.0,
    "batch_size": 10,
    "num_layers_conv": 2,
    "num_layers_fc": 1,
    "dropout_rate": 0.0,
}


def test_multiply_adds_by_what_torch_runs():
    for layers in range(1, 10):
        config = TargetConfig.of({**CONFIG, "num_layers_conv": layers, "num_layers_fc": 2})
        network, counted = build_network(config, 3, 32, 5), [0]

        def count(module, inputs, output, counted=counted):
            if isinstance(module, torch.nn.Conv2d):
                counted[0] += output[0].numel() * module.in_channels * 9
            elif module.out_features != 5:
                counted[0] += module.in_features * module.out_features

        for module in network:
            if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
                module.register_forward_hook(count)
        with torch.no_grad():
            network.eval()(torch.zeros(1, 3, 32, 32))
        assert multiply_adds(config, channels=3, size=32) == counted[0]
