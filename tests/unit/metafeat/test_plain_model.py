"""A model of handcrafted features without torch: the same points, files and refusals as with it."""

import dataclasses

import numpy as np
import pytest

from warmstart.history_store.errors import DataError, MissingPathError, ModelError, ModelMismatchError
from warmstart.metafeat.feature_names import FEATURES
from warmstart.metafeat.model import MetaFeatureModel, random_network
from warmstart.metafeat.plain_model import PlainModel
from warmstart.metafeat.spec import ModelSpec

SPEC = ModelSpec(extractor="handcrafted", handcrafted=True, label_code="none", tau=1, image_size=8)


@pytest.fixture
def images():
    return np.random.default_rng(1).integers(0, 256, (50, 8, 8, 3), dtype=np.uint8)


@pytest.fixture
def labels():
    return np.arange(50) % 4


@pytest.fixture
def model():
    network, rng = random_network(SPEC, seed=1), np.random.default_rng(8)
    network.set_units(rng.random(len(FEATURES)), rng.random(len(FEATURES)) + 0.5)
    return MetaFeatureModel(network)


@pytest.fixture
def path(model, tmp_path):
    model.save(tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


@pytest.mark.parametrize("n", [2, 50])
def test_points_are_those_of_the_network(model, path, images, labels, n):
    expected = model.embed(images[:n], labels[:n], rng=np.random.default_rng(7))
    embedding = PlainModel.load(path).embed(images[:n], labels[:n], rng=np.random.default_rng(7))
    assert (embedding.dtype, embedding.shape) == (np.float32, (256,))
    np.testing.assert_allclose(embedding, expected, rtol=1e-5, atol=1e-6)


def test_a_model_that_looks_at_images_is_refused(tmp_path):
    looking = dataclasses.replace(SPEC, extractor="adf", handcrafted=False)
    MetaFeatureModel.random(looking).save(tmp_path / "adf.safetensors")
    with pytest.raises(ModelError, match="expected spec and weights of a model, got others"):
        PlainModel.load(tmp_path / "adf.safetensors")


def test_bad_files_and_images_are_refused(path, images, labels, tmp_path):
    with pytest.raises(MissingPathError, match="expected a model file"):
        PlainModel.load(tmp_path / "none.safetensors")
    whole = path.read_bytes()
    path.write_bytes(whole[:-3] + bytes(3))
    with pytest.raises(ModelError, match="The file was altered"):
        PlainModel.load(path)
    path.write_bytes(whole)
    model = PlainModel.load(path)
    with pytest.raises(ModelMismatchError, match="expected images of 8 x 8"):
        model.embed(np.zeros((3, 9, 9, 3), np.uint8), labels[:3], rng=np.random.default_rng(0))
    with pytest.raises(DataError, match="expected uint8 images"):
        model.embed(images.astype(float), labels, rng=np.random.default_rng(0))
