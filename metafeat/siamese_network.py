"""The Siamese network: images and labels of a sample in, a point in R^256 out."""

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart.history_store.errors import UsageError
from warmstart.metafeat.deep import make_deep_features
from warmstart.metafeat.encoders import make_encoder
from warmstart.metafeat.handcrafted import FEATURES, scaled
from warmstart.metafeat.labels import C_MAX, code_width
from warmstart.metafeat.spec import EMBEDDING, ModelSpec

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
