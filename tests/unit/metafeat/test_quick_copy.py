"""A quick copy beside the network that it was made of: the same answers, the same gradients, the same parameters."""

import pytest
import timm
import torch
from timm.layers import BatchNormAct2d, Conv2dSame
from torch import nn

from warmstart.metafeat.pretrained.quick_copy import QuickConvolution, quick_copy

pytestmark = pytest.mark.filterwarnings("error")

CONVOLUTIONS = {
    "1x1": lambda: nn.Conv2d(6, 4, 1, bias=False),
    "1x1 with a bias": lambda: nn.Conv2d(6, 4, 1),
    "1x1 that leaves pixels out": lambda: nn.Conv2d(6, 4, 1, stride=2),
    "1x1 with a border": lambda: nn.Conv2d(6, 4, 1, padding=1),
    "1x1 in groups": lambda: nn.Conv2d(6, 4, 1, groups=2),
    "3x3": lambda: nn.Conv2d(6, 4, 3, padding=1),
    "depthwise": lambda: nn.Conv2d(6, 6, 3, padding=1, groups=6),
    "depthwise, stride 2, as TensorFlow pads": lambda: Conv2dSame(6, 6, 3, stride=2, groups=6, bias=False),
    "depthwise, no square": lambda: nn.Conv2d(6, 6, (5, 3), padding=(2, 1), stride=(2, 1), groups=6, bias=False),
    "depthwise, dilated": lambda: nn.Conv2d(6, 6, 3, padding=2, dilation=2, groups=6),
    "depthwise, more channels": lambda: nn.Conv2d(6, 12, 3, padding=1, groups=6),
    "padding in words": lambda: nn.Conv2d(6, 6, 3, padding="same", groups=6),
    "a reflected border": lambda: nn.Conv2d(6, 6, 3, padding=1, padding_mode="reflect", groups=6),
}


def moved(norm):
    """Give a norm numbers that are not those it begins with."""
    draws = torch.Generator().manual_seed(norm.num_features)
    with torch.no_grad():
        for part in (norm.weight, norm.bias, norm.running_mean):
            part.copy_(torch.randn(part.shape, generator=draws))
        norm.running_var.copy_(torch.rand(norm.num_features, generator=draws) + 0.1)
    return norm


def frozen(network):
    """Make a network ready as fine-tuning does: norms stand still."""
    norms = {id(p) for m in network.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()}
    for parameter in network.parameters():
        parameter.requires_grad_(id(parameter) not in norms)
    return network.double().eval()


def gradients(network, pixels):
    network.zero_grad(set_to_none=True)
    out = network(pixels)
    (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
    return out.detach(), [p.grad.clone() for p in network.parameters() if p.grad is not None]


def assert_same(network, pixels):
    replica = quick_copy(network, pixels[:2])
    assert replica is not network
    trained = [{id(p) for p in each.parameters() if p.requires_grad} for each in (network, replica)]
    assert trained[0] == trained[1] != set()
    expected, its = gradients(network, pixels)
    quick_gradients, own = gradients(replica, pixels)
    torch.testing.assert_close(quick_gradients, expected, rtol=1e-10, atol=1e-10)
    by_shape = sorted(its, key=lambda g: (g.shape, float(g.norm())))
    for one, other in zip(by_shape, sorted(own, key=lambda g: (g.shape, float(g.norm()))), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-9, atol=1e-9)
    return replica


@pytest.mark.parametrize(("norm", "side"), [(None, 5), (nn.BatchNorm2d, 12), (BatchNormAct2d, 4)])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_every_convolution_answers_and_learns_the_same(name, norm, side):
    torch.manual_seed(side)
    convolution = CONVOLUTIONS[name]()
    behind = [] if norm is None else [moved(norm(convolution.out_channels))]
    network = frozen(nn.Sequential(nn.Conv2d(3, 6, 1), nn.ReLU(), convolution, *behind, nn.Flatten()))
    pixels = torch.rand(3, 3, side, side, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    assert_same(network, pixels)


@pytest.mark.parametrize(
    "architecture", ["tf_efficientnet_lite0", "resnet18", "mobilenetv3_small_050", "convnext_atto"]
)
def test_networks_of_timm_answer_and_learn_the_same(architecture):
    torch.manual_seed(0)
    network = timm.create_model(architecture, pretrained=False, num_classes=4)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            moved(module)
            with torch.no_grad():
                module.weight.mul_(0.2)  # answers of deep networks stay small
    replica = assert_same(frozen(network), torch.rand(2, 3, 32, 32, dtype=torch.float64))
    assert sum(isinstance(module, QuickConvolution) for module in replica.modules()) > 3


def test_what_trains_the_copy_trains_the_network():
    network = frozen(nn.Sequential(nn.Conv2d(3, 4, 1), moved(nn.BatchNorm2d(4)), nn.Flatten()))
    pixels = torch.rand(2, 3, 4, 4, dtype=torch.float64)
    replica, before = quick_copy(network, pixels), network(pixels)
    with torch.no_grad():
        for parameter in replica.parameters():
            parameter.add_(0.5)
    assert not torch.allclose(network(pixels), before)
    torch.testing.assert_close(replica(pixels), network(pixels))
    assert list(network.state_dict()) == [f"0.{k}" for k in ("weight", "bias")] + [f"1.{k}" for k in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]  # fmt: skip


class Twice(nn.Module):
    """The same convolution and norm, two times over."""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 3, 3, padding=1), moved(nn.BatchNorm2d(3))

    def forward(self, maps):
        return self.norm(self.convolution(self.norm(self.convolution(maps)))).flatten(1)


class Sum(Twice):
    """A norm of a sum, not of what the convolution gives."""

    def forward(self, maps):
        return self.norm(self.convolution(maps) + maps).flatten(1)


@pytest.mark.parametrize("kind", [Twice, Sum])
def test_norms_that_are_not_of_one_convolution_alone_stay(kind):
    torch.manual_seed(0)
    replica = assert_same(frozen(kind()), torch.rand(2, 3, 4, 4, dtype=torch.float64))
    assert any(isinstance(module, nn.BatchNorm2d) for module in replica.modules())


class Aside(Twice):
    """What the convolution gives goes past its norm, too: a copy of it cannot be right."""

    def forward(self, maps):
        output = self.convolution(maps)
        return (self.norm(output) + output).flatten(1)


class Reads(Twice):
    """A network that does more with its convolution than call it."""

    def forward(self, maps):
        return self.norm(self.convolution(maps)).flatten(1) * self.convolution.weight.mean()


@pytest.mark.parametrize("kind", [Aside, Reads])
def test_where_a_copy_would_answer_otherwise_it_is_the_network_itself(kind):
    network = frozen(kind())
    assert quick_copy(network, torch.rand(2, 3, 4, 4, dtype=torch.float64)) is network
