"""Deep features: the convolutions of the Siamese network, one image at a time.

`paper` is the paper's three layers and keeps positions in the image. `residual` is deeper, forgets positions, and costs
about three times as much. Neither is pretrained.
"""

import itertools

import torch
from torch import Tensor, nn

from warmstart.metafeat.spec import Backbone

FILTERS = (32, 64, 32)
STAGES = (32, 64, 128)
_GROUP = 16


class DeepFeatures(nn.Module):
    """Map images to feature vectors: three times 3×3 convolution, ReLU, 2×2 pool [Kim2017warmstart].

    Pooling comes before the ReLU: both orders give the same function (the maximum of ReLUs is the ReLU of
    the maximum) and this one costs a quarter of the activations.

    Args:
        channels: 3, or 4 with a label plane.
        image_size: side in pixels, at least 8.
    """

    def __init__(self, channels: int, image_size: int) -> None:
        super().__init__()
        widths = (channels, *FILTERS)
        self.convs = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in itertools.pairwise(widths))
        self.n_features = FILTERS[-1] * (image_size // 2 ** len(FILTERS)) ** 2
        self.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> Tensor:
        """Return `n x p` features of `n x c x s x s` images, p = 32 (s // 8)²."""
        x = images
        for conv in self.convs:
            x = torch.relu(torch.max_pool2d(conv(x), 2))
        return x.flatten(1)


class ResidualBlock(nn.Module):
    """Residual block: two 3×3 convolutions with group normalisation of 16 channels [He2016identity]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.GroupNorm(width // _GROUP, width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Return `n x w x s x s` maps of `n x w x s x s` maps."""
        y = x
        for conv, norm in zip(self.convs, self.norms, strict=True):
            y = conv(torch.relu(norm(y)))
        return x + y


class ResidualFeatures(nn.Module):
    """Map images to feature vectors: three stages of 3×3 convolution, 2×2 pool, residual block; then mean and maximum.

    Groups are normalised within an image, so that an image's features do not depend on the others of its batch.

    Args:
        channels: 3, or 4 with a label plane.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        widths = (channels, *STAGES)
        self.convs = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in itertools.pairwise(widths))
        self.blocks = nn.ModuleList(ResidualBlock(width) for width in STAGES)
        self.norm = nn.GroupNorm(STAGES[-1] // _GROUP, STAGES[-1])
        self.n_features = 2 * STAGES[-1]
        self.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> Tensor:
        """Return `n x 256` features of `n x c x s x s` images, s ≥ 8."""
        x = images
        for conv, block in zip(self.convs, self.blocks, strict=True):
            x = block(torch.max_pool2d(conv(x), 2))
        x = torch.relu(self.norm(x))
        return torch.cat((x.mean((2, 3)), x.amax((2, 3))), 1)


def make_deep_features(backbone: Backbone, channels: int, image_size: int) -> DeepFeatures | ResidualFeatures:
    """Build the convolutions of that name (`ModelSpec` checks the name)."""
    return ResidualFeatures(channels) if backbone == "residual" else DeepFeatures(channels, image_size)
