import gzip
import hashlib
import http.server
import io
import struct
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from collecting import pictures

from warmstart.history_store.errors import DataError, LabelError, MissingPathError, UsageError
from warmstart.history_store.history import History
from warmstart.history_store.manifest import Manifest, Obtain, Splits
from warmstart.history_store.readers import open_images
from warmstart.history_store.space import dump_space
from warmstart.history_store.splits import split_codes
from warmstart.training.collection.add_sources import add_sources, restore_images
from warmstart.training.sources.download import download, hash_file, unpack
from warmstart.training.sources.obtain import open_manifest
from warmstart.training.sources.torchvision_source import open_torchvision
from warmstart.training.workloads.cnn.space import target_space


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A web server on the loopback that gives the files of a folder."""
    folder = tmp_path / "www"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type, misc]

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as each:
        thread = threading.Thread(target=each.serve_forever, args=(0.01,))
        thread.start()
        yield folder, f"http://127.0.0.1:{each.server_address[1]}"
        each.shutdown()
        thread.join()


def save_npz(path: Path, seed: int = 0, n: int = 40) -> Path:
    images, labels = pictures(seed, n)
    np.savez(path, images=images, labels=labels, class_names=["dark", "bright"])
    return path


def manifest(
    name: str = "alpha", *, obtain: Obtain | None = None, splits: Splits | None = None, **other: object
) -> Manifest:
    return Manifest(
        name,
        name,
        "squares",
        "a test",
        "MIT",
        obtain or Obtain("file", f"{name}.npz"),
        splits or Splits(),
        **other,  # type: ignore[arg-type]
    )


def empty_history(path: Path) -> History:
    return History.create(path, dump_space(target_space()), stored_size=8)


# Downloads


def test_download_gives_the_bytes(server: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = server
    data = bytes(range(256)) * 4000
    (folder / "x.bin").write_bytes(data)
    target = tmp_path / "deep" / "x.bin"
    checksum = hashlib.sha256(data).hexdigest()
    path = download(f"{url}/x.bin", target, sha256=checksum, max_bytes=len(data))
    assert path.read_bytes() == data
    assert hash_file(path) == checksum
    assert [p.name for p in target.parent.iterdir()] == ["x.bin"]
    (folder / "x.bin").unlink()
    assert download(f"{url}/x.bin", target, sha256=checksum, max_bytes=1) == target, "what is there stays"


def test_download_refuses_another_checksum(server: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = server
    (folder / "x").write_bytes(b"abc")
    with pytest.raises(DataError, match=r"/x: expected sha256 0{64}, got ba7816bf.* \(3 bytes\)"):
        download(f"{url}/x", tmp_path / "x", sha256="0" * 64, max_bytes=10)
    assert not list(tmp_path.glob("*x*"))
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(DataError, match=r"x: expected sha256 0{64}, got .* Move the file away"):
        download(f"{url}/x", tmp_path / "x", sha256="0" * 64, max_bytes=10)


def test_download_stops_at_the_limit(server: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = server
    (folder / "x").write_bytes(b"a" * 1000)
    with pytest.raises(DataError, match="expected at most 999 bytes, got more"):
        download(f"{url}/x", tmp_path / "x", sha256="0" * 64, max_bytes=999)
    assert not list(tmp_path.glob("*x*"))


def test_download_names_what_cannot_be_fetched(server: tuple[Path, str], tmp_path: Path) -> None:
    _, url = server
    with pytest.raises(MissingPathError, match="none: expected a file, got the server's answer 404"):
        download(f"{url}/none", tmp_path / "x", sha256="0" * 64, max_bytes=9)
    with pytest.raises(MissingPathError, match=r"expected a file, got .*refused"):
        download("http://127.0.0.1:9/x", tmp_path / "x", sha256="0" * 64, max_bytes=9)
    with pytest.raises(UsageError, match="expected an http or https address, got 'file:///etc/passwd'"):
        download("file:///etc/passwd", tmp_path / "x", sha256="0" * 64, max_bytes=9)


def test_unpack_zip_and_tar(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("d/x.txt", "x")
    with tarfile.open(tmp_path / "b.tgz", "w:gz") as archive:
        archive.add(tmp_path / "a.zip", "d/a.zip")
    assert (unpack(tmp_path / "a.zip", tmp_path / "a") / "d" / "x.txt").read_text() == "x"
    assert (unpack(tmp_path / "b.tgz", tmp_path / "b") / "d" / "a.zip").exists()
    assert unpack(tmp_path / "gone.zip", tmp_path / "a") == tmp_path / "a"


def test_unpack_refuses_what_would_land_outside(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("../evil"), io.BytesIO())
    with pytest.raises(DataError, match=r"bad\.tar: expected a zip or tar archive, got .*outside"):
        unpack(tmp_path / "bad.tar", tmp_path / "out")
    (tmp_path / "no.zip").write_bytes(b"no")
    with pytest.raises(DataError, match=r"no\.zip: expected a zip or tar archive"):
        unpack(tmp_path / "no.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "evil").exists()


# Manifests


def test_a_file_below_the_root(tmp_path: Path) -> None:
    save_npz(tmp_path / "alpha.npz")
    assert len(open_manifest(manifest(), root=tmp_path)) == 40
    with pytest.raises(UsageError, match=r"manifest 'alpha': expected the folder that holds 'alpha\.npz', got none"):
        open_manifest(manifest())
    with pytest.raises(
        MissingPathError, match=r"expected the images of 'beta', got nothing there. Obtain them from a test"
    ):
        open_manifest(manifest("beta"), root=tmp_path)
    wrong = manifest(obtain=Obtain("file", "alpha.npz", sha256="0" * 64))
    with pytest.raises(DataError, match=r"expected sha256 0{64} as the manifest of 'alpha' says"):
        open_manifest(wrong, root=tmp_path)


def test_nothing_is_fetched_unasked(server: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, url = server
    path = save_npz(folder / "alpha.npz")
    size = path.stat().st_size
    obtain = Obtain("download", "alpha.npz", url=f"{url}/alpha.npz", sha256=hash_file(path), max_bytes=size)
    monkeypatch.setenv("WARMSTART_DATA", str(tmp_path / "data"))
    with pytest.raises(MissingPathError, match=r"got nothing there. Pass `download`"):
        open_manifest(manifest(obtain=obtain))
    assert len(open_manifest(manifest(obtain=obtain), download=True)) == 40
    assert (tmp_path / "data" / "alpha.npz").exists()


# torchvision


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


@pytest.fixture
def mnist(server: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The MNIST of torchvision, served by the stand-in with 30 + 10 pictures."""
    from torchvision.datasets import MNIST

    folder, url = server
    images, labels = pictures(0, 40, size=28)
    resources = []
    for prefix, rows in (("train", slice(0, 30)), ("t10k", slice(30, 40))):
        for kind, array in (("images-idx3", images[rows, ..., 0]), ("labels-idx1", labels[rows])):
            path = folder / f"{prefix}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(idx(array)))
            resources.append((path.name, hashlib.md5(path.read_bytes()).hexdigest()))
    monkeypatch.setattr(MNIST, "mirrors", [f"{url}/"])
    monkeypatch.setattr(MNIST, "resources", resources)


