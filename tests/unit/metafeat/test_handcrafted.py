import hashlib

import numpy as np
import pytest

from warmstart.history_store.errors import DataError, LabelError, UsageError
from warmstart.metafeat.feature_names import ABOUT, FEATURES
from warmstart.metafeat.handcrafted import SUBSAMPLE, centre_and_scale, handcrafted, scaled


def features(images, labels, seed=0):
    vector = handcrafted(images, np.asarray(labels), rng=np.random.default_rng(seed))
    assert vector.shape == (len(FEATURES),)
    assert vector.dtype == np.float64
    assert np.isfinite(vector).all(), [name for name, x in zip(FEATURES, vector, strict=True) if not np.isfinite(x)]
    return dict(zip(FEATURES, vector, strict=True))


def noise(n=60, side=16, channels=3, seed=1):
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, channels), dtype=np.uint8)


@pytest.fixture(scope="module")
def digits():
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return (bunch.images[:380, :, :, None] * 15).astype(np.uint8), bunch.target[:380].astype(np.int64)


@pytest.fixture(scope="module")
def of_digits(digits):
    return features(*digits)


class TestHandValues:
    def test_counts(self):
        values = features(noise(8), [0, 0, 0, 0, 0, 0, 3, 3])
        assert values["log_n"] == pytest.approx(np.log(8))
        assert values["log_classes"] == pytest.approx(np.log(2))
        assert values["log_per_class"] == pytest.approx(np.log(4))
        assert (values["smallest_class"], values["largest_class"]) == (0.25, 0.75)
        assert values["class_entropy"] == pytest.approx(-(0.75 * np.log2(0.75) + 0.25 * np.log2(0.25)))

    def test_a_checkerboard(self):
        board = np.indices((8, 8)).sum(0) % 2 * 255
        values = features(np.tile(board[None, :, :, None], (4, 1, 1, 1)).astype(np.uint8), [0, 1, 0, 1])
        assert (values["pixel_mean"], values["pixel_sd"], values["pixel_kurtosis"]) == pytest.approx((0.5, 0.5, -2))
        assert (values["image_mean_sd"], values["image_sd_mean"], values["image_sd_sd"]) == pytest.approx((0, 0.5, 0))
        assert values["gradient_energy"] == pytest.approx(1)
        assert values["extreme_pixels"] == 1
        assert values["alignment"] == pytest.approx(1)
        assert values["high_frequencies"] > 0.95

    def test_one_colour(self):
        images = np.zeros((3, 4, 4, 3), dtype=np.uint8)
        images[..., 0] = 200
        values = features(images, [0, 1, 0])
        assert (values["saturation_mean"], values["saturation_sd"], values["grey"]) == (1, 0, 0)
        assert values["hue_spread"] == pytest.approx(0, abs=1e-12)
        assert (values["flat_border"], values["background"]) == (1, 1)

    def test_spectrum_of_components_against_numpy(self, digits, of_digits):
        flat = digits[0].reshape(len(digits[0]), -1) / 255
        variance = np.sort(np.linalg.eigvalsh(np.cov(flat.T)))[::-1]
        for k in (1, 2, 5, 10, 20):
            assert of_digits[f"pca_{k}"] == pytest.approx(variance[:k].sum() / variance.sum())
        assert of_digits["dimension"] == pytest.approx(np.log(variance.sum() ** 2 / (variance**2).sum()))

    def test_between_class_share_of_two_flat_classes(self):
        images = np.repeat(np.array([0, 255], dtype=np.uint8), 10)[:, None, None, None] * np.ones(
            (1, 4, 4, 1), np.uint8
        )
        values = features(images, np.repeat([0, 1], 10))
        for name in ("between_classes", "fisher_best", "best_landmark", "pca_1"):
            assert values[name] == pytest.approx(1), name
        for name in ("nn", "centroid", "ridge", "bayes", "edges"):
            assert values[f"{name}_gain"] == pytest.approx(0.5), name
        assert values["centroid_to_nn"] == values["edges_to_nn"] == 0


