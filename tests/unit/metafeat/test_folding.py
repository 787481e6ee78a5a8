"""Batch norms folded into convolutions compute the same, or the network stays as it is."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `pictures` is not installed")

import torch
from torch import nn

from warmstart.metafeat.pretrained.folding import fold_batch_norms


class Block(nn.Module):
    """A convolution, its batch norm and, where `is_used_again`, the convolution's output beside that of the norm."""

    def __init__(self, *, is_used_again=False):
        super().__init__()
        self.conv, self.norm, self.is_used_again = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), is_used_again

    def forward(self, pixels):
        output = self.conv(pixels)
        return {"full": self.norm(output) + (output if self.is_used_again else 0)}


def trained(network):
    torch.manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
    return network.eval()


def norms(network):
    return sum(isinstance(module, nn.BatchNorm2d) for module in network.modules())


def test_the_same_without_norms():
    network, pixels = trained(Block()), torch.rand(2, 3, 9, 9)
    folded = fold_batch_norms(network, pixels[:1])
    assert (norms(network), norms(folded)) == (1, 0)
    torch.testing.assert_close(folded(pixels)["full"], network(pixels)["full"])


def test_what_folding_would_change_stays():
    network = trained(Block(is_used_again=True))
    assert fold_batch_norms(network, torch.rand(1, 3, 9, 9)) is network
    plain = nn.Conv2d(3, 4, 3)
    assert fold_batch_norms(plain, torch.rand(1, 3, 9, 9)) is plain


def test_features_of_a_packaged_network():
    pytest.importorskip("timm", reason="the extra `pictures` is not installed")
    from warmstart.metafeat.pretrained.backbones import find_backbone
    from warmstart.metafeat.pretrained.features import compute_features, open_network, to_pixels

    network = open_network(find_backbone("tf_efficientnet_lite0"), size=64, device=torch.device("cpu"))
    images = np.random.default_rng(0).integers(0, 256, (101, 64, 64, 3), np.uint8)
    assert norms(fold_batch_norms(network, to_pixels(images[:1], torch.device("cpu")))) == 0
    together = compute_features(network, images)
    alone = [compute_features(network, images[row : row + 1]) for row in range(0, len(images), 50)]
    for part in ("s8", "s16", "full"):
        np.testing.assert_allclose(
            getattr(together, part)[::50], np.vstack([getattr(one, part) for one in alone]), rtol=1e-3, atol=1e-4
        )
