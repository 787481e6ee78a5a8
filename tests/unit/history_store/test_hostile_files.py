"""Histories made to harm, with checksums that are right: an error that names the file, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import histories
import numpy as np
import pytest

from warmstart.history_store.errors import HistoryDamagedError, StorageError
from warmstart.history_store.file.journal import header, line
from warmstart.history_store.file.layout import LIBVER, set_text, write_text
from warmstart.history_store.history import History
from warmstart.history_store.records import Evaluation
from warmstart.history_store.verify import verify

INFO = {"name": "x", "group": "g", "n_train": 1, "n_val": 0, "n_test": 0, "n_classes": 2}
RUN = {"dataset": "digits", "config": histories.configs(1)[0], "error": 0.5}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    with histories.to_be_copied(), histories.filled(folder / "h.h5") as history:
        history.add_datasets([(histories.info("new"), histories.pictures(10), None)])
        history.compact()
    return folder


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return tmp_path / "h.h5"


def add(**fields: Any) -> dict[str, Any]:
    return {"op": "add-dataset", "info": INFO | fields}


def extend(**fields: Any) -> dict[str, Any]:
    return {"op": "extend", "configs": [], "evaluations": [RUN | fields]}


@pytest.mark.parametrize(
    "operation",
    [
        add(group=5),
        add(name=["a"]),
        add(n_train="1"),
        add(n_train=True),
        add(class_counts=5),
        add(extra=[1]),
        add(fraction="all"),
        {"op": "add-dataset"},
        {"op": "remove-dataset", "name": "none"},
        {"op": "extend", "configs": None, "evaluations": None},
        {"op": "extend", "configs": [[{"layers": 1}, [0.5]]], "evaluations": []},
        {"op": "extend", "configs": [[{"layers": [1]}, [0.5] * 6]], "evaluations": []},
        extend(error=7),
        extend(seed=float("inf")),
        extend(curve=[[float("inf"), 0.5]]),
        extend(curve=5),
        {"op": "set-result", "key": "k", "value": 5},
    ],
    ids=lambda operation: json.dumps(operation)[:70],
)
def test_operations_that_fit_nothing(path: Path, operation: dict[str, Any]) -> None:
    with History.open(path) as history:
        serial, first = history._content.serial + 1, header(history.id, history._content.salt)
    path.with_name("h.h5.journal").write_bytes(first + line(json.dumps({"serial": serial} | operation)))
    for write in (False, True):
        with pytest.raises(
            HistoryDamagedError,
            match=r"h\.h5\.journal: expected (operations that fit the history, got number \d+|whole operations .* altered line 2).*h\.h5\.bak",
        ):
            History.open(path, write=write)
    assert not verify(path).ok


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_companions_that_are_no_files(path: Path, make: Callable[[Path], None]) -> None:
    journal, backup = path.with_name("h.h5.journal"), path.with_name("h.h5.bak")
    make(journal)
    assert not verify(path).ok
    with pytest.raises(HistoryDamagedError, match=r"h\.h5\.journal: expected an ordinary file, got a "):
        History.open(path)
    if make is not os.mkfifo:
        return
    journal.unlink()
    backup.unlink()
    make(backup)
    assert not verify(path).ok
    with History.open(path, write=True) as history:
        history.append(Evaluation("digits", histories.configs(1)[0], 0.5, seed=90))
    assert stat.S_ISREG(backup.lstat().st_mode)


@pytest.mark.parametrize("suffix", [".lock", ".tmp", ".bak.tmp", ".bak", ".journal"])
def test_planted_links_are_not_followed(path: Path, suffix: str, tmp_path: Path) -> None:
    target, companion = tmp_path / "target", path.with_name(path.name + suffix)
    target.write_bytes(b"mine")
    companion.unlink(missing_ok=True)
    companion.symlink_to(target)
    try:
        with History.open(path, write=True, lock_timeout=0) as history:
            history.append(Evaluation("digits", histories.configs(1)[0], 0.5, seed=90))
            history.compact()
    except StorageError as error:
        assert "expected an ordinary file, got a link. Remove it" in str(error)  # noqa: PT017  either is right
        assert suffix in (".lock", ".journal")
    else:
        assert verify(path).ok
    assert target.read_bytes() == b"mine"


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_companions_have_the_mode_of_the_history(path: Path, mode: int) -> None:
    path.chmod(mode)
    before = os.umask(0o022)
    try:
        with History.open(path, write=True) as history:
            history.append(Evaluation("digits", histories.configs(1)[0], 0.5, seed=90))
            history.compact()
            history.append(Evaluation("digits", histories.configs(1)[0], 0.5, seed=91))
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("h.h5", "h.h5.bak", "h.h5.index", "h.h5.journal", "h.h5.lock"), mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file another group")
def test_companions_have_the_group_of_the_history(path: Path) -> None:
    os.chown(path, -1, 12345)
    path.chmod(0o660)
    with History.open(path, write=True) as history:
        history.append(Evaluation("digits", histories.configs(1)[0], 0.5, seed=90))
        history.compact()
        history.append(Evaluation("digits", histories.configs(1)[0], 0.5, seed=91))
    for suffix in ("", ".bak", ".journal", ".lock"):
        status = path.with_name(path.name + suffix).stat()
        assert (status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 0o660), suffix


def change_header(**fields: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        values = json.loads(bytes(file["header"][()])) | fields
        del file["header"]
        write_text(file, "header", json.dumps(values))

    return change


def change_text(key: str, text: str) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[key]
        write_text(file, key, text)

    return change


def put(key: str, **how: Any) -> Callable[[h5py.File], None]:
    """Keep an array in another way, with all its attributes."""

    def change(file: h5py.File) -> None:
        old = dict(file[key].attrs)
        given = dict(how) if "shape" in how or "data" in how else {"data": file[key][()]} | how
        del file[key]
        made = file.create_dataset(key, **given)
        for name, value in old.items():
            set_text(made, name, value.decode()) if isinstance(value, bytes) else made.attrs.create(name, value)

    return change


def link(made: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file["results"]
        file["results"] = made

    return change


@pytest.mark.parametrize(
    "change",
    [
        change_header(serial=-5),
        change_header(serial=float("inf")),
        change_header(serial="x"),
        change_header(stored_size=-1),
        change_text("notes", "[" * 100_000 + "]" * 100_000),
        change_text("datasets", json.dumps([INFO | {"group": 5}])),
        change_text("configs", "5"),
        change_text("results", '{"a": 5}'),
        link(h5py.SoftLink("/notes")),
        link(h5py.ExternalLink("/etc/other.h5", "/results")),
        put("evaluations/error", chunks=(1,), compression="gzip"),
        put("evaluations/error", chunks=(1,)),
        put("evaluations/error", shape=(10**11,), dtype="<f8", chunks=(10**6,), compression="gzip"),
        put("evaluations/error", shape=(10**11,), dtype="<f8"),
        put("notes", data="{}", dtype=h5py.string_dtype()),
        put("evaluations/error", shape=(9,), dtype="<f8", external=[("/etc/passwd", 0, 72)]),
    ],
)
def test_elements_made_to_harm(path: Path, change: Callable[[h5py.File], None]) -> None:
    with h5py.File(path, "r+", libver=LIBVER) as file:
        change(file)
    for write in (False, True):
        with pytest.raises(HistoryDamagedError, match=r"h\.h5"):
            History.open(path, write=write)
    assert not verify(path).ok


@pytest.mark.parametrize(
    "change",
    [
        put("images/new/array", shape=(10, 32, 32, 3), dtype="u1", external=[("/etc/passwd", 0, 30720)]),
        put("images/new/array", shape=(10**9, 32, 32, 3), dtype="u1"),
        put("images/new/array", chunks=(1, 32, 32, 3)),
    ],
)
def test_pixels_made_to_harm(path: Path, change: Callable[[h5py.File], None]) -> None:
    with h5py.File(path, "r+", libver=LIBVER) as file:
        change(file)
    assert not verify(path).ok
    with (
        History.open(path) as history,
        pytest.raises(HistoryDamagedError, match=r"images/new/array: expected contiguous bytes"),
    ):
        history.images("new").sample(np.random.default_rng(0), 5)
