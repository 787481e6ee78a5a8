import numpy as np
import pytest
from layouts import classes, pixels

from warmstart.history_store.errors import DataError, LabelError
from warmstart.history_store.readers import open_arrays
from warmstart.history_store.readers.labels import encode_labels


def test_one_door_for_every_kind_of_pixel():
    images = pixels()
    first = open_arrays(images, classes()).read(range(24)).images
    for same in (
        images.astype(np.uint16) * 257,
        images / 255,
        (images / 255).astype(np.float32),
        images.tolist() and images.copy(),
    ):
        np.testing.assert_array_equal(open_arrays(same, classes()).read(range(24)).images, first)
    flags = images[..., 0] > 127
    np.testing.assert_array_equal(open_arrays(flags, classes()).read([0], size=12).images[0, ..., 0], flags[0] * 255)


SHAPES = [
    ([np.zeros((2, 2)), np.zeros((3, 3))], "expected pictures of one size, got pieces of different shapes"),
    (
        np.zeros((6, 3, 8, 8), np.uint8),
        r"got 6 x 3 x 8 x 8. These are channels first: give images.transpose\(0, 2, 3, 1\)",
    ),
    (np.zeros((6, 784), np.uint8), r"got 6 x 784. Give images.reshape\(-1, 28, 28\)"),
    (np.zeros((6, 785), np.uint8), "got 6 x 785. Give one picture a row, not flattened"),
    (np.zeros((6, 8, 8, 2), np.uint8), "got 6 x 8 x 8 x 2. Give 1 .grey., 3 .RGB. or 4 .RGBA. channels"),
    (np.zeros((6, 8, 8, 3, 1), np.uint8), "got 6 x 8 x 8 x 3 x 1"),
    (np.zeros(6, np.uint8), "got 6. Give"),
    (np.uint8(3), "got a single number"),
    (np.zeros((0, 8, 8), np.uint8), "expected at least one picture, got shape 0 x 8 x 8"),
    (np.zeros((6, 0, 8), np.uint8), "expected at least one picture, got shape 6 x 0 x 8"),
    (np.zeros((6, 8, 8), np.int64), r"got dtype int64. Convert 0 .. 255 with images.astype\('uint8'\)"),
    (np.zeros((6, 8, 8), complex), "got dtype complex128"),
    (np.full((6, 8, 8), "a"), "got dtype <U1"),
    (
        np.array([np.zeros((2, 2)), np.zeros((3, 3))], dtype=object),
        "got objects .dtype object., which are never unpickled",
    ),
    (np.full((6, 8, 8), 255.0), "expected floats in .0, 1., got minimum 255 and maximum 255"),
    (np.full((6, 8, 8), -1.0), "got minimum -1 and maximum -1"),
    (np.full((6, 8, 8), np.nan), r"got 384 NaN \(no finite value\)"),
    (np.where(np.eye(8) > 0, np.nan, np.full((6, 8, 8), 0.5)), r"got 48 NaN \(the others between 0.5 and 0.5\)"),
]


@pytest.mark.parametrize(("images", "message"), SHAPES)
def test_refuses_images(images, message):
    with pytest.raises(DataError, match=f"^images: .*{message}"):
        open_arrays(images, [0, 1, 0, 1, 0, 1])


LABELS = [
    (None, "expected a label for each picture, got none"),
    ([0, 1], "expected 6 labels, one a picture, got 2"),
    ([], "expected 6 labels, one a picture, got 0"),
    ([0.5, 1, 2, 0, 1, 2], "expected whole numbers, got 0.5 for picture 0"),
    ([0, 1, float("nan"), 0, 1, 2], "expected whole numbers, got nan for picture 2"),
    ([0, -1, 1, 0, -1, 1], r"expected labels of 0 or more, got -1 \(2 negative\). Leave unlabelled pictures out"),
    (np.eye(6), r"got shape \(6, 6\). Turn one-hot rows into numbers: labels.argmax"),
    (np.zeros((6, 1, 1)), r"expected labels of shape \(n,\), got shape \(6, 1, 1\)"),
    (3, r"expected labels of shape \(n,\), got shape \(\)"),
    (np.array([{}, 1, 2, 3, 4, 5], dtype=object), "expected integers or strings, got dtype object"),
    (np.zeros(6, complex), "expected integers or strings, got dtype complex128"),
    ([4] * 6, "expected at least two classes, got all 6 pictures in '4'"),
    (["cat"] * 6, "got all 6 pictures in 'cat'"),
]


@pytest.mark.parametrize(("labels", "message"), LABELS)
def test_refuses_labels(labels, message):
    with pytest.raises(LabelError, match=message):
        open_arrays(pixels(6), labels)


@pytest.mark.parametrize(
    ("raw", "names", "labels", "class_names"),
    [
        ([10, 2, 10], None, [1, 0, 1], ("2", "10")),
        ([1.0, 0.0, 1.0], None, [1, 0, 1], ("0", "1")),
        ([True, False, True], None, [1, 0, 1], ("0", "1")),
        ([[7], [3], [7]], None, [1, 0, 1], ("3", "7")),
        (np.array([7, 3, 7], np.uint64), None, [1, 0, 1], ("3", "7")),
        (["b10", "b9", "b10"], None, [1, 0, 1], ("b9", "b10")),
        ([b"dog", b"cat", b"dog"], None, [1, 0, 1], ("cat", "dog")),
        (np.array(["b", "a", "b"], dtype=object), None, [1, 0, 1], ("a", "b")),
        (np.array([5, 4, 5], dtype=object), None, [1, 0, 1], ("4", "5")),
        ([2, 0, 2], ["cat", "dog", "eel"], [1, 0, 1], ("cat", "eel")),
        ([2, 1, 2], ["cat", "dog"], [1, 0, 1], ("cat", "dog")),
        (["dog", "cat", "dog"], ["dog", "cat", "eel"], [0, 1, 0], ("dog", "cat")),
    ],
)
def test_labels_are_numbered(raw, names, labels, class_names):
    got = encode_labels(raw, "labels", n=3, class_names=names)
    assert got.labels.dtype == np.int64
    assert got.labels.tolist() == labels
    assert got.class_names == class_names


@pytest.mark.parametrize(
    ("raw", "names", "message"),
    [
        ([0, 1, 5], ["a", "b"], "expected a name for each label, got 2 class names and labels up to 5"),
        ([0, 1, 0], ["a", "a"], "expected distinct class names, got 'a' twice"),
        (["a", "b", "a"], ["a"], "expected labels that are among the class names, got 'b'"),
    ],
)
def test_refuses_class_names(raw, names, message):
    with pytest.raises(LabelError, match=message):
        encode_labels(raw, "labels", n=3, class_names=names)


def test_classes_that_differ_in_how_letters_are_composed_are_one():
    labelling = encode_labels(["caf\u00e9", "cafe\u0301", "bar", "e\u0301"], "x", n=4)
    assert labelling.class_names == ("bar", "caf\u00e9", "e\u0301")
    assert labelling.labels.tolist() == [1, 1, 0, 2]
    named = encode_labels(["cafe\u0301", "bar"], "x", n=2, class_names=["caf\u00e9", "bar"])
    assert (named.class_names, named.labels.tolist()) == (("caf\u00e9", "bar"), [0, 1])
    with pytest.raises(LabelError, match="expected distinct class names, got 'caf\u00e9' twice"):
        encode_labels(["bar"] * 2 + ["caf\u00e9"], "x", n=3, class_names=["bar", "caf\u00e9", "cafe\u0301"])
