"""The Siamese network: images and labels of a sample in, a point in R^256 out."""

import itertools
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart.history_store.errors import UsageError
from warmstart.metafeat.feature_names import FEATURES
from warmstart.metafeat.handcrafted import scaled
from warmstart.metafeat.labels import C_MAX, code_width
from warmstart.metafeat.spec import EMBEDDING, Backbone, Extractor, ModelSpec

CHUNK = 50
"""Images in a batch of the convolutions: their activations stay in a core's cache (measured best on CPU)."""


class SiameseNetwork(nn.Module):
    """Deep features of each image, a set encoder over the sample, after-layers 256-256-256 [Kim2017warmstart].

    Both sides of a Siamese pair use this one module. `features` and `encode` are separate, so that the convolutions,
    which cost nearly everything, see each image once for all draws. Handcrafted features, if any, enter the
    after-layers beside the encoder's output. They are standardised by constants that are kept with the weights.
    """

    handcrafted_centre: Tensor
    handcrafted_scale: Tensor

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        if spec.extractor == "landmarks":
            msg = "extractor: expected a set encoder, got 'landmarks', of which nothing is trained. Choose another."
            raise UsageError(msg)
        self.spec = spec
        has_convolutions = spec.extractor != "handcrafted"
        self.deep = make_deep_features(spec.backbone, spec.channels, spec.image_size) if has_convolutions else None
        n_features = 0 if self.deep is None else self.deep.n_features
        self.encoder = make_encoder(spec.extractor, n_features, code_width(spec.label_code))
        if spec.handcrafted:
            self.register_buffer("handcrafted_centre", torch.zeros(len(FEATURES), dtype=torch.float64))
            self.register_buffer("handcrafted_scale", torch.ones(len(FEATURES), dtype=torch.float64))
        self.after = nn.Sequential(
            nn.Linear(self.encoder.n_outputs + len(FEATURES) * spec.handcrafted, EMBEDDING),
            nn.ReLU(),
            nn.Linear(EMBEDDING, EMBEDDING),
            nn.ReLU(),
            nn.Linear(EMBEDDING, EMBEDDING),
        )

    def features(self, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> Tensor:
        """Return `n x p` features of `n x s x s x c` images (c = 1 or 3); p = 0 without convolutions.

        Labels matter to a label plane only.
        """
        device = next(self.parameters()).device
        if self.deep is None:
            return torch.zeros(len(images), 0, device=device)
        chunks = []
        for start in range(0, len(images), CHUNK):
            part = slice(start, start + CHUNK)
            chunks.append(self.deep(self._pixels(images[part], labels[part]).to(device)))
        return torch.cat(chunks)

    def encode(self, features: Tensor, codes: Tensor, handcrafted: Tensor | None = None) -> Tensor:
        """Return `b x 256` points from features `b x tau x p`, label codes `b x tau x w`, handcrafted ones `b x q`."""
        with torch.autocast(features.device.type, enabled=False):
            pooled = self.encoder(features.float(), codes)
            if handcrafted is not None:
                pooled = torch.cat((pooled, handcrafted), 1)
            return cast("Tensor", self.after(pooled))

    def standardised(self, features: NDArray[np.float64]) -> Tensor:
        """Return `b x q` handcrafted features float32 in this model's units, on its device."""
        centre, scale = (buffer.cpu().numpy() for buffer in (self.handcrafted_centre, self.handcrafted_scale))
        return torch.from_numpy(scaled(features, centre, scale)).float().to(self.handcrafted_centre.device)

    def set_units(self, centre: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
        """Set the constants that `standardised` uses, see `warmstart.metafeat.handcrafted.centre_and_scale`."""
        self.handcrafted_centre.copy_(torch.from_numpy(centre))
        self.handcrafted_scale.copy_(torch.from_numpy(scale))

    def _pixels(self, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> Tensor:
        pixels = torch.from_numpy(np.ascontiguousarray(images)).float().div_(255)
        if pixels.shape[3] == 1:
            pixels = pixels.expand(-1, -1, -1, 3)
        if self.spec.label_plane:
            plane = torch.from_numpy(np.asarray(labels, dtype=np.float32) / C_MAX)[:, None, None, None]
            pixels = torch.cat((pixels, plane.expand(*pixels.shape[:3], 1)), 3)
        return pixels.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)


MIXED = 128
HEADS = 4


class SumEncoder(nn.Module):
    """Aggregate by mean or sum over the sample (ADF): linear, so a label code contributes its average only.

    Args:
        n_features: p, width of the deep features.
        width: w, width of the label code.
        mean: divide the sum by the sample's size.
    """

    def __init__(self, n_features: int, width: int, *, mean: bool = True) -> None:
        super().__init__()
        self.mean = mean
        self.n_outputs = n_features + width

    def forward(self, features: Tensor, codes: Tensor) -> Tensor:
        """Return `b x (p + w)` from `b x tau x p` features and `b x tau x w` codes."""
        parts = [(part.mean(1) if self.mean else part.sum(1)) for part in (features, codes)]
        return torch.cat(parts, 1)


class MixEncoder(nn.Module):
    """Mix features and label of each image by FC128 + ReLU, then average: classes and looks interact."""

    def __init__(self, n_features: int, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(n_features + width, MIXED)
        self.n_outputs = MIXED

    def forward(self, features: Tensor, codes: Tensor) -> Tensor:
        """Return `b x 128` from `b x tau x p` features and `b x tau x w` codes."""
        return torch.relu(self.mix(torch.cat((features, codes), 2))).float().mean(1)


class BiLSTMEncoder(nn.Module):
    """Read the sample as a sequence: FC128 + ReLU, label appended, Bi-LSTM 128, last states of both directions."""

    def __init__(self, n_features: int, width: int) -> None:
        super().__init__()
        self.reduce = nn.Linear(n_features, MIXED)
        self.lstm = nn.LSTM(MIXED + width, MIXED, batch_first=True, bidirectional=True)
        self.n_outputs = 2 * MIXED

    def forward(self, features: Tensor, codes: Tensor) -> Tensor:
        """Return `b x 256` from `b x tau x p` features and `b x tau x w` codes, in their order."""
        reduced = torch.relu(self.reduce(features))
        _, (last, _) = self.lstm(torch.cat((reduced.to(codes.dtype), codes), 2))
        return torch.cat((last[0], last[1]), 1)


class NoEncoder(nn.Module):
    """No encoder: the handcrafted features alone describe the dataset."""

    n_outputs = 0

    def forward(self, features: Tensor, codes: Tensor) -> Tensor:  # noqa: ARG002  one signature for all
        """Return `b x 0`."""
        return features.new_zeros(len(features), 0)


class AttentionEncoder(nn.Module):
    """Mix features and label of each image by FC128 + ReLU, then average with learned weights [Ilse2018attention] Eq. 9.

    Each of four heads weighs the images by softmax over w·(tanh(V h) ⊙ σ(U h)): the order of the images and doubling
    the sample do not matter.
    """

    def __init__(self, n_features: int, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(n_features + width, MIXED)
        self.value, self.gate = nn.Linear(MIXED, MIXED), nn.Linear(MIXED, MIXED)
        self.score = nn.Linear(MIXED, HEADS, bias=False)
        self.n_outputs = HEADS * MIXED

    def forward(self, features: Tensor, codes: Tensor) -> Tensor:
        """Return `b x 512` from `b x tau x p` features and `b x tau x w` codes."""
        mixed = torch.relu(self.mix(torch.cat((features, codes), 2)))
        scores = self.score(torch.tanh(self.value(mixed)) * torch.sigmoid(self.gate(mixed)))
        return torch.einsum("bth,btm->bhm", scores.softmax(1), mixed).flatten(1)


Encoder = SumEncoder | MixEncoder | BiLSTMEncoder | AttentionEncoder | NoEncoder


def make_encoder(extractor: Extractor, n_features: int, width: int) -> Encoder:
    """Build the set encoder of that name (`ModelSpec` checks the name)."""
    if extractor == "bilstm":
        return BiLSTMEncoder(n_features, width)
    if extractor == "adf-mix":
        return MixEncoder(n_features, width)
    if extractor == "attention":
        return AttentionEncoder(n_features, width)
    if extractor == "handcrafted":
        return NoEncoder()
    return SumEncoder(n_features, width, mean=extractor == "adf")


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
