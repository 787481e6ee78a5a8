"""The best networks of a study, trained again, saved and asked."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from stripes import pictures

import warmstart
from warmstart.history_store.errors import BrokenImagesError, DataError, MissingPathError, ModelError, UsageError
from warmstart.history_store.readers import open_images
from warmstart.history_store.wording import right_of_100
from warmstart.prediction import predict_validation
from warmstart.training.workloads import load_classifier
from warmstart.training.workloads.cnn.classifier import Networks


@pytest.fixture
def tuned(tiny, tmp_path, monkeypatch, trials_here):
    """Tune the target network for a few updates, and save the two best."""
    monkeypatch.chdir(tmp_path)
    told = []
    settings = {"space": "compact", "warm": "none", "budget": 12, "device": "cpu", "study": "s", "trials": 3}
    found = warmstart.tune(
        f"{tiny.history}::stripes0", **settings, save_model="n.safetensors", ensemble=2, on_message=told.append
    )
    return found, Networks.load("n.safetensors"), told


def test_they_repeat_their_trials_and_come_back(tuned, tiny, tmp_path):
    found, networks, told = tuned
    best = sorted((t for t in found.trials if t.status == "ok"), key=lambda trial: (trial.error, trial.number))[:2]
    assert [(m.trial, m.config, m.seed, m.error) for m in networks.members] == [
        (t.number, t.config, t.seed, t.error) for t in best
    ]
    about = found.to_dict()["saved_model"]
    assert about == {
        "path": "n.safetensors", "trials": [t.number for t in best], "validation_error": networks.error, "retrained": False, "interval": None
    }  # fmt: skip
    assert told[0].startswith(f"n.safetensors: 2 networks together: {right_of_100(networks.error)}.")
    source = open_images(f"{tiny.history}::stripes0")
    assert load_classifier("n.safetensors").dataset == source.fingerprint("listing")
    val = source.splits["val"]
    read = source.read(val, size=networks.size)
    probabilities = networks.predict(read.images)
    assert probabilities.shape == (len(val), 4)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert np.mean(probabilities.argmax(axis=1) != read.labels) == pytest.approx(networks.error, abs=1e-12)
    alone = [
        Networks(
            [member], [network], classes=networks.classes, size=networks.size,
            mean=networks._mean, spread=networks._spread, error=member.error,
        ).predict(read.images)
        for member, network in zip(networks.members, networks._networks, strict=True)
    ]  # fmt: skip
    np.testing.assert_allclose(np.mean(alone, axis=0), probabilities, atol=1e-6)
    first = float(np.mean(alone[0].argmax(axis=1) != read.labels))
    better = f" The best one alone has {right_of_100(first)}: leave out `ensemble` to save that."
    assert told[0].endswith(" right." + (better if first < networks.error else ""))
    for each, member in zip(alone, networks.members, strict=True):
        wrong = np.mean(each.argmax(axis=1) != read.labels)
        assert wrong == pytest.approx(member.error, abs=1.5 / len(val))  # bfloat16 in training, float32 here
    for images in (read.images[:, :16], read.images.astype(float), read.images[0]):
        with pytest.raises(DataError, match="classifier: expected images n x 32 x 32 x"):
            networks.predict(images)
    content = (tmp_path / "n.safetensors").read_bytes()
    for damage in (content[:200], content.replace(b'schema_version\\": 1', b'schema_version\\": 2'), b"", b"x" * 99):
        (tmp_path / "d.safetensors").write_bytes(damage)
        with pytest.raises(ModelError, match=r"d\.safetensors: expected networks"):
            Networks.load("d.safetensors")


@pytest.mark.slow
def test_a_study_without_broken_pictures_says_which_and_stays_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, (image, label) in enumerate(zip(*pictures(0), strict=True)):
        place = tmp_path / "photos" / str(label)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:03}.png")
    broken = sorted((tmp_path / "photos" / "1").iterdir())[0]
    broken.write_bytes(broken.read_bytes()[:50])
    told = []
    settings = {"space": "compact", "warm": "none", "budget": 12, "device": "cpu", "on_message": told.append}
    with pytest.raises(BrokenImagesError, match=r"got 1 broken of .*go on without them: `skip_broken`"):
        warmstart.tune("photos", trials=1, storage="other.db", skip_broken=False, **settings)
    with pytest.raises(UsageError, match="skip_broken: expected true or false"):
        warmstart.tune("photos", trials=1, skip_broken="yes", **settings)
    settings |= {"report": "r.md", "save_model": "n.safetensors"}
    found = warmstart.tune("photos", trials=1, skip_broken=True, **settings)
    assert found.counts == {"ok": 1}
    assert told[0] == f"left out 1/{broken.name}: cut short"
    assert len(warmstart.tune("photos", trials=2, skip_broken=True, **settings).trials) == 2
    with pytest.raises(UsageError, match=r"`skip_broken` False \(the study has True\)"):
        warmstart.tune("photos", trials=2, study="photos-cnn", **settings)
    told_of, _ = predict_validation(Networks.load("n.safetensors"), "n.safetensors", "photos", skip_broken=True)
    assert told_of.error == pytest.approx(Networks.load("n.safetensors").error, abs=1.5 / len(told_of.rows))
    assert all(
        (tmp_path / "photos" / row.image).read_bytes() and row.image != f"1/{broken.name}" for row in told_of.rows
    )
    assert all(row.truth == row.image.split("/")[0] for row in told_of.rows)


def test_what_is_no_file_of_networks(tiny):
    with pytest.raises(MissingPathError, match="expected a file of networks, got none"):
        Networks.load("none.safetensors")
    with pytest.raises(ModelError, match="expected networks that `warmstart classify` wrote"):
        Networks.load(tiny.model)


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"objective": "m:f"}, UsageError, "cannot be used with your own objective"),
        ({"save_model": "none/n.safetensors"}, MissingPathError, "expected a file in a folder that is there"),
        ({"save_model": __file__}, UsageError, "save_model: expected a new file, or networks to replace"),
        ({"ensemble": 0}, UsageError, "ensemble: expected a whole number of at least 1"),
    ],
)
def test_it_is_checked_before_anything_runs(tiny, tmp_path, monkeypatch, changes, error, told):
    monkeypatch.chdir(tmp_path)
    settings = {"space": "compact", "warm": "none", "save_model": "n.safetensors", "progress": pytest.fail}
    with pytest.raises(error, match=told):
        warmstart.tune(f"{tiny.history}::stripes0", **settings | changes)


def test_a_class_without_training_pictures_is_told_before_the_first_trial(tmp_path, monkeypatch, tiny, trials_here):
    """By the answer of a history where one is asked, else by the study: once."""
    images, labels = pictures(0)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        part = "val" if label == 2 or number % 3 == 0 else "train"
        place = tmp_path / "photos" / part / f"c{label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:03}.png")
    monkeypatch.chdir(tmp_path)
    for warm in ("none", "design"):
        said = []
        warmstart.tune(
            "photos", space="compact", budget=12, device="cpu", history=tiny.history, model=tiny.model, warm=warm,
            trials=1, study=warm, report=None, on_message=said.append,
        )  # fmt: skip
        assert [line for line in said if "no training pictures" in line] == [
            "Class c2 has no training pictures: no network learns of it."
        ], warm


def test_a_study_that_goes_on_elsewhere_saves_its_networks_and_is_recorded(tiny, tmp_path, monkeypatch):
    """The dataset lies at another path now, of the same bytes: the one that counts."""
    images, labels = pictures(1)
    settings = {"space": "compact", "warm": "none", "budget": 12, "device": "cpu", "study": "s"}
    settings |= {"storage": str(tmp_path / "s.db")}
    for folder in ("before", "after"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "before")
    np.savez("x.npz", images=images, labels=labels)
    warmstart.tune("x.npz", **settings, trials=1)
    (tmp_path / "before" / "x.npz").rename(tmp_path / "after" / "x.npz")
    monkeypatch.chdir(tmp_path / "after")
    found = warmstart.tune("x.npz", **settings, trials=2, save_model="n.safetensors")
    assert len(found.trials) == 2
    assert len(load_classifier("n.safetensors").members) == 1


def test_reports_name_the_files_that_were_saved(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"space": "compact", "warm": "none", "budget": 12, "device": "cpu", "save_model": "n.safetensors"}
    one, two = (f"{tiny.history}::stripes{n}" for n in (0, 1))
    found = warmstart.tune(one, **settings, study="s", trials=1, report="one.md")
    assert json.loads(Path("one.json").read_text())["saved_model"] == found.to_dict()["saved_model"]
    joint = warmstart.tune_many([one, two], **settings, trials=2, report="both.md")
    written = json.loads(Path("both.json").read_text())["studies"]
    assert [each["saved_model"] for each in written] == [each.saved_model.to_dict() for each in joint.studies]
    assert all(Path(each["saved_model"]["path"]).is_file() for each in written)
