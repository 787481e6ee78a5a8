import pytest
import torch
from torch.nn import functional

from warmstart.metafeat.siamese_network import DeepFeatures, ResidualBlock, ResidualFeatures


def test_features_equal_conv_relu_pool_written_out():
    torch.manual_seed(0)
    deep = DeepFeatures(3, 32)
    images = torch.rand(5, 3, 32, 32)
    x = images
    for conv in deep.convs:
        x = functional.max_pool2d(functional.relu(functional.conv2d(x, conv.weight, conv.bias, padding=1)), 2)
    assert torch.allclose(deep(images), x.flatten(1), atol=1e-6)


def test_a_residual_block_by_its_formula():
    torch.manual_seed(0)
    block = ResidualBlock(32)
    x = torch.randn(2, 32, 6, 6)
    y = x
    for conv in block.convs:
        grouped = y.unflatten(1, (2, 16))
        mean, var = grouped.mean((2, 3, 4), keepdim=True), grouped.var((2, 3, 4), keepdim=True, unbiased=False)
        y = functional.conv2d(
            torch.relu(((grouped - mean) / (var + 1e-5).sqrt()).flatten(1, 2)), conv.weight, padding=1
        )
    assert torch.allclose(block(x), x + y, atol=1e-5)


@pytest.mark.parametrize("side", [8, 13, 32])
def test_residual_features_are_256_of_each_image_alone(side):
    torch.manual_seed(0)
    deep = ResidualFeatures(3)
    images = torch.rand(6, 3, side, side)
    features = deep(images)
    assert features.shape == (6, deep.n_features) == (6, 256)
    assert (features[:, 128:] >= features[:, :128]).all(), "the maximum is no less than the mean"
    assert torch.allclose(torch.cat([deep(image[None]) for image in images]), features, atol=1e-5)
