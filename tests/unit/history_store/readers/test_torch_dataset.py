import numpy as np
import pytest
import torch
from layouts import classes, pixels
from PIL import Image
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from warmstart.history_store.errors import BrokenImagesError, DataError, LabelError, UsageError
from warmstart.history_store.readers import open_torch_dataset

IMAGES, LABELS = pixels(), classes()
TENSORS = torch.from_numpy(IMAGES).permute(0, 3, 1, 2)


class Pictures(Dataset):
    """A Dataset as torchvision makes them: PIL pictures, `targets`, `classes`."""

    classes = ["ant", "bee", "cat"]  # noqa: RUF012

    def __init__(self, *, target_transform=None, kind="targets"):
        self.target_transform = target_transform
        self.fetched = []
        if kind:
            setattr(self, kind, LABELS.tolist())

    def __len__(self):
        return 24

    def __getitem__(self, index):
        self.fetched.append(index)
        label = int(LABELS[index])
        return Image.fromarray(IMAGES[index]), self.target_transform(label) if self.target_transform else label


def same(source, indices=range(24)):
    np.testing.assert_array_equal(source.read(range(len(source)), size=12).images, IMAGES[list(indices)])
    np.testing.assert_array_equal(source.labels, LABELS[list(indices)])


@pytest.mark.parametrize("kind", ["targets", "labels"])
def test_listed_labels_cost_no_picture(kind):
    dataset = Pictures(kind=kind)
    source = open_torch_dataset(dataset)
    assert dataset.fetched == []
    assert source.class_names == ("ant", "bee", "cat")
    source.read([3, 7])
    assert dataset.fetched == [3, 7]
    same(source)


@pytest.mark.parametrize(
    "tensors",
    [TENSORS, TENSORS.half() / 255, TENSORS.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)],
)
def test_tensors_have_channels_first(tensors):
    same(open_torch_dataset(TensorDataset(tensors, torch.from_numpy(LABELS))))


def test_parts_and_sums_of_datasets():
    dataset = Pictures()
    part = Subset(dataset, [20, 3, 11])
    same(open_torch_dataset(part), [20, 3, 11])
    same(open_torch_dataset(ConcatDataset([part, Subset(dataset, [1, 9])])), [20, 3, 11, 1, 9])
    same(open_torch_dataset(ConcatDataset([part, Pictures(kind=None)])), [20, 3, 11, *range(24)])


def test_target_transform_is_applied():
    source = open_torch_dataset(Pictures(target_transform=lambda label: (label + 1) % 3))
    np.testing.assert_array_equal(source.labels, (LABELS + 1) % 3)
    source.read([0, 23])


class Broken(Pictures):
    def __getitem__(self, index):
        if index == 4:
            msg = "image file is truncated"
            raise OSError(msg)
        return super().__getitem__(index)


def test_items_that_cannot_be_fetched_are_broken():
    source = open_torch_dataset(Broken())
    with pytest.raises(BrokenImagesError, match=r"got 1 broken of 24 read: item 4 \(image file is truncated\)"):
        source.read(range(24))
    images = source.read(range(24), skip_broken=True)
    assert [image.path for image in images.broken] == ["item 4"]
    assert len(images.images) == 23
    assert source.fingerprint("content") == open_torch_dataset(Broken()).fingerprint("content")


class Failing:
    """A Dataset without targets, one of whose items cannot be made."""

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index == 2:
            raise self.error
        return IMAGES[0], index % 2


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("bad sample"), "Failing item 2: expected .picture, label., got RuntimeError: bad sample. Correct"),
        (OSError("cannot identify"), "Failing item 2: .*, got cannot identify. Repair .* give the Dataset `targets`"),
    ],
)  # fmt: skip
def test_an_item_that_cannot_be_made_is_named(error, told):
    with pytest.raises(DataError, match=told):
        open_torch_dataset(Failing(error))


class Iterable:
    def __iter__(self):
        return iter([])


@pytest.mark.parametrize(
    ("dataset", "kind", "message"),
    [
        (Iterable(), DataError, "Iterable: expected a map-style Dataset with len"),
        ([], DataError, "list: expected a Dataset with items, got 0 of them"),
        (IMAGES, LabelError, r"ndarray item 0: expected \(picture, label\), got ndarray"),
        ([{"x": 1, "y": 2}] * 4, LabelError, r"list item 0: expected \(picture, label\), got dict"),
        ([(IMAGES[0], [0, 1])] * 4, LabelError, "expected one integer or string as the label, got list"),
        ([(IMAGES[0], 0.5), (IMAGES[0], 1)], LabelError, "list labels: expected whole numbers, got 0.5"),
    ],
)
def test_refuses_a_dataset(dataset, kind, message):
    with pytest.raises(kind, match=message):
        open_torch_dataset(dataset)


@pytest.mark.parametrize(
    ("picture", "kind", "message"),
    [
        ((TENSORS[0] / 255 - 0.5) / 0.5, DataError, r"item 0 \(is a Normalize among its transforms\?\): expected floats in \[0, 1\], got minimum -1"),
        ("a.png", UsageError, "list item 0: expected a picture .*, got str of shape"),
        (torch.zeros(2, 8, 8), DataError, "list item 0: expected n x h x w"),
        (torch.zeros(3, 8, 8, dtype=torch.int64), DataError, "got dtype int64"),
    ],
)  # fmt: skip
def test_refuses_a_picture(picture, kind, message):
    source = open_torch_dataset([(picture, 0), (picture, 1)])
    with pytest.raises(kind, match=message):
        source.read([0])


def test_labels_that_disagree_with_the_items():
    dataset = Pictures()
    dataset.targets = dataset.targets[::-1]
    with pytest.raises(LabelError, match=r"Pictures item 0: expected label 2, as the dataset lists it, got 0"):
        open_torch_dataset(dataset).read([0])
