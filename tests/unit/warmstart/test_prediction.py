"""A saved classifier is asked about pictures; the network is one of the built-in workload, so that no extra is needed."""

import json
import shutil

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


def test_progress_counts_pictures(model, folder, tmp_path):
    told = []
    predict(model, [folder], progress=lambda *now: told.append(now))
    assert told == [(0, 6), (6, 6)]
    images, labels = pictures(0)
    np.savez(tmp_path / "s.npz", images=images, labels=np.array(["abcd"[label] for label in labels]))
    predict(model, dataset=tmp_path / "s.npz", progress=lambda *now: told.append(now))
    assert told[2:] == [(0, len(images)), (len(images), len(images))]


def test_a_terminal_shows_how_many_pictures_are_done(model, folder, cli, monkeypatch):
    plain = cli("predict", model, folder, "--format", "json")
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = cli("predict", model, folder, "--format", "json", on_terminal=True)
    assert shown.out == plain.out
    assert "predicting" in shown.err
    assert "6/6" in shown.err
    assert plain.err == cli("predict", model, folder, "--quiet", on_terminal=True).err == ""


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


def test_parts_of_a_dataset_are_told_apart(model, tmp_path, cli):
    images, labels = pictures(0)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = tmp_path / "photos" / ("train", "val", "test")[number % 3] / "abcd"[label] / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.squeeze()).save(place)
    found = predict(model, dataset=tmp_path / "photos")
    of_file = {row.image: row for row in found.rows}
    assert all(name.startswith(row.part) for name, row in of_file.items())
    for part in ("train", "val", "test"):
        alone = predict(model, dataset=tmp_path / "photos" / part)
        assert alone.part_errors == {}
        assert found.part_errors[part] == alone.error
    assert found.to_dict()["part_errors"] == found.part_errors
    assert found.to_dict()["predictions"][0]["part"] == found.rows[0].part
    right = {part: right_of_100(error).split()[0] for part, error in found.part_errors.items()}
    said = f"Right of 100, by part: train {right['train']}, val {right['val']}, test {right['test']}."
    assert said in found._repr_html_()
    assert said in " ".join(cli("predict", model, "--dataset", tmp_path / "photos").err.split())
    assert "part" not in predict(model, [tmp_path / "photos"]).to_dict()["predictions"][0]


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


def test_pictures_of_a_dataset_are_named_by_their_files(model, tmp_path, cli):
    images, labels = pictures(0)
    for number in range(8):
        place = tmp_path / "photos" / "abcd"[labels[number]] / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images[number].squeeze()).save(place)
    names = sorted(str(file.relative_to(tmp_path / "photos")) for file in (tmp_path / "photos").rglob("*.png"))
    assert [row.image for row in predict(model, dataset=tmp_path / "photos").rows] == names
    shutil.make_archive(str(tmp_path / "photos"), "zip", tmp_path / "photos")
    assert [row.image for row in predict(model, dataset=tmp_path / "photos.zip").rows] == names
    (tmp_path / "photos" / names[0]).write_bytes(b"no picture")
    run = cli("predict", model, "--dataset", tmp_path / "photos", "--skip-broken", "--format", "csv")
    assert [line.split(",")[0] for line in run.out.splitlines()] == ["image", *names[1:]]
    np.savez(tmp_path / "s.npz", images=images, labels=np.array(["abcd"[label] for label in labels]))
    assert predict(model, dataset=tmp_path / "s.npz").rows[1].image == "1"


@pytest.mark.parametrize("bad", [(8,), (0, 1, 2, 3), (0, 1, 2, 3, 5, 8)], ids=["last", "first", "many"])
def test_pictures_that_are_broken_together_are_left_out(model, tmp_path, cli, monkeypatch, bad):
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


