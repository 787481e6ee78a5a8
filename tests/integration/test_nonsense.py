"""`suggest` on nonsense and on real digits, by the shipped history."""

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from stripes import write_folder

import warmstart
from warmstart.api import answer


@pytest.fixture(scope="module")
def digits():
    found = load_digits()
    return (found.images * 15.9).astype(np.uint8), found.target.astype(np.int64)


def judged(images, labels, **more):
    return answer(
        images=images, labels=labels, exclude_group="sklearn_digits", workload="cnn", cache=False, **more
    ).confidence


def test_digits_are_typical(digits):
    images, labels = digits
    for n in (50, 200, 1797):
        rows = np.random.default_rng(n).choice(1797, n, replace=False)
        confidence = judged(images[rows], labels[rows])
        assert confidence.typical, confidence.note
        assert confidence.reasons == ()


def nonsense(name, images, labels):
    """Make a case of nonsense from digits or from nothing."""
    rng = np.random.default_rng(7)
    n = 200
    images, labels = images[:n], labels[:n]
    cases = {
        "noise": (rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), labels),
        "constant": (np.full((n, 32, 32, 3), 77, np.uint8), labels),
        "shuffled labels": (images, rng.permutation(labels)),
        "permuted pixels": (rng.permuted(images.reshape(n, -1), axis=1).reshape(images.shape), labels),
        "one picture": (np.repeat(images[:1], n, 0), labels),
        "a picture a class": (images[np.unique(labels, return_index=True)[1]][labels], labels),
        "six pictures": (images[:6], np.arange(6) % 2),
        "a class a picture": (images[:60], np.arange(60)),
    }
    return cases[name]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("noise", "shuffled_pixels"),
        ("constant", "repeated_images"),
        ("shuffled labels", "no_class_information"),
        ("permuted pixels", "no_class_information"),
        ("one picture", "repeated_images"),
        ("a picture a class", "repeated_images"),
        ("six pictures", "few_images"),
        ("a class a picture", "few_images_per_class"),
    ],
)
def test_nonsense_is_told_by_its_code(digits, name, code):
    confidence = judged(*nonsense(name, *digits))
    assert not confidence.typical
    assert code in confidence.reasons


def test_without_class_information_the_portfolio_answers_and_json_says_why(digits):
    images, labels = nonsense("shuffled labels", *digits)
    found = answer(images=images, labels=labels, workload="cnn", cache=False)
    assert found.strategy == "portfolio"
    document = found.to_dict()
    assert document["confidence"]["reasons"] == ["no_class_information"]
    assert "Are the labels right?" in document["confidence"]["note"]
    assert document["confidence"]["note"].endswith("The ranges of expected errors are twice as wide for such images.")
    expected = document["expected_error"]
    assert expected["low"] < expected["value"] < expected["high"]
    assert any("No class information" in note for note in found.notes)
    assert answer(images=images, labels=labels, workload="cnn", cache=False, strategy="nearest").strategy == "nearest"


def test_the_cache_keeps_the_verdict(digits, monkeypatch, tmp_path):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path))
    images, labels = nonsense("shuffled labels", *digits)
    first, again = (answer(images=images, labels=labels, workload="cnn").confidence for _ in range(2))
    assert first.reasons == again.reasons == ("no_class_information",)


def test_a_folder_of_splits_is_questioned_and_answered(digits, tmp_path, cli):
    images, _ = digits
    folder = write_folder(tmp_path / "folds", np.repeat(images[:120, ..., None], 3, 3), np.arange(120) % 2)
    for number, inner in enumerate(sorted(folder.iterdir())):
        inner.rename(folder / f"fold{number}")
    run = cli("suggest", "--dataset", folder, "--workload", "cnn", "--format", "json")
    assert run.code == 0
    assert "splits_as_classes" in run.json()["confidence"]["reasons"]
    assert "named like splits: fold0, fold1" in run.err


def test_distances_say_how_far_they_move(digits):
    images, labels = digits
    near = warmstart.neighbours(
        images=images, labels=labels, exclude_group="sklearn_digits", workload="cnn", k=5, cache=False
    )
    again = warmstart.neighbours(
        images=images, labels=labels, exclude_group="sklearn_digits", workload="cnn", k=30, seed=1, cache=False
    )
    moved = {each.name: each.distance for each in again}
    for each in near:
        low, high = each.distance_range
        assert low <= each.distance <= high
        assert low <= moved[each.name] <= high


def test_a_history_of_three_datasets_says_so(tmp_path, digits, cli):
    from warmstart.history_store.history import History
    from warmstart.history_store.images import ImageSet
    from warmstart.history_store.records import DatasetInfo, Evaluation
    from warmstart.history_store.space import dump_space, sobol_configs
    from warmstart.metafeat.model import MetaFeatureModel
    from warmstart.metafeat.spec import ModelSpec, space_digest
    from warmstart.training.workloads.cnn.space import target_space

    images, labels = digits
    pictures = np.stack([np.asarray(Image.fromarray(image).resize((32, 32))) for image in images[:60]])[
        ..., None
    ].repeat(3, 3)
    space = target_space("compact")
    with History.create(tmp_path / "h.h5", dump_space(space), configs=sobol_configs(space, 4)) as history:
        for number in range(3):
            info = DatasetInfo(f"d{number}", f"g{number}", 20, 0, 0, 10)
            rows = slice(20 * number, 20 * number + 20)
            names = tuple("0123456789")
            history.add_dataset(info, ImageSet(pictures[rows], labels[rows], names), np.zeros(20, np.int8))
            history.extend(Evaluation(f"d{number}", config, 0.5, seed=1) for config in history.configs)
        identity = {"history_id": history.id, "space_digest": space_digest(history.space_json)}
    MetaFeatureModel.random(ModelSpec(tau=20)).save(tmp_path / "m.safetensors", identity)
    files = {"history": tmp_path / "h.h5", "model": tmp_path / "m.safetensors", "cache": False}
    found = answer(images=images, labels=labels, **files)
    assert not found.confidence.typical
    assert "small_history" in found.confidence.reasons
    assert found.neighbours[0].distance_range is None
    assert found.strategy == "joint"
