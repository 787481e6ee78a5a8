"""`suggest` on nonsense and on real digits, by the shipped history."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from stripes import write_folder

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
    rows = np.random.default_rng(0).choice(1797, 200, replace=False)
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


def test_a_folder_of_splits_is_questioned_and_answered(digits, tmp_path, cli):
    images, _ = digits
    folder = write_folder(tmp_path / "folds", np.repeat(images[:120, ..., None], 3, 3), np.arange(120) % 2)
    for number, inner in enumerate(sorted(folder.iterdir())):
        inner.rename(folder / f"fold{number}")
    run = cli("suggest", "--dataset", folder, "--workload", "cnn", "--format", "json")
    assert run.code == 0
    assert "splits_as_classes" in run.json()["confidence"]["reasons"]
    assert "named like splits: fold0, fold1" in run.err
