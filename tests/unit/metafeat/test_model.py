import dataclasses
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from warmstart.history_store.errors import (
    DataError,
    LabelError,
    ModelError,
    ModelMismatchError,
    UsageError,
)
from warmstart.metafeat.feature_names import FEATURES
from warmstart.metafeat.handcrafted import handcrafted
from warmstart.metafeat.labels import label_codes
from warmstart.metafeat.model import MetaFeatureModel, draw, random_network
from warmstart.metafeat.spec import ModelSpec, space_digest
from warmstart.metafeat.weights import weights_hash

SPEC = ModelSpec(image_size=16, tau=20)
SPACE = json.dumps({"name": "s", "hyperparameters": [{"name": "a"}], "conditions": [], "python_module_version": "1.2"})


@pytest.fixture(scope="module")
def model():
    return MetaFeatureModel.random(SPEC, seed=1)


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (50, 16, 16, 3), dtype=np.uint8)


@pytest.fixture
def labels():
    return np.random.default_rng(1).integers(0, 4, 50)


@pytest.fixture
def path(model, tmp_path):
    path = tmp_path / "model.safetensors"
    model.save(path, {"history_id": "h1", "space_digest": space_digest(SPACE), "quality": {"spearman": 0.5}})
    return path


@pytest.mark.parametrize("extractor", ["adf", "adf-mix", "bilstm", "attention"])
def test_embedding_is_the_mean_over_draws_embedded_one_by_one(extractor, images, labels):
    model = MetaFeatureModel.random(ModelSpec(extractor=extractor, image_size=16, tau=20), seed=2)
    rng = np.random.default_rng(7)
    points = []
    for _ in range(4):
        chosen = draw(rng, 50, 20)
        codes = torch.from_numpy(label_codes(labels[chosen], "rank"))[None]
        with torch.inference_mode():
            points.append(model.network.encode(model.network.features(images[chosen], labels[chosen])[None], codes)[0])
    got = model.embed(images, labels, rng=np.random.default_rng(7), draws=4)
    assert got.dtype == np.float32
    assert got.shape == (256,)
    assert got == pytest.approx(torch.stack(points).mean(0).numpy(), abs=1e-6)


def test_grey_images_count_as_three_equal_channels(model, images, labels):
    grey = images[..., :1]
    a, b = (model.embed(x, labels, rng=np.random.default_rng(0)) for x in (grey, grey.repeat(3, axis=3)))
    assert a.tobytes() == b.tobytes()


def test_label_plane_feeds_a_fourth_channel(images, labels):
    model = MetaFeatureModel.random(ModelSpec(label_code="none", label_plane=True, image_size=16, tau=20), seed=1)
    assert model.network.deep.convs[0].in_channels == 4
    a, b = (model.embed(images, y, rng=np.random.default_rng(0)) for y in (labels, labels + 100))
    assert not np.array_equal(a, b)


class TestHandcrafted:
    @pytest.fixture
    def informed(self):
        network = random_network(dataclasses.replace(SPEC, handcrafted=True), seed=1)
        rng = np.random.default_rng(8)
        network.set_units(rng.random(len(FEATURES)), rng.random(len(FEATURES)) + 0.5)
        return MetaFeatureModel(network)

    def test_features_of_the_images_enter_the_after_layers_in_the_models_units(self, informed, images, labels):
        rng = np.random.default_rng(7)
        samples = [draw(rng, 50, 20) for _ in range(3)]
        centre, scale = informed.network.handcrafted_centre.numpy(), informed.network.handcrafted_scale.numpy()
        standard = (
            (handcrafted(images, labels, rng=_after_permutation(np.random.default_rng(7).spawn(1)[0], 50)) - centre)
            / scale
        ).clip(-3, 3)
        points = []
        for chosen in samples:
            codes = torch.from_numpy(label_codes(labels[chosen], "rank"))[None]
            with torch.inference_mode():
                pooled = informed.network.encoder(
                    informed.network.features(images[chosen], labels[chosen])[None], codes
                )
                points.append(
                    informed.network.after(torch.cat((pooled, torch.from_numpy(standard).float()[None]), 1))[0]
                )
        got = informed.embed(images, labels, rng=np.random.default_rng(7), draws=3)
        assert got == pytest.approx(torch.stack(points).mean(0).numpy(), abs=1e-5)

    def test_constants_travel_with_the_file_and_count_in_the_hash(self, informed, images, labels, tmp_path):
        informed.save(tmp_path / "m.safetensors")
        again = MetaFeatureModel.load(tmp_path / "m.safetensors")
        a, b = (m.embed(images, labels, rng=np.random.default_rng(7)) for m in (informed, again))
        assert a.tobytes() == b.tobytes()
        assert informed.hash == again.hash != MetaFeatureModel.random(informed.spec, seed=1).hash


