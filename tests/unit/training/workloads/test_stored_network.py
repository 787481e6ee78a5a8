"""Networks of saved classifiers: compared with their file before memory is taken for them."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from warmstart.history_store.errors import DataError, ModelError
from warmstart.training.workloads import load_classifier
from warmstart.training.workloads.base import Member
from warmstart.training.workloads.classifier_file import METADATA_KEY
from warmstart.training.workloads.cnn.classifier import Networks
from warmstart.training.workloads.cnn.config import TargetConfig
from warmstart.training.workloads.cnn.network import build_network
from warmstart.training.workloads.stored_network import load_network

CONFIG = {"log10_learning_rate": -2.0, "log10_decay_rate": -6.0, "batch_size": 16, "num_layers_conv": 2, "num_layers_fc": 1, "dropout_rate": 0.2}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    network = build_network(TargetConfig.of(CONFIG), 1, 8, 2)
    members = [Member(trial=0, config=CONFIG, seed=0, error=0.5)]
    path = tmp_path / "c.safetensors"
    Networks(members, [network], classes=["a", "b"], size=8, mean=torch.zeros(1), spread=torch.ones(1), error=0.5).save(
        path
    )
    return path


def rewritten(file, **changes):
    with safe_open(file, framework="pt") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  it is no mapping
        header = json.loads(opened.metadata()[METADATA_KEY])
    config = changes.pop("config", {})
    header["members"][0]["config"].update(config)
    save_file(tensors, file, metadata={METADATA_KEY: json.dumps(header | changes)})
    return file


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 4096}, "other tensors than the file"),
        ({"size": 1_000_000}, "expected at most 100,000,000 pixels"),
        ({"classes": ["c"] * 100_000}, "other tensors than the file"),
        ({"config": {"num_layers_fc": 16}}, "other tensors than the file"),
    ],
)
def test_a_header_that_names_another_network_is_refused_before_it_is_built(file, changes, message):
    with pytest.raises((ModelError, DataError), match=message):
        Networks.load(rewritten(file, **changes))


def test_a_pretrained_network_of_many_gigabytes_is_not_built_for_a_small_file():
    timm = pytest.importorskip("timm")
    with pytest.raises(ValueError, match="other tensors than the file"):
        load_network(lambda: timm.create_model("vit_7b_patch16_dinov3", num_classes=0), {"x": torch.zeros(1)})


@pytest.mark.parametrize(("size", "channels"), [(32, 2_147_483_648), (32, 2), (100_000, 3)])
def test_a_classifier_of_impossible_pictures_is_refused_before_it_answers(file, monkeypatch, size, channels):
    class Read(Networks):
        def answer(self, images):
            pytest.fail("nothing was to be made")

    read = Read.load(file)
    read.size, read.channels = size, channels
    monkeypatch.setattr(Networks, "load", lambda path: read)
    with pytest.raises((ModelError, DataError), match=r"pictures of \d+ channels|pixels"):
        load_classifier(file)
