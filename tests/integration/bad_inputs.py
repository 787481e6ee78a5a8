"""Wrong things to give the command line, each with what it must answer."""

import json
import shutil
import struct
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from stripes import pictures, write_folder


@dataclass(frozen=True, slots=True)
class World:
    """Where good and bad things lie."""

    root: Path
    history: Path
    model: Path

    def at(self, name: str) -> Path:
        return self.root / name


@dataclass(frozen=True, slots=True)
class Bad:
    """One wrong call: its kind, its arguments, its exit code and what its message says."""

    kind: str
    name: str
    code: int
    match: str
    arguments: Callable[[World], Sequence[object]]


def _dataset(kind: str, name: str, code: int, match: str, *more: object) -> Bad:
    return Bad(kind, name, code, match, lambda w: ["suggest", "--dataset", w.at(name), *more])


def _place(kind: str, name: str, code: int, match: str, place: str, *more: object) -> Bad:
    return Bad(kind, name, code, match, lambda w: ["suggest", "--dataset", place.format(history=w.history), *more])


def _history(name: str, code: int, match: str) -> Bad:
    return Bad("history", name, code, match, lambda w: ["suggest", "--dataset", w.at("good"), "--history", w.at(name)])


def _model(name: str, code: int, match: str) -> Bad:
    return Bad(
        "model",
        name,
        code,
        match,
        lambda w: ["suggest", "--dataset", w.at("good"), "--model", w.at(name), "--no-cache"],
    )


def _option(name: str, match: str, *more: object) -> Bad:
    return Bad("option", name, 2, match, lambda w: ["suggest", "--dataset", w.at("good"), *more])


def _record(name: str, code: int, match: str, *more: object) -> Bad:
    config = ["--config", json.dumps(GOOD_CONFIG)] if "--config" not in more else []
    dataset = ["--dataset", "stripes0"] if "--dataset" not in more else []
    return Bad("option", name, code, match, lambda w: ["history", "record", w.history, *dataset, *config, *more])


GOOD_CONFIG = {
    "batch_size": 16,
    "dropout_rate": 0.5,
    "log10_decay_rate": -6.0,
    "log10_learning_rate": -3.0,
    "num_layers_conv": 3,
    "num_layers_fc": 1,
}

TABLE: tuple[Bad, ...] = (
    _dataset("path", "missing", 2, "missing: expected"),
    _dataset("path", "empty", 3, "empty: expected"),
    _dataset("path", "photos.zip", 3, "photos.zip: expected at least two classes"),
    _place("path", "unknown scheme", 2, "expected .*ftp", "ftp:photos"),
    _dataset("image", "text_named_png", 3, "expected .*got.* 1 "),
    _dataset("image", "huge_picture", 3, "expected .*got.* 1 "),
    _dataset("image", "all_broken", 3, "expected", "--skip-broken"),
    _dataset("array", "objects.npz", 3, "expected .*object"),
    _dataset("array", "nan.npz", 3, "expected floats .*got 1 NaN"),
    _dataset("array", "other_names.npz", 3, "expected labels beside pixels, got pixels, answers"),
    _dataset("label", "labels_short.npz", 3, "expected 8 labels.*got.*7"),
    _dataset("label", "labels_one_hot.npz", 3, "expected one label a picture.*one-hot"),
    _history("notes.txt", 4, "notes.txt: expected"),
    _history("truncated.h5", 4, "truncated.h5"),
    _history("newer.h5", 4, 'newer.h5.*expected encoding-version "2", got "99". Upgrade warmstart'),
    _history("flipped.h5", 4, "flipped.h5"),
    _history("no_datasets.h5", 2, "no_datasets.h5: expected a history with datasets"),
    _history("other_journal.h5", 4, "other_journal.h5"),
    _model("missing.safetensors", 2, "missing.safetensors: expected a model file"),
    _model("notes.txt", 4, "notes.txt: expected a model file"),
    _model("truncated.safetensors", 4, "truncated.safetensors: expected .*bytes, got .*truncated"),
    _model("other_size.safetensors", 4, "expected a model for images of 32 x 32 .*got one for 16 x 16"),
    _model("altered.safetensors", 4, "altered.safetensors: expected weights with hash"),
    _option("k larger than the history", "-k: expected at most 8, the number of configurations.*got 9", "-k", 9),
    _option("unknown group", "--exclude-group: expected groups of .*got group9", "--exclude-group", "group9"),
    Bad("option", "no dataset", 2, "Give your images", lambda w: ["suggest"]),
    _record("error above 1", 3, r"expected an error in \[0, 1\], got error=1.5", "--error", 1.5),
    Bad("option", "remove unasked", 2, "expected --yes", lambda w: ["history", "remove", w.history, "stripes0"]),
    Bad(
        "option",
        "name taken",
        2,
        "expected a new name, got 'stripes0'",
        lambda w: ["history", "add", w.history, "--dataset", w.at("good"), "--name", "stripes0", "--group", "g"],
    ),
    Bad(
        "option",
        "create over a file",
        2,
        "expected a path where nothing lies",
        lambda w: ["history", "create", w.history],
    ),
)