def _after_permutation(rng, n):
    """Advance the generator as the choice of the images does, which a complete sample does not show."""
    rng.permutation(n)
    return rng


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda x: x.astype(np.float32), DataError, "expected uint8 images .* of float32"),
        (lambda x: x[..., :2], DataError, r"got shape \(50, 16, 16, 2\)"),
        (lambda x: x[:0], DataError, "n ≥ 1"),
        (lambda x: x[0], DataError, r"got shape \(16, 16, 3\)"),
        (lambda x: x[:, :8, :8], ModelMismatchError, "expected images of 16 x 16 .* got 8 x 8"),
    ],
)
def test_wrong_images_are_refused(model, images, labels, change, error, message):
    with pytest.raises(error, match=message):
        model.embed(change(images), labels, rng=np.random.default_rng(0))


def test_wrong_labels_and_draws_are_refused(model, images, labels):
    with pytest.raises(LabelError, match="expected 50 integers"):
        model.embed(images, labels[:9], rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match="draws=0"):
        model.embed(images, labels, rng=np.random.default_rng(0), draws=0)


def test_hash_follows_weights_and_spec(model):
    assert model.hash == MetaFeatureModel.random(SPEC, seed=1).hash
    assert len(model.hash) == 16
    assert model.hash != MetaFeatureModel.random(SPEC, seed=2).hash
    assert model.hash != MetaFeatureModel.random(ModelSpec(image_size=16, tau=21), seed=1).hash
    for change in ({"backbone": "residual"}, {"handcrafted": True}, {"target": "rank"}):
        assert model.hash != MetaFeatureModel.random(dataclasses.replace(SPEC, **change), seed=1).hash


@pytest.mark.parametrize("keep", [0, 100, 0.999])
def test_truncated_file(path, keep):
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(ModelError, match="damaged, truncated or of another kind"):
        MetaFeatureModel.load(path)


def _rewrite(path, **changes):
    model = MetaFeatureModel.load(path)
    header = {"format": "warmstart-model", "version": 2, "spec": SPEC.to_dict(), "hash": model.hash} | changes
    save_file(load_file(path), path, metadata={"warmstart": json.dumps(header)})


def test_newer_version(path):
    _rewrite(path, version=3)
    with pytest.raises(ModelError, match=r"version 1 or 2, got version 3\. Upgrade warmstart"):
        MetaFeatureModel.load(path)


def test_altered_weights(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="The file was altered"):
        MetaFeatureModel.load(path)


def test_a_spec_that_does_not_fit_the_weights(path):
    misfit = ModelSpec.from_dict(SPEC.to_dict() | {"extractor": "bilstm"})
    whole, weights = path.read_bytes(), {name: tensor.numpy() for name, tensor in load_file(path).items()}
    _rewrite(path, spec=misfit.to_dict())
    with pytest.raises(ModelError, match="The file was altered"):
        MetaFeatureModel.load(path)
    path.write_bytes(whole)
    _rewrite(path, spec=misfit.to_dict(), hash=weights_hash(misfit, weights))
    with pytest.raises(ModelError, match="expected spec and weights of a model"):
        MetaFeatureModel.load(path)


def test_the_spelling_of_a_space_does_not_matter_to_its_digest():
    respelled = json.dumps(json.loads(SPACE) | {"python_module_version": "9"}, indent=3)
    assert space_digest(respelled) == space_digest(SPACE)
    assert space_digest('{"hyperparameters": []}') != space_digest(SPACE)


def test_specs_out_of_range():
    wrong = {"extractor": "vit", "label_code": "x", "tau": 0, "image_size": 4, "backbone": "resnet", "target": "l3"}
    for field, value in wrong.items():
        with pytest.raises(UsageError, match=f"{field}: expected"):
            ModelSpec(**{field: value})
