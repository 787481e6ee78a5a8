"""Statistics of a sample: hand values, noise and order, odd shapes."""

import numpy as np
import pytest

from warmstart.metafeat.sample_statistics import (
    ABOUT,
    SampleStatistics,
    pixel_statistics,
    sample_statistics,
)

RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (50, 32, 32, 3), dtype=np.uint8)


def shapes(n=40, seed=0):
    """Draw smooth dark discs of several places and sizes."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.arange(32), np.arange(32))
    discs = [np.hypot(x - a, y - b) < r for a, b, r in rng.uniform((8, 8, 3), (24, 24, 8), (n, 3))]
    return (np.stack(discs) * np.uint8(200))[..., None].astype(np.uint8)


def named(vector):
    return dict(zip(ABOUT, vector, strict=False))


def test_counts_by_hand():
    images = NOISE[[0, 0, 1, 2]]
    statistics = sample_statistics(images, np.array([0, 0, 1, 2]))
    assert (statistics.n_images, statistics.distinct, statistics.paired) == (4, 0.75, 0.5)


def test_pixels_by_hand():
    # Two pictures, one black and one white: nothing varies within, the mean picture is flat.
    statistics = named(
        pixel_statistics(np.array([0, 255], np.uint8)[:, None, None, None] * np.ones((2, 8, 8, 3), np.uint8))
    )
    assert statistics["brightness"] == pytest.approx(0.5)
    assert statistics["contrast"] == pytest.approx(np.log(0.02))
    assert statistics["brightness_sd"] == pytest.approx(np.log(0.52))
    assert (statistics["flat"], statistics["alignment"], statistics["saturation"], statistics["extreme"]) == (
        1,
        0,
        0,
        1,
    )
    red = np.zeros((3, 8, 8, 3), np.uint8)
    red[..., 0] = 255
    assert named(pixel_statistics(red))["saturation"] == pytest.approx(1.0)
    assert named(pixel_statistics(np.repeat(shapes(1), 5, 0)))["alignment"] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(("side", "n"), [(1, 1), (2, 5), (3, 2), (8, 1), (33, 5)])
def test_any_shape_gives_finite_numbers_that_come_back(side, n):
    for images in (np.zeros((n, side, side, 1), np.uint8), NOISE[:n, :side, :side] if side < 33 else NOISE[:n]):
        statistics = sample_statistics(images, np.arange(n))
        vector = statistics.to_vector()
        assert np.isfinite(vector).all()
        back = SampleStatistics.from_vector(vector.astype(np.float32))
        assert back.n_images == n
        np.testing.assert_allclose(back.to_vector(), vector, rtol=1e-5, atol=1e-6)
