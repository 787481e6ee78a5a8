"""Reasons to doubt an answer, one by one."""

from dataclasses import replace

import numpy as np
import pytest

from warmstart.metafeat.sample_statistics import ABOUT, ClassSignal, SampleStatistics
from warmstart.suggestions.confidence import Code, find_doubts
from warmstart.suggestions.references import Norms, References

NAMES = tuple(f"set{i}" for i in range(12))
PIXELS = np.random.default_rng(0).normal(0, 0.1, (12, len(ABOUT) + 4)) + 1.0
REFERENCES = References(NAMES, np.linspace(0.1, 2, 12), PIXELS)
FINE = SampleStatistics(400, 1.0, 1.0, ClassSignal(30.0, 60.0), PIXELS.mean(0))


def codes(sample=FINE, class_names=("cat", "dog"), *, groups=NAMES, references=REFERENCES, fewest_images=35):
    names = NAMES[: len(groups)]
    norms = Norms(len(groups), len(set(groups)), np.zeros(len(groups)), fewest_images, references)
    found = find_doubts(sample, class_names, names, norms)
    assert all(doubt.text[0].isupper() and doubt.text[-1] in ".?" for doubt in found)
    return [doubt.code.value for doubt in found]


def whiter(fall):
    return np.concatenate([FINE.pixels[: len(ABOUT) + 1], np.full(3, fall)])


def test_a_usual_dataset_leaves_no_doubt():
    assert codes() == []
    assert codes(references=None) == []


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (replace(FINE, n_images=34), ["few_images"]),
        (replace(FINE, paired=0.05), ["few_images_per_class"]),
        (replace(FINE, distinct=0.5), ["repeated_images"]),
        (replace(FINE, distinct=0.51), []),
        (replace(FINE, signal=ClassSignal(1.0, 60.0)), ["no_class_information"]),
        (replace(FINE, signal=ClassSignal(1.0, 5.0)), []),
        (replace(FINE, pixels=whiter(0.01)), ["shuffled_pixels"]),
    ],
)
def test_each_doubt_has_its_code(sample, expected):
    assert codes(sample) == expected


def falling(*falls):
    return replace(FINE, pixels=np.concatenate([FINE.pixels[: len(ABOUT)], falls]))


@pytest.mark.parametrize(
    ("falls", "expected"),
    [
        ((-1.32, -0.17, -0.09, 0.95), []),  # dark words on white
        ((0.01, 0.0, 0.04, 0.61), ["shuffled_pixels"]),  # shuffled pixels, enlarged
        ((0.04, 0.12, 0.62, 1.29), ["shuffled_pixels"]),  # shuffled blocks
        ((-0.16, 0.24, 0.17, 0.91), ["shuffled_pixels"]),  # line plots
    ],
)
def test_a_flat_octave_of_words_is_no_disorder(falls, expected):
    assert codes(falling(*falls)) == expected


def test_without_references_noise_and_shuffled_labels_are_doubted_all_the_same():
    assert codes(replace(FINE, pixels=whiter(0.03)), references=None) == ["shuffled_pixels"]
    assert codes(replace(FINE, signal=ClassSignal(0.3, 60.0)), references=None) == ["no_class_information"]


def test_references_of_another_image_size_are_not_compared():
    assert codes(replace(FINE, pixels=np.append(FINE.pixels, 1.0) + 3)) == []


@pytest.mark.parametrize("groups", [tuple("abcdefghi"), tuple("aaaaaaaaaaaa")])
def test_a_small_history_is_told(groups):
    assert codes(groups=groups) == ["small_history"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("Training_set", "validation", "TEST-images"), ["splits_as_classes"]),
        (("fold1", "fold2", "fold3"), ["splits_as_classes"]),
        (("mnist", "CIFAR-10", "fashion_mnist"), ["datasets_as_classes"]),
        (("set0_data", "set3"), ["datasets_as_classes"]),
        (("train", "bus", "car", "tram"), []),
        (("test", "control", "case"), []),
        (("set0", "cat", "dog"), []),
    ],
)
def test_odd_names_of_classes_are_questioned(names, expected):
    if names == ("set0_data", "set3"):  # also a numbered set
        assert set(codes(class_names=names)) >= set(expected)
    else:
        assert codes(class_names=names) == expected


def test_codes_are_what_the_documentation_lists():
    from pathlib import Path

    page = (Path(__file__).parents[4] / "docs" / "expectations.md").read_text()
    assert all(f"| `{code.value}` |" in page for code in Code)