@pytest.mark.usefixtures("mnist")
def test_torchvision_downloads_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "data"
    with pytest.raises(MissingPathError, match=r"torchvision:MNIST: expected its files below .* Pass `download`"):
        open_torchvision("MNIST", root=root)
    assert not root.exists()
    source = open_torchvision("MNIST", root=root, download=True)
    assert (len(source), source.layout, source.location) == (40, "torchvision", "torchvision:MNIST")
    assert {name: len(rows) for name, rows in source.splits.items()} == {"train": 30, "test": 10}
    images, labels = pictures(0, 40, size=28)
    read = source.read([35, 2], size=28)
    assert (read.images == images[[35, 2]]).all()
    assert read.labels.tolist() == labels[[35, 2]].tolist()
    assert source.labels.tolist() == labels.tolist()
    assert source.fingerprint("content").startswith("content:")
    monkeypatch.setenv("WARMSTART_DATA", str(root))
    again = open_images("torchvision:MNIST")
    assert again.fingerprint("listing") == source.fingerprint("listing")
    assert again.signature() == source.signature()


def test_torchvision_refuses_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="torchvision:Nothing: expected one of CIFAR10, CIFAR100, Caltech101"):
        open_torchvision("Nothing", root=tmp_path)
    with pytest.raises(MissingPathError, match=r"torchvision:VOC2012: expected its files below .* got: "):
        open_torchvision("VOC2012", root=tmp_path)


# Splits


def test_splits_keep_what_a_source_has() -> None:
    labels = np.arange(20) % 2
    rows = np.arange(20)
    codes, seed = split_codes(labels, {"train": rows[:10], "val": rows[10:15], "test": rows[15:]})
    assert codes.tolist() == [0] * 10 + [1] * 5 + [2] * 5
    assert seed is None
    codes, seed = split_codes(labels, {"train": rows[:10], "test": rows[10:]}, fractions=(0.8, 0.2, 0.0), seed=4)
    assert (codes[10:] == 2).all()
    assert (codes[:10] == 1).sum() == 2
    assert seed == 4
    codes, seed = split_codes(labels, {"train": rows}, seed=3)
    assert np.bincount(codes).tolist() == [12, 4, 4]
    assert seed == 3


def test_splits_refuse_what_cannot_be_measured() -> None:
    with pytest.raises(LabelError, match="expected at least 2 training images and 1 validation image, got 2 and 0"):
        split_codes(np.array([0, 1]))
    with pytest.raises(LabelError, match="expected parts that cover all 4 images, got 1 images in none"):
        split_codes(np.array([0, 1, 0, 1]), {"train": np.array([0, 1]), "val": np.array([2])})
    with pytest.raises(LabelError, match=r"^photos/: expected .* got 9 and 0 .* Give more images of each class"):
        split_codes(np.arange(9), location="photos/")  # each alone in its class


