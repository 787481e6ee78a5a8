"""Every reader against the contract of readers."""

import numpy as np
from layouts import save_cifar, save_folder, save_mnist, save_shard, save_table, save_tar, save_zip

from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet
from warmstart.history_store.readers import open_arrays, open_images, open_torch_dataset
from warmstart.history_store.readers.arrays import ArraySource, Block
from warmstart.history_store.records import DatasetInfo
from warmstart.history_store.space import dump_space
from warmstart.testing import ReaderContract
from warmstart.training.workloads.cnn.space import target_space


class TestFolder(ReaderContract):
    layout = "folder"

    def build(self, folder, images, labels):
        return open_images(save_folder(folder, images, labels))


class TestFolderWithSplits(ReaderContract):
    layout = "folder"

    def build(self, folder, images, labels):
        for first, split in ((0, "Training"), (17, "valid")):
            part = slice(first, first + 17)
            save_folder(folder / split, images[part], labels[part], first=first)
        return open_images(folder)

    def test_labels_and_names_are_known_before_reading(self, source):
        super().test_labels_and_names_are_known_before_reading(source)
        np.testing.assert_array_equal(source.splits["val"], np.arange(17, 24))


class TestIdx(ReaderContract):
    layout = "idx"
    channels = 1
    ending = ""

    def build(self, folder, images, labels):
        save_mnist(folder, images[:20], labels[:20], ending=self.ending)
        return open_images(save_mnist(folder, images[20:], labels[20:], part="t10k", ending=self.ending))

    def test_the_test_part_is_a_split(self, source):
        np.testing.assert_array_equal(source.splits["test"], np.arange(20, 24))


class TestIdxGz(TestIdx):
    ending = ".gz"


class TestCifar10(ReaderContract):
    layout = "cifar"
    side = 32

    def build(self, folder, images, labels):
        for part, name in (
            (slice(0, 8), "data_batch_2"),
            (slice(8, 16), "data_batch_10"),
            (slice(16, 24), "test_batch"),
        ):
            save_cifar(folder / f"{name}.bin", images[part], labels[part])
        return open_images(folder)


class TestCifar100(ReaderContract):
    layout = "cifar"
    side = 32

    def build(self, folder, images, labels):
        save_cifar(folder / "train.bin", images[:20], labels[:20], coarse=True)
        save_cifar(folder / "test.bin", images[20:], labels[20:], coarse=True)
        return open_images(folder)


class TestNpz(ReaderContract):
    layout = "npz"

    def build(self, folder, images, labels):
        folder.mkdir()
        np.savez_compressed(folder / "set.npz", images=images, labels=labels)
        return open_images(folder / "set.npz")


class TestNpzWithSplits(ReaderContract):
    layout = "npz"

    def build(self, folder, images, labels):
        folder.mkdir()
        np.savez(folder / "set.npz", x_test=images[20:], y_test=labels[20:], x_train=images[:20], y_train=labels[:20])
        return open_images(folder / "set.npz")


class TestNpy(ReaderContract):
    layout = "npy"

    def build(self, folder, images, labels):
        folder.mkdir()
        np.save(folder / "images.npy", images)
        np.save(folder / "labels.npy", labels)
        return open_images(folder / "images.npy")


class TestArrays(ReaderContract):
    layout = "arrays"
    in_files = False

    def build(self, folder, images, labels):
        return open_arrays(images, labels)


class TestGreyArrays(TestArrays):
    channels = 1

    def build(self, folder, images, labels):
        return open_arrays(images[..., 0], labels)


class TestRowsWithoutFiles(ReaderContract):
    """Several blocks, as the sklearn reader and readers to come have them."""

    layout = "sklearn"
    in_files = False

    def build(self, folder, images, labels):
        parts = [images[:5], images[5:]]
        blocks = [Block("rows", len(part), lambda part=part: part) for part in parts]
        names = [str(label) for label in np.unique(labels)]
        return ArraySource("rows", "sklearn", blocks=blocks, labels=labels - labels.min(), class_names=names)


class TestHistoryDataset(ReaderContract):
    layout = "history"
    in_files = False

    def build(self, folder, images, labels):
        folder.mkdir()
        path = folder / "h.h5"
        codes = np.repeat([0, 1, 2], 8).astype(np.int8)
        n_classes = int(labels.max()) + 1
        info = DatasetInfo("noise", "g", 8, 8, 8, n_classes)
        names = tuple(str(label) for label in range(n_classes))
        with History.create(path, dump_space(target_space()), stored_size=self.side) as history:
            history.add_dataset(info, ImageSet(images, labels, names), codes)
        return open_images(f"{path}::noise")

    def test_the_parts_are_the_splits(self, source):
        assert {name: len(rows) for name, rows in source.splits.items()} == {"train": 8, "val": 8, "test": 8}


class TestTorchDataset(ReaderContract):
    layout = "torch"
    in_files = False

    def build(self, folder, images, labels):
        return open_torch_dataset([(image, int(label)) for image, label in zip(images, labels, strict=True)])


class TestZip(ReaderContract):
    layout = "zip"

    def build(self, folder, images, labels):
        save_folder(folder / "pictures", images, labels)
        return open_images(save_zip(folder / "set.zip", folder / "pictures"))


class TestTar(ReaderContract):
    layout = "tar"

    def build(self, folder, images, labels):
        save_folder(folder / "pictures", images, labels)
        return open_images(save_tar(folder / "set.tar", folder / "pictures"))


class TestCsv(ReaderContract):
    layout = "csv"

    def build(self, folder, images, labels):
        save_folder(folder, images, ["pictures"] * len(images))
        lines = [f"{number:04d},{label}" for number, label in enumerate(labels)]
        (folder / "train.csv").write_text("\n".join(["id,label", *lines]))
        return open_images(f"{folder}::labels=train.csv")


class TestParquet(ReaderContract):
    layout = "table"
    ending = ".parquet"

    def build(self, folder, images, labels):
        folder.mkdir()
        return open_images(save_table(folder / f"train-00000-of-00001{self.ending}", images, labels))


class TestArrow(TestParquet):
    ending = ".arrow"


class TestWebdataset(ReaderContract):
    layout = "webdataset"

    def build(self, folder, images, labels):
        folder.mkdir()
        save_shard(folder / "noise-000000.tar", images[:9], labels[:9])
        save_shard(folder / "noise-000001.tar", images[9:], labels[9:], first=9)
        return open_images(folder)


def test_every_layout_is_tried():
    tried = {
        kind.layout
        for kind in globals().values()
        if isinstance(kind, type) and kind is not ReaderContract and issubclass(kind, ReaderContract)
    }
    assert tried == {"folder", "idx", "cifar", "npz", "npy", "arrays", "sklearn", "history", "torch"} | {
        "zip",
        "tar",
        "csv",
        "table",
        "webdataset",
    }
