"""What a file of a dataset may take of time and memory."""

import gzip
import os
import resource
import struct
import time
import zipfile
import zlib
from contextlib import nullcontext

import numpy as np
import pytest
from PIL import Image

from warmstart.history_store.errors import BrokenImagesError, DataError, UsageError
from warmstart.history_store.images import DatasetWarning
from warmstart.history_store.limits import PIXELS
from warmstart.history_store.readers.registry import open_location


@pytest.fixture(autouse=True)
def bounded():
    """Check that a test took little time and memory."""
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # kilobytes
    assert time.process_time() - started < 10


@pytest.fixture
def folder(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / name / "good.png")
    return tmp_path


def read(path):
    source = open_location(path)
    return source.read(range(len(source)))


def png(path, width, height):
    """Write a black grey picture of any size without holding it."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(1)
    row = bytes(1 + width)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b""))


def test_a_picture_of_177_megapixels(folder):
    png(folder / "a" / "0.png", 13_300, 13_300)
    with pytest.raises(
        BrokenImagesError, match=r"at most 100,000,000 pixels in a picture, got 176,890,000.*WARMSTART_MAX_PIXELS"
    ):
        read(folder)


def test_a_limit_is_raised_by_its_variable(folder, monkeypatch):
    monkeypatch.setenv(PIXELS.variable, "50")
    with pytest.raises(BrokenImagesError, match="at most 50 pixels in a picture, got 64"):
        read(folder)
    monkeypatch.setenv(PIXELS.variable, "64")
    assert len(read(folder).images) == 2


@pytest.mark.parametrize("text", ["many", "0", "1.5"])
def test_a_limit_that_is_none(text, monkeypatch):
    monkeypatch.setenv(PIXELS.variable, text)
    with pytest.raises(UsageError, match=r"^\$WARMSTART_MAX_PIXELS: expected a positive whole number"):
        PIXELS.value()


@pytest.mark.parametrize("target", ["/proc/self/environ", "/dev/zero", "pipe"])
def test_links_to_what_is_no_picture(folder, target):
    if target == "pipe":
        os.mkfifo(folder / "pipe")
        target = folder / "pipe"
    (folder / "a" / "odd.png").symlink_to(target)
    is_file = "proc" in str(target)
    told = (
        nullcontext() if is_file else pytest.warns(DatasetWarning, match=r"left out \d files? \(a pipe or a device\)")
    )
    with told:
        source = open_location(str(folder))
    images = source.read(range(len(source)), skip_broken=True)
    assert len(images.images) == 2
    assert len(images.broken) == is_file
    source.fingerprint("content")


TABLES = {
    "short rows": ("a" + "," * 100_000 + "\n" + "1\n" * 100_000, "expected a picture for each|column that names"),
    "names and short rows": (",".join(map(str, range(50_000))) + "\n" + "1\n" * 100_000, "unpacked bytes"),
    "columns": (",".join(f"c{n}" for n in range(3000)) + "\n" + "x/y," * 2999 + "x/y\n", "column that names"),
    "spaces": (f'image;label\na/good.png;"1{" " * 100_000}x"\nb/good.png;2\n', None),
    "accents": ("image,label\na/good.png,1\nb/good.png,a" + "\u0301\u0323" * 100_000 + "\n", None),
    "levels": ("image,label\n" + f"{'a/' * 100_000}x.png,1\n" * 2, "column that names"),
    "a long label": ("image,label\n" + f"a/good.png,{'x' * 500_000}\nb/good.png,2\n", None),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_small_table_takes_little(folder, name):
    text, told = TABLES[name]
    (folder / "l.csv").write_text(text, encoding="utf-8")
    with nullcontext() if told is None else pytest.raises(DataError, match=told):
        open_location(f"{folder}::labels=l.csv")


def test_rows_with_names_of_their_own_are_refused(folder):
    (folder / "l.jsonl").write_text("".join(f'{{"file": "a/good.png", "k{n}": 1}}\n' for n in range(20_000)))
    with pytest.raises(DataError, match="unpacked bytes"):
        open_location(f"{folder}::labels=l.jsonl")


def test_paths_and_links_that_multiply_are_refused(folder):
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr("a/" * 30_000 + "1.png", (folder / "a" / "good.png").read_bytes())
    with pytest.raises(DataError, match="paths of at most 100 folders"):
        open_location(str(folder / "x.zip"))
    for level in range(30):
        (folder / f"{level}").mkdir()
        (folder / f"{level}" / "left").symlink_to(folder / f"{level + 1}")
        (folder / f"{level}" / "right").symlink_to(folder / f"{level + 1}")
    with pytest.raises(DataError, match=r"at most 100 ways to one folder, got more to .*\d\. Remove links"):
        open_location(str(folder))


def npz(path, *, images, labels):
    """Write an archive whose arrays of zeros, with a one at the end, are compressed a thousand times."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, (shape, dtype) in {"images": images, "labels": labels}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                head = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, head)
                left = int(np.prod(shape)) * np.dtype(dtype).itemsize - 1
                while left:
                    file.write(bytes(min(left, 2**20)))
                    left -= min(left, 2**20)
                file.write(b"\1")


def test_an_archive_that_unpacks_to_far_more(tmp_path):
    labels = ((2**28 + 1,), np.uint8)
    npz(tmp_path / "x.npz", images=((4, 8, 8), np.uint8), labels=labels)
    with pytest.raises(DataError, match=r"x.npz:labels: expected .*WARMSTART_MAX_UNPACKED_BYTES|expected 4 labels"):
        read(tmp_path / "x.npz")


def test_an_idx_file_with_a_surplus(tmp_path):
    head = b"\0\0\x08\x03" + struct.pack(">III", 4, 8, 8)
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb", compresslevel=1) as file:
        file.write(head + bytes(4 * 64))
        for _ in range(300):
            file.write(bytes(2**20))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + struct.pack(">I", 4) + bytes([0, 1, 0, 1]))
    with pytest.raises(DataError, match=r"expected 272 bytes for 4 x 8 x 8, got at least 273. The file is too long"):
        read(tmp_path)


def test_a_parquet_file_that_says_it_unpacks_to_far_more_is_refused(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    from warmstart.history_store.exchange import read_rows

    path = tmp_path / "runs.parquet"
    bomb = {"image": [b"\0" * 2**20] * 4, "label": [0, 1, 0, 1]}
    pq.write_table(pa.table(bomb), path, compression="zstd", use_dictionary=False)
    monkeypatch.setenv("WARMSTART_MAX_UNPACKED_BYTES", str(2**21))
    for read in (read_rows, lambda path: open_location(str(path))):
        with pytest.raises(DataError, match=r"runs.parquet group 1: expected at most .* unpacked bytes.*WARMSTART_MAX_UNPACKED_BYTES="):  # fmt: skip
            read(path)
    monkeypatch.setenv("WARMSTART_MAX_UNPACKED_BYTES", str(2**23))
    assert len(read_rows(path)[1]) == 4