class TestInvariances:
    def test_numbering_of_classes_and_order_of_images_do_not_matter(self, digits, of_digits):
        images, labels = digits
        assert len(images) <= SUBSAMPLE
        rng = np.random.default_rng(3)
        renumbered = features(images, (rng.permutation(50) + 7)[labels])
        assert renumbered == of_digits
        order = rng.permutation(len(images))
        assert features(images[order], labels[order]) == of_digits

    def test_a_grey_image_may_have_one_channel_or_three(self, digits):
        images, labels = digits
        one, three = features(images, labels), features(np.repeat(images, 3, 3), labels)
        for name in FEATURES:
            assert one[name] == pytest.approx(three[name], abs=1e-6 if not name.endswith(("_gain", "_nn")) else 0.05)


DEGENERATE = {
    "one image": (noise(1), [4]),
    "two images": (noise(2), [0, 1]),
    "two images of a class": (noise(2), [1, 1]),
    "two equal images": (np.repeat(noise(1), 2, 0), [0, 1]),
    "one image a class": (noise(30), range(30)),
    "one class": (noise(30), [0] * 30),
    "constant images": (np.full((20, 8, 8, 3), 128, np.uint8), np.arange(20) % 2),
    "black": (np.zeros((20, 8, 8, 1), np.uint8), np.arange(20) % 4),
    "one differs": (np.concatenate((np.zeros((19, 8, 8, 1), np.uint8), noise(1, 8, 1))), np.arange(20) % 4),
    "one pixel": (noise(20, 1), np.arange(20) % 2),
    "two pixels": (noise(20, 2, 1), np.arange(20) % 2),
    "odd side": (noise(20, 13), np.arange(20) % 2),
    "a rare class": (noise(40), [0] * 39 + [1]),
    "huge class numbers": (noise(20), np.arange(20) % 2 * 10**12),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_finite_whatever_comes(case):
    features(*DEGENERATE[case])


def robust_scores(table, rows):
    return scaled(table, *centre_and_scale(table[rows]))


class TestRobustScores:
    def test_median_and_deviation_of_the_history_alone(self):
        table = np.array([[1.0, 5, 7], [2, 5, 7], [3, 5, 7], [1000, 9, 7]])
        result = robust_scores(table, [0, 1, 2])
        np.testing.assert_allclose(result[:3, 0], np.array([-1, 0, 1]) / 1.4826)
        assert result[3, 0] == 3
        assert not result[:, 1:].any(), "constant over the history, so left out"

    def test_mostly_equal_values_fall_back_to_the_standard_deviation(self):
        centre, scale = centre_and_scale(np.array([[0.0], [0], [0], [1]]))
        assert (centre[0], scale[0]) == (0, pytest.approx(np.sqrt(3) / 4))

    def test_no_row_is_refused(self):
        with pytest.raises(UsageError, match="expected `m x p` with m ≥ 1"):
            centre_and_scale(np.ones((0, 2)))


class TestRefusals:
    @pytest.mark.parametrize(("shape", "dtype"), [((0, 8, 8, 3), "u1"), ((2, 8, 8, 2), "u1"), ((2, 8, 8, 3), "f8")])
    def test_images_of_another_kind(self, shape, dtype):
        images = np.zeros(shape, dtype)
        with pytest.raises(DataError, match="handcrafted: expected uint8 images n x s x s x c"):
            handcrafted(images, np.zeros(len(images), dtype=np.int64), rng=np.random.default_rng(0))

    def test_labels_that_do_not_fit(self):
        with pytest.raises(LabelError, match="expected 2 integers"):
            handcrafted(noise(2), np.zeros(3, dtype=np.int64), rng=np.random.default_rng(0))


def test_every_feature_is_described_once_and_their_list_is_fixed():
    assert len(set(ABOUT.values())) == len(FEATURES) == 49
    digest = hashlib.sha256("\n".join(FEATURES).encode()).hexdigest()[:12]
    assert digest == "40779d1b846b", (
        "models with handcrafted features depend on this list: raise the model format's version"
    )
