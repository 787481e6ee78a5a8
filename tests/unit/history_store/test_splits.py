"""Training and validation images are counted as they are drawn."""

import numpy as np
import pytest

from warmstart.history_store.errors import LabelError
from warmstart.history_store.splits import count_parts, lacking_classes, split_codes


@pytest.mark.parametrize(
    "sizes",
    [{}, {"train": 200}, {"train": 120, "val": 80}, {"train": 150, "test": 50}, {"train": 90, "val": 60, "test": 50}],
)
def test_parts_are_counted_without_drawing_them(sizes):
    labels = np.arange(200) % 4
    ends = np.cumsum([0, *sizes.values()])
    parts = {name: np.arange(start, end) for name, start, end in zip(sizes, ends, ends[1:], strict=False)}
    codes, _ = split_codes(labels, parts)
    assert count_parts(200, parts) == pytest.approx(((codes == 0).sum(), (codes == 1).sum()), abs=4)


@pytest.mark.parametrize(
    ("train", "val", "told"),
    [
        ([0, 1, 2], [0, 1, 2], []),
        ([0, 1], [0, 1, 2], ["Class c has no training pictures: no network learns of it."]),
        ([0, 1, 2], [1], ["Classes a, c have no validation pictures: no error tells of them."]),
        ([0, 1, 2], [], []),
        ([0], [1, 2], ["Classes b, c have no training pictures", "Class a has no validation pictures"]),
    ],
)
def test_classes_without_training_or_validation_pictures_are_named(train, val, told):
    labels = np.repeat([*train, *val], 5)
    parts = {"train": np.arange(5 * len(train)), "val": np.arange(5 * len(train), len(labels))}
    sentences = lacking_classes(labels, parts, ["a", "b", "c"])
    assert len(sentences) == len(told)
    assert all(sentence.startswith(start) for sentence, start in zip(sentences, told, strict=True))
    assert lacking_classes(labels, None, ["a", "b", "c"]) == ()


def test_fractions_without_training_and_validation_are_told():
    with pytest.raises(LabelError, match="expected fractions for training and validation, got"):
        split_codes(np.repeat([0, 1], 5), {"train": np.arange(8), "test": np.arange(8, 10)}, fractions=(0.0, 0.0, 1.0))
