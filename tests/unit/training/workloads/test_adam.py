"""Adam's steps are those of `torch.optim`, which a process that trains need not load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from warmstart.training.workloads.adam import Adam


def network() -> nn.Module:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 5))
    return body.to(memory_format=torch.channels_last)


def trained(step: Callable[[float], None], net: nn.Module) -> list[torch.Tensor]:
    """Take ten steps with a rate that changes, one of them without a gradient of the first layer."""
    draws = torch.Generator().manual_seed(1)
    for turn in range(10):
        images = torch.rand(16, 3, 8, 8, generator=draws)
        loss = nn.functional.cross_entropy(net(images), torch.arange(16) % 5)
        loss.backward()
        if turn == 4:
            net[0].weight.grad = None
        step(0.01 / (turn + 1))
    return [each.detach().clone() for each in net.parameters()]


@pytest.mark.parametrize(
    ("given", "theirs", "settings"),
    [
        ({"fused": False}, torch.optim.Adam, {"fused": False}),
        ({"weight_decay": 0.0}, torch.optim.AdamW, {"weight_decay": 0.0}),
        ({"weight_decay": 0.1, "fused": True}, torch.optim.AdamW, {"weight_decay": 0.1, "fused": True}),
    ],
)
def test_steps_are_those_of_torch_optim_bit_for_bit(
    given: dict[str, Any], theirs: Callable[..., torch.optim.Optimizer], settings: dict[str, Any]
) -> None:
    ours, peer = network(), network()
    optimizer = theirs(peer.parameters(), **settings)

    def step(rate: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()

    wanted = trained(step, peer)
    found = trained(Adam(ours.parameters(), **given).step, ours)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
    assert all(each.grad is None for each in ours.parameters())