def test_hidden_files_are_asked_only_by_name(model, folder):
    whole = (folder / "0.png").read_bytes()
    for name in (".hidden.png", "._0.png", ".thumbnails/0.png", "@eaDir/0.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(whole)
    assert len(predict(model, folder).rows) == 6
    assert [row.image for row in predict(model, folder / ".hidden.png").rows] == [str(folder / ".hidden.png")]
    assert len(predict(model, folder / ".thumbnails").rows) == 1


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


def test_what_is_neither_path_nor_array_is_told(model):
    images, _ = pictures(0)
    with pytest.raises(DataError, match="images: expected n x h x w"):
        predict(model, images[0, ..., 0])
    with pytest.raises(DataError, match="expected at least one picture"):
        predict(model, images[:0])
    with pytest.raises(UsageError, match=r"one array n x h x w x c, got a ndarray among them. Give numpy\.stack"):
        predict(model, list(images))
    with pytest.raises(UsageError, match="got both"):
        predict(model, images, dataset=(images, ["a"] * len(images)))
    with pytest.raises(UsageError, match=r"expected \(images, labels\), got a tuple of 1"):
        predict(model, dataset=(images,))


def test_grey_and_coloured_pictures_fit_a_classifier_of_the_other_kind():
    grey = np.arange(4, dtype=np.uint8).reshape(1, 2, 2, 1)
    assert np.array_equal(to_channels(to_channels(grey, 3), 1), grey)
    colour = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(colour).convert("L"), np.int64)
    assert np.abs(to_channels(colour, 1)[..., 0] - expected).max() <= 1


@pytest.mark.parametrize("channels", [1, 3])
def test_a_classifier_takes_grey_and_coloured_pictures(channels):
    import torch

    from warmstart.training.workloads.cnn.classifier import Networks

    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16 * channels, 2))
    standard = {"mean": torch.zeros(channels), "spread": torch.ones(channels)}
    classifier = Networks([], [network], classes=["a", "b"], size=4, error=0.0, **standard)
    grey = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 1), dtype=np.uint8)
    colour = np.random.default_rng(1).integers(0, 256, (5, 4, 4, 3), dtype=np.uint8)
    np.testing.assert_array_equal(classifier.predict(grey), classifier.predict(np.repeat(grey, 3, axis=-1)))
    np.testing.assert_array_equal(classifier.predict(colour), classifier.predict(to_channels(colour, channels)))
    with pytest.raises(DataError, match=r"n x 4 x 4 x 1 or 3 of uint8, got uint8 of shape \(2, 4, 4, 4\)"):
        classifier.predict(np.zeros((2, 4, 4, 4), np.uint8))


def test_labels_in_a_file_are_read_as_by_suggest(model, folder, cli):
    rows = [f"{number},{'abcd'[number % 4]}" for number in range(6)]
    (folder / "labels.csv").write_text("\n".join(["id,kind", *rows]))
    found = predict(model, dataset=f"{folder}::labels=labels.csv")
    assert [row.truth for row in found.rows] == list("abcdab")
    options = ("--labels", "labels.csv", "--labels-column", "kind")
    run = cli("predict", model, "--dataset", folder, *options, "--format", "json")
    assert [row["truth"] for row in json.loads(run.out)["predictions"]] == list("abcdab")
    assert json.loads(run.out)["error"] == found.error
    for given in (options, options[2:]):
        run = cli("predict", model, folder, *given)
        assert run.code == 2
        assert f"{given[0]} needs --dataset." in run.err


def test_the_command_writes_tables_and_json(model, folder, cli):
    table = cli("predict", model, folder / "0.png", folder / "2.png")
    assert table.code == 0
    assert all(name in table.out for name in ("0.png", "2.png", "probability"))
    document = json.loads(cli("predict", model, folder, "--format", "json").out)
    assert document["predictions"][0]["image"] == str(folder / "0.png")
    assert cli("predict", model, "nowhere").code == 2


def test_the_cache_is_shown_and_cleared(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path))
    (tmp_path / "features").mkdir()
    (tmp_path / "embeddings").mkdir()
    kept = [tmp_path / "embeddings" / "a.emb", tmp_path / "features" / "b.features"]
    for path in (*kept, tmp_path / "other"):
        path.write_bytes(b"12")
    rows = json.loads(cli("cache", "-f", "json").out)["kept"]
    assert [row["files"] for row in rows] == [1, 1]
    assert all(path.exists() for path in kept)
    cleared = json.loads(cli("cache", "--clear", "-f", "json").out)
    assert [(row["files"], row["MB"]) for row in cleared["kept"]] == [(0, 0.0), (0, 0.0)]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "other"]


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
    assert "on 5 images that it had not seen: error 0.6 (0.3 to 0.8, 80 %). A row" in text


def test_one_class_is_told_to_be_asked_as_files(model, folder, tmp_path):
    (tmp_path / "one").mkdir()
    folder.rename(tmp_path / "one" / "a")
    with pytest.raises(
        LabelError, match=r"at least two classes, got all 6 .* Or name the pictures as files, without `dataset`"
    ):
        predict(model, dataset=tmp_path / "one")
