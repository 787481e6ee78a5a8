"""Deep features: the convolutional front of a Siamese wing, one image at a time."""

import itertools

import torch
from torch import Tensor, nn

FILTERS = (32, 64, 32)


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
