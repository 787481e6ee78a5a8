import numpy as np
import pytest

from warmstart.history_store.errors import LabelError
from warmstart.metafeat.labels import check_labels, code_width, label_codes

LABELS = np.array([3, 3, 3, 0, 7, 7])


def test_scalar_is_the_class_index_over_256():
    assert label_codes(LABELS, "scalar").ravel().tolist() == [3 / 256] * 3 + [0, 7 / 256, 7 / 256]


def test_onehot_mean_is_the_class_histogram():
    mean = label_codes(LABELS, "onehot").mean(0)
    assert mean[[0, 3, 7]] == pytest.approx([1 / 6, 3 / 6, 2 / 6])
    assert mean.sum() == pytest.approx(1)


def test_rank_mean_is_the_sorted_histogram_and_does_not_change_under_renumbering():
    mean = label_codes(LABELS, "rank").mean(0)
    assert mean[:4] == pytest.approx([3 / 6, 2 / 6, 1 / 6, 0])
    renumbered = np.array([9, 9, 9, 200, 1, 1])
    assert np.array_equal(label_codes(renumbered, "rank"), label_codes(LABELS, "rank"))


@pytest.mark.parametrize(("code", "width"), [("none", 0), ("scalar", 1), ("onehot", 256), ("rank", 256)])
def test_widths(code, width):
    assert code_width(code) == width
    assert label_codes(LABELS, code).shape == (6, width)
    assert label_codes(LABELS, code).dtype == np.float32


def test_more_than_256_classes_fold():
    labels = np.arange(300)
    assert label_codes(labels, "onehot")[257].argmax() == 1
    assert label_codes(labels, "rank")[255:].argmax(1).tolist() == [255] * 45
    assert label_codes(labels, "scalar").max() > 1


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(5), "expected 6 integers, got shape \\(5,\\)"),
        (np.zeros(6), "of float64"),
        (np.array([0, 1, -1, 0, 0, 0]), "expected class indices ≥ 0, got -1"),
    ],
)
def test_wrong_labels_are_refused(labels, message):
    with pytest.raises(LabelError, match=message):
        check_labels(labels, 6)