def build(root: Path, history: Path, model: Path) -> World:
    """Write everything that the table names."""
    _write_folders(root)
    _write_arrays(root)
    _write_histories(root, history)
    _write_models(root, model, history)
    return World(root, history, model)


def _write_folders(root: Path) -> None:
    good = write_folder(root / "good", *pictures(7, 12, classes=3))
    (root / "empty").mkdir()
    (root / "notes.txt").write_text("not a picture\n" * 100)
    with zipfile.ZipFile(root / "photos.zip", "w") as archive:
        archive.write(good / "class0" / "000.png")
    for name in ("text_named_png", "huge_picture"):
        shutil.copytree(good, root / name)
    (root / "text_named_png" / "class0" / "bad.png").write_text("hello")
    (root / "huge_picture" / "class0" / "bad.png").write_bytes(_png_of_claimed_size(100_000))
    for number in range(4):
        folder = root / "all_broken" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_text("hello")


def _png_of_claimed_size(side: int) -> bytes:
    import zlib

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 100)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def _write_arrays(root: Path) -> None:
    images, labels = pictures(5, 8, classes=2)
    nan = images.astype(np.float32) / 255
    nan[0, 0, 0, 0] = np.nan
    for name, x, y in (
        ("objects", np.array([*images, None], dtype=object)[:8], labels),
        ("nan", nan, labels),
        ("labels_short", images, labels[:7]),
        ("labels_one_hot", images, np.eye(2, dtype=np.int64)[labels]),
    ):
        np.savez(root / f"{name}.npz", images=x, labels=y)
    np.savez(root / "other_names.npz", pixels=images, answers=labels)


def _write_histories(root: Path, history: Path) -> None:
    from warmstart.history_store.history import History

    whole = history.read_bytes()
    (root / "truncated.h5").write_bytes(whole[: len(whole) // 2])
    flipped = bytearray(whole)
    place = whole.index(b'"group0"') + 3
    flipped[place] ^= 0x20
    (root / "flipped.h5").write_bytes(flipped)
    (root / "newer.h5").write_bytes(whole)
    with h5py.File(root / "newer.h5", "r+") as file:
        file.attrs.create("encoding-version", np.bytes_("99"))
    with History.open(history) as opened:
        History.create(root / "no_datasets.h5", opened.space_json, configs=opened.configs).close()
    shutil.copy(root / "no_datasets.h5", root / "donor.h5")
    shutil.copy(history, root / "other_journal.h5")
    with History.open(root / "donor.h5", write=True) as donor:
        donor.set_result("x", {"y": 1})  # a copy's first write makes the file its own
        donor.set_result("x", {"y": 2})
    (root / "donor.h5.journal").replace(root / "other_journal.h5.journal")


def _write_models(root: Path, model: Path, history: Path) -> None:
    from warmstart.metafeat.model import MetaFeatureModel
    from warmstart.metafeat.spec import ModelSpec

    whole = model.read_bytes()
    (root / "truncated.safetensors").write_bytes(whole[:-100])
    altered = bytearray(whole)
    altered[-2] ^= 0x40
    (root / "altered.safetensors").write_bytes(altered)
    good = MetaFeatureModel.load(model)
    MetaFeatureModel.random(ModelSpec(tau=50, image_size=16)).save(root / "other_size.safetensors", good.header)
