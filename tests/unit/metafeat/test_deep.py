import torch
from torch.nn import functional

from metafeat.deep import DeepFeatures


def test_features_equal_conv_relu_pool_written_out():
    torch.manual_seed(0)
    deep = DeepFeatures(3, 32)
    images = torch.rand(5, 3, 32, 32)
    x = images
    for conv in deep.convs:
        x = functional.max_pool2d(functional.relu(functional.conv2d(x, conv.weight, conv.bias, padding=1)), 2)
    assert torch.allclose(deep(images), x.flatten(1), atol=1e-6)


def test_filters_are_32_64_32_and_features_512_at_32_pixels():
    deep = DeepFeatures(3, 32)
    assert [tuple(c.weight.shape) for c in deep.convs] == [(32, 3, 3, 3), (64, 32, 3, 3), (32, 64, 3, 3)]
    assert deep.n_features == 512
    assert deep(torch.rand(2, 3, 32, 32)).shape == (2, 512)


def test_odd_sides_are_floored():
    deep = DeepFeatures(4, 29)
    assert deep(torch.rand(2, 4, 29, 29)).shape == (2, deep.n_features) == (2, 32 * 9)