# Into a history


def test_enrol_describes_and_splits(tmp_path: Path) -> None:
    save_npz(tmp_path / "alpha.npz")
    with empty_history(tmp_path / "h.h5") as history:
        assert add_sources(history, [manifest(n_images=40, n_classes=2)], root=tmp_path) == ("alpha",)
        info = history.dataset("alpha")
        assert (info.group, info.what, info.source, info.licence, info.manifest) == (
            "alpha",
            "squares",
            "a test",
            "MIT",
            "alpha",
        )
        assert (info.n_train, info.n_val, info.n_test, info.class_counts) == (24, 8, 8, (12, 12))
        assert (info.split_seed, info.parent, info.fraction, info.channels) == (0, None, 1.0, 1)
        assert info.decoding.endswith(", 8")
        stored = history.images("alpha")
        images, labels = pictures(0, 40)
        assert (np.asarray(stored.array) == images).all()
        assert (stored.labels == labels).all()
        assert stored.class_names == ("dark", "bright")
        (tmp_path / "alpha.npz").unlink()
        assert add_sources(history, [manifest()], root=tmp_path) == ("alpha",), "what is there is not read again"


def test_fractions_are_nested_parts_of_the_training_split(tmp_path: Path) -> None:
    save_npz(tmp_path / "alpha.npz")
    with empty_history(tmp_path / "h.h5") as history:
        names = add_sources(history, [manifest()], root=tmp_path, fractions=(0.25, 0.5, 1.0))
        assert names == ("alpha@25", "alpha@50", "alpha")
        quarter, half, whole = (history.dataset(name) for name in names)
        assert (quarter.n_train, half.n_train, whole.n_train) == (6, 12, 24)
        assert {(info.n_val, info.n_test, info.group) for info in (quarter, half, whole)} == {(8, 8, "alpha")}
        assert (quarter.parent, quarter.fraction, whole.parent) == ("alpha", 0.25, None)
        assert quarter.class_counts == (3, 3)
        train = {
            name: {x.tobytes() for x in history.images(name).array[history.images(name).split == 0]} for name in names
        }
        assert train["alpha@25"] < train["alpha@50"] < train["alpha"]
        held_out = [np.asarray(history.images(name).array[history.images(name).split != 0]) for name in names]
        assert (held_out[0] == held_out[2]).all()


@pytest.mark.parametrize("fraction", [0.0, 1.2, 0.333])
def test_refuses_fractions_that_have_no_name(tmp_path: Path, fraction: float) -> None:
    with empty_history(tmp_path / "h.h5") as history, pytest.raises(UsageError, match="whole percentages"):
        add_sources(history, [manifest()], root=tmp_path, fractions=(fraction,))


def test_enrol_refuses_another_source(tmp_path: Path) -> None:
    save_npz(tmp_path / "alpha.npz")
    with empty_history(tmp_path / "h.h5") as history:
        for wrong, message in (
            (
                {"fingerprint": "content:" + "0" * 40},
                "expected the images of 'alpha', content:0{40} as its manifest says, got",
            ),
            ({"n_images": 41}, "expected n_images=41 as the manifest of 'alpha' says, got 40"),
            ({"n_classes": 3}, "expected n_classes=3 as the manifest of 'alpha' says, got 2"),
        ):
            with pytest.raises(DataError, match=message):
                add_sources(history, [manifest(**wrong)], root=tmp_path)
        assert history.names == ()


def test_one_missing_source_adds_none(tmp_path: Path) -> None:
    save_npz(tmp_path / "alpha.npz")
    with empty_history(tmp_path / "h.h5") as history:
        with pytest.raises(MissingPathError, match="beta"):
            add_sources(history, [manifest(), manifest("beta")], root=tmp_path)
        assert history.names == ()


def test_images_come_back_into_a_history_without(tmp_path: Path) -> None:
    save_npz(tmp_path / "alpha.npz")
    with empty_history(tmp_path / "h.h5") as history:
        add_sources(history, [manifest()], root=tmp_path, fractions=(0.5, 1.0))
        before = {name: np.asarray(history.images(name).array).copy() for name in history.names}
        history.compact(drop_images=True)
        assert not history.has_images("alpha")
        save_npz(tmp_path / "alpha.npz", seed=1)
        with pytest.raises(DataError, match="as the history says, got"):
            restore_images(history, [manifest()], root=tmp_path)
        save_npz(tmp_path / "alpha.npz")
        other = manifest(splits=Splits(seed=1))
        with pytest.raises(DataError, match=r"dataset 'alpha.*': expected images with split_seed=0, got 1"):
            restore_images(history, [other], root=tmp_path)
        assert restore_images(history, [manifest()], root=tmp_path) == ()
        for name, images in before.items():
            assert (np.asarray(history.images(name).array) == images).all()
