"""A saved classifier is asked about pictures; the network is one of the built-in workload, so that no extra is needed."""

import json

import numpy as np
import pytest
from PIL import Image
from stripes import pictures

from warmstart import predict
from warmstart.history_store.errors import (
    BrokenImagesError,
    DataError,
    LabelError,
    MissingPathError,
    ModelError,
    UsageError,
)
from warmstart.history_store.readers import open_arrays, open_images
from warmstart.history_store.wording import right_of_100
from warmstart.training.workloads import Member, SourceDataset, get_workload, load_classifier
from warmstart.training.workloads.classifier_images import to_channels


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Train a small network on stripes of four classes."""
    images, labels = pictures(0)
    dataset = SourceDataset(open_arrays(images, ["abcd"[label] for label in labels]))
    workload = get_workload("cnn")
    config = {"log10_learning_rate": -2.5, "log10_decay_rate": -6.0, "batch_size": 16}
    config |= {"num_layers_conv": 2, "num_layers_fc": 1, "dropout_rate": 0.0}
    prepared = workload.prepare(dataset, device="cpu")
    result = prepared.train(config, seed=0, budget=workload.budget(amount=60), keep=True)
    path = tmp_path_factory.mktemp("model") / "clf.safetensors"
    prepared.combine([Member(0, config, 0, result.error)], [result.model]).save(path)
    return path


@pytest.fixture
def folder(tmp_path):
    """Write a few of the stripes as pictures."""
    images, _ = pictures(0)
    (tmp_path / "new" / "deep").mkdir(parents=True)
    for number in range(6):
        place = tmp_path / "new" / ("deep" if number % 2 else ".") / f"{number}.png"
        Image.fromarray(images[number].squeeze()).save(place)
    (tmp_path / "new" / "notes.txt").write_text("no picture")
    return tmp_path / "new"


def test_files_and_folders_are_asked_in_order(model, folder):
    found = predict(model, [folder / "2.png", folder])
    assert [row.image for row in found.rows] == [
        str(folder / name) for name in ("2.png", "0.png", "2.png", "4.png", "deep/1.png", "deep/3.png", "deep/5.png")
    ]
    assert found.classes == ("a", "b", "c", "d")
    for row in found.rows:
        assert row.probability == max(row.probabilities.values())
        assert sum(row.probabilities.values()) == pytest.approx(1, abs=1e-5)
    assert found.rows[0].probabilities == found.rows[2].probabilities
    assert found.error is None


def test_a_labelled_dataset_is_counted(model, tmp_path):
    images, labels = pictures(0)
    np.savez(tmp_path / "s.npz", images=images, labels=np.array(["abcd"[label] for label in labels]))
    found = predict(model, dataset=tmp_path / "s.npz")
    wrong = sum(row.label != "abcd"[label] for row, label in zip(found.rows, labels, strict=True))
    assert found.error == wrong / len(labels)
    table = found.confusion()
    assert sum(value for row in table for name, value in row.items() if name != "truth") == len(labels)
    with pytest.raises(DataError, match="expected some of the classes a, b, c, d, got 0, 1"):
        predict(model, dataset="sklearn:digits")


def test_classes_that_the_classifier_does_not_know_are_told(model, tmp_path, cli):
    images, labels = pictures(0)
    named = np.array(["abxy"[label] for label in labels])
    np.savez(tmp_path / "s.npz", images=images, labels=named)
    found = predict(model, dataset=tmp_path / "s.npz")
    known = [row for row in found.rows if row.truth in "ab"]
    without = sum(row.label != row.truth for row in known) / len(known)
    line = f"{len(named) - len(known)} pictures of classes that the model does not know (x, y): every answer is wrong there. Without them the error is {without:.4g}."
    assert found.unknown_line == line
    assert {"a", "b"} <= found.confusion()[0].keys() - {"truth"}
    assert [row["truth"] for row in found.confusion()] == ["a", "b", "x", "y"]
    assert line in " ".join(cli("predict", model, "--dataset", tmp_path / "s.npz").err.split())
    assert line in found._repr_html_()
    np.savez(tmp_path / "s.npz", images=images, labels=np.array(["abcd"[label] for label in labels]))
    assert not predict(model, dataset=tmp_path / "s.npz").unknown_line


def test_the_dataset_that_it_was_tuned_on_is_told(model, tmp_path, cli):
    images, labels = pictures(0)
    named = np.array(["abcd"[label] for label in labels])
    np.savez(tmp_path / "s.npz", images=images, labels=named)
    np.savez(tmp_path / "other.npz", images=images[:-1], labels=named[:-1])
    classifier = load_classifier(model)
    assert classifier.dataset is None
    assert predict(model, dataset=tmp_path / "s.npz").tuned_line == ""
    classifier.dataset = open_images(tmp_path / "s.npz").fingerprint("listing")
    classifier.save(tmp_path / "clf.safetensors")
    found = predict(tmp_path / "clf.safetensors", dataset=tmp_path / "s.npz")
    said = f"The model was tuned on this dataset and trained on pictures of it: expect fewer right answers on others. Of pictures that it was not trained on, {right_of_100(classifier.error)}."
    assert found.tuned_line == said
    assert found.to_dict()["tuned_error"] == classifier.error
    assert said in found._repr_html_()
    assert said in " ".join(cli("predict", tmp_path / "clf.safetensors", "--dataset", tmp_path / "s.npz").err.split())
    other = predict(tmp_path / "clf.safetensors", dataset=tmp_path / "other.npz")
    assert other.tuned_line == ""
    assert "tuned_error" not in other.to_dict()


@pytest.mark.parametrize("bad", [(8,), (0, 1, 2, 3, 5, 8)], ids=["last", "many"])
def test_pictures_that_are_broken_together_are_left_out(model, tmp_path, monkeypatch, bad):
    """A reader refuses to give broken pictures alone, as one that is read with others like it may be."""
    monkeypatch.setattr("warmstart.prediction._CHUNK", 4)
    images, _ = pictures(0)
    for number in range(9):
        place = tmp_path / "photos" / ("a" if number < 5 else "b") / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images[number].squeeze()).save(place)
        if number in bad:
            place.write_bytes(b"no picture")
    found = predict(model, dataset=tmp_path / "photos", skip_broken=True)
    names = [f"{'a' if number < 5 else 'b'}/{number}.png" for number in range(9)]
    assert [row.image for row in found.rows] == [name for number, name in enumerate(names) if number not in bad]
    assert [row.truth for row in found.rows] == [row.image[0] for row in found.rows]
    assert sorted(found.broken) == [(names[number], "not a picture") for number in bad]
    with pytest.raises(BrokenImagesError, match="broken of"):
        predict(model, dataset=tmp_path / "photos")
    for name in names:
        (tmp_path / "photos" / name).write_bytes(b"no picture")
    with pytest.raises(BrokenImagesError, match=r"a/0\.png \(not a picture\).*Not one is left"):
        predict(model, dataset=tmp_path / "photos", skip_broken=True)


def test_what_cannot_be_asked_is_told(model, folder, tmp_path):
    (folder / "bad.png").write_bytes(b"no picture")
    with pytest.raises(BrokenImagesError, match=r"1 broken of 7: .*bad\.png"):
        predict(model, folder)
    found = predict(model, folder, skip_broken=True)
    assert len(found.rows) == 6
    assert [image for image, _ in found.broken] == [str(folder / "bad.png")]
    with pytest.raises(BrokenImagesError, match="Not one is left"):
        predict(model, folder / "bad.png", skip_broken=True)
    (folder / "empty.png").write_bytes(b"")
    whole = (folder / "0.png").read_bytes()
    (folder / "half.png").write_bytes(whole[: len(whole) // 2])
    found = predict(model, folder, skip_broken=True)
    assert [reason for _, reason in found.broken] == ["not a picture", "an empty file", "cut short"]
    with pytest.raises(MissingPathError, match="nowhere: expected a picture"):
        predict(model, "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="a folder without any"):
        predict(model, tmp_path / "empty")
    with pytest.raises(UsageError, match="got neither"):
        predict(model)
    with pytest.raises(UsageError, match="got both"):
        predict(model, folder, dataset="sklearn:digits")
    with pytest.raises(ModelError, match=r"bad\.png: expected networks"):
        predict(folder / "bad.png", folder)


def test_arrays_are_asked_as_the_same_pictures_in_files_are(model, folder):
    images, labels = pictures(0)
    told, files = [], predict(model, [folder / "0.png", folder / "2.png"])
    opaque = np.pad(images[:3], [(0, 0)] * 3 + [(0, 1)], constant_values=255)
    for given in (images[:3], images[:3] / 255, opaque, images[:3] * np.uint16(257)):
        found = predict(model, given, progress=lambda *now: told.append(now))
        assert [row.image for row in found.rows] == ["0", "1", "2"]
        assert [row.probabilities for row in found.rows[::2]] == [row.probabilities for row in files.rows]
    assert told[:2] == [(0, 3), (3, 3)]
    names = ["abcd"[label] for label in labels]
    labelled = predict(model, dataset=(images, names))
    assert [row.truth for row in labelled.rows] == names
    assert labelled.rows[2].probabilities == files.rows[1].probabilities
    pairs = list(zip(images, names, strict=True))
    assert predict(model, dataset=pairs).rows == labelled.rows


def test_grey_and_coloured_pictures_fit_a_classifier_of_the_other_kind():
    grey = np.arange(4, dtype=np.uint8).reshape(1, 2, 2, 1)
    assert np.array_equal(to_channels(to_channels(grey, 3), 1), grey)
    colour = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(colour).convert("L"), np.int64)
    assert np.abs(to_channels(colour, 1)[..., 0] - expected).max() <= 1


def test_the_command_writes_tables_and_json(model, folder, cli):
    table = cli("predict", model, folder / "0.png", folder / "2.png")
    assert table.code == 0
    assert all(name in table.out for name in ("0.png", "2.png", "probability"))
    document = json.loads(cli("predict", model, folder, "--format", "json").out)
    assert document["predictions"][0]["image"] == str(folder / "0.png")
    assert cli("predict", model, "nowhere").code == 2


def test_a_report_gets_the_confusion_and_the_worst_pictures(tmp_path):
    from warmstart.prediction import Prediction, Predictions
    from warmstart.studies.results.classifier_record import classifier_record
    from warmstart.studies.results.report import add_classifier
    from warmstart.studies.results.summary import SavedModel

    saved = SavedModel("clf.safetensors", (3, 1), 0.6, retrained=False, interval=(0.3, 0.8))
    rows = tuple(
        Prediction(f"{n}.png", "a" if p > 0.5 else "b", max(p, 1 - p), {"a": p, "b": 1 - p}, truth)
        for n, (p, truth) in enumerate([(0.9, "a"), (0.4, "a"), (0.8, "b"), (0.3, "b"), (0.95, "b")])
    )
    said = Predictions("clf.safetensors", ("a", "b"), rows)
    assert said.error == 0.6
    assert said.confusion() == [{"truth": "a", "a": 1, "b": 1}, {"truth": "b", "a": 2, "b": 1}]
    assert [row.image for row in said.worst(2)] == ["4.png", "2.png"]
    (tmp_path / "r.md").write_text("# Study\n")
    (tmp_path / "r.json").write_text('{"best": 1}')
    add_classifier(tmp_path / "r.md", classifier_record(said, saved), saved)
    text = (tmp_path / "r.md").read_text()
    assert text.startswith("# Study\n\n## The saved classifier")
    assert "| 4.png | b | a | 0.05 |" in text
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["best"] == 1
    assert document["saved_model"] == saved.to_dict()
    assert [row["image"] for row in document["classifier"]["worst"]] == ["4.png", "2.png", "1.png"]
    assert document["classifier"]["trained_on_validation"] is False
    assert [row["image"] for row in document["classifier"]["doubted_labels"]] == ["4.png", "2.png", "1.png"]
    assert document["classifier"]["mixed_up"][0] == {"truth": "b", "answer": "a", "n": 2, "images": ["4.png", "2.png"]}
    assert document["classifier"]["thresholds"][4] == {"at_least": 0.9, "n": 2, "right": 1}
    assert "on 5 pictures that it had not seen: 40 of 100 right (20 to 70). A row" in text


def test_one_class_is_told_to_be_asked_as_files(model, folder, tmp_path):
    (tmp_path / "one").mkdir()
    folder.rename(tmp_path / "one" / "a")
    with pytest.raises(
        LabelError, match=r"at least two classes, got all 6 .* Or name the pictures as files, without `dataset`"
    ):
        predict(model, dataset=tmp_path / "one")


def test_a_notebook_shows_few_lines(model, folder, tmp_path):
    found = predict(model, folder)
    text = repr(found).splitlines()
    assert text[0] == f"Predictions: 6 pictures by {model}"
    assert text[1] == f"  {found.rows[0].image}: {found.rows[0].label} ({found.rows[0].probability:.4g})"
    assert text[-1] == "  ..."
    assert len(text) == 7
    shown = found._repr_html_()
    assert shown.count("<tr>") == 1 + 6
    assert all(row.image in shown for row in found.rows)
    images, labels = pictures(0)
    np.savez(tmp_path / "s.npz", images=images, labels=np.array(["abcd"[label] for label in labels]))
    known = predict(model, dataset=tmp_path / "s.npz")
    wrong = sum(row.label != row.truth for row in known.rows)
    assert repr(known).startswith(
        f"Predictions: {len(images)} pictures by {model}, {wrong} wrong, error {known.error:.4g}"
    )
    assert known._repr_html_().count("<tr>") == 1 + len(known.confusion())
    (folder / "bad.png").write_bytes(b"no picture")
    assert repr(predict(model, folder, skip_broken=True)).splitlines()[0].endswith(", 1 broken left out")
