"""Damage is found, and a damaged history comes back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import histories
import numpy as np
import pytest

from warmstart.history_store.errors import (
    HistoryDamagedError,
    HistoryWarning,
    MissingPathError,
    UsageError,
)
from warmstart.history_store.file import layout
from warmstart.history_store.file.journal import line
from warmstart.history_store.file.layout import write_array, write_json
from warmstart.history_store.file.stored_images import write_images
from warmstart.history_store.history import History
from warmstart.history_store.readers import open_images
from warmstart.history_store.records import Evaluation
from warmstart.history_store.verify import restore, upgrade, verify


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history with images and embeddings, nothing in its journal."""
    folder = tmp_path_factory.mktemp("filled")
    with histories.to_be_copied(), histories.filled(folder / "h.h5") as history:
        history.add_dataset(histories.info("new", class_counts=(5, 5)), histories.pictures())
        history.set_embeddings("abc", {"new": np.ones(3, np.float32)})
        history.compact()
    return folder


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return tmp_path / "h.h5"


def rewrite_json(file: h5py.File, key: str, change: Callable[[object], object]) -> None:
    value = json.loads(bytes(file[key][()]))
    del file[key]
    write_json(file, key, change(value))


def rewrite_column(file: h5py.File, key: str, row: int, value: float) -> None:
    values = file[key][()]
    values[row] = value
    del file[key]
    folder, _, name = f"/{key}".rpartition("/")
    write_array(file[folder or "/"], name, values)


def foreign_images(file: h5py.File) -> None:
    images = histories.pictures()
    write_images(file["images"], "else", images.images, images.labels, np.zeros(10, np.int8), ("a", "b"))


def other_labels(file: h5py.File) -> None:
    rewrite_column(file, "images/new/labels", 0, 1)


FAULTS: list[tuple[Callable[[h5py.File], None], str]] = [
    (lambda f: f["images/new/array"].write_direct(np.zeros((10, 32, 32, 3), np.uint8)), "the bytes were altered"),
    (lambda f: f.__delitem__("evaluations/seed"), "expected an element of type 'array', got nothing"),
    (lambda f: rewrite_column(f, "evaluations/dataset", 0, 9), "1 evaluations point to no dataset"),
    (lambda f: rewrite_column(f, "evaluations/config", 0, -1), "1 evaluations point to no configuration"),
    (lambda f: rewrite_column(f, "evaluations/status", 0, 9), "1 evaluations have an unknown status"),
    (lambda f: rewrite_column(f, "evaluations/status", 0, 2), "have an error that does not fit their status"),
    (lambda f: rewrite_column(f, "evaluations/error", 0, 2.0), "have an error that does not fit their status"),
    (lambda f: rewrite_column(f, "evaluations/duration", 0, -2.0), "have a negative duration"),
    (lambda f: rewrite_column(f, "evaluations/seed", 0, -2), "have a seed below -1"),
    (lambda f: rewrite_column(f, "evaluations/curve_end", 1, 1), "have a curve that ends before it starts"),
    (lambda f: rewrite_column(f, "evaluations/curve_end", 8, 99), "expected columns of one length"),
    (lambda f: rewrite_column(f, "evaluations/seed", 1, 0), "1 evaluations occur twice"),
    (lambda f: rewrite_column(f, "configs_unit", 0, 0.25), "does not encode the configurations"),
    (lambda f: rewrite_json(f, "configs", lambda v: [*v[:3], v[0]]), "two configurations are equal"),
    (lambda f: rewrite_json(f, "configs", lambda v: [*v[:3], {"layers": 99}]), "expected one that the space"),
    (lambda f: rewrite_json(f, "datasets", lambda v: [*v[:3], v[0]]), "two datasets have one name"),
    (lambda f: rewrite_json(f, "datasets", lambda v: [*v[:3], {**v[3], "n_train": 9}]), "expected uint8 of shape"),
    (lambda f: rewrite_json(f, "datasets", lambda v: [*v[:3], {**v[3], "odd": 9}]), "expected fields among"),
    (lambda f: rewrite_json(f, "datasets", lambda v: [*v[:3], {**v[3], "name": "x"}]), "images of a dataset that the"),
    (lambda f: rewrite_json(f, "space", lambda v: {"hyperparameters": 1}), "a space without hyperparameters"),
    (lambda f: rewrite_json(f["embeddings/abc"], "names", lambda v: ["else"]), "vectors of datasets that the history"),
    (lambda f: f.create_dataset("stray", data=np.zeros(3)), "an array without type and version"),
    (foreign_images, "images of a dataset that the history does not have"),
    (other_labels, "training images a class differ"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS)
def test_faults_are_found(path: Path, fault: Callable[[h5py.File], None], message: str) -> None:
    with h5py.File(path, "r+", libver=layout.LIBVER) as file:
        fault(file)
    report = verify(path)
    assert not report.ok
    assert message in " ".join(problem.message for problem in report.problems), report.problems


def test_a_sound_one(path: Path) -> None:
    report = verify(path)
    assert report.ok
    assert (report.n_datasets, report.n_configs, report.n_evaluations, report.n_images) == (4, 4, 9, 10)
    assert report.remarks == ()


def test_what_is_worth_knowing(path: Path) -> None:
    path.with_name("h.h5.bak").unlink()
    path.with_name("h.h5.tmp").touch()
    with History.open(path) as history:
        log = line(json.dumps({"journal": 1, "history": history.id}))
    path.with_name("h.h5.journal").write_bytes(log + b"0123")
    report = verify(path)
    assert report.ok
    text = " ".join(report.remarks)
    assert "ends in a torn line" in text
    assert "there is no backup" in text
    assert "h.h5.tmp was left by a writer that was stopped" in text


def test_the_backup_is_looked_at(path: Path, tmp_path: Path) -> None:
    backup = path.with_name("h.h5.bak")
    data = bytearray(backup.read_bytes())
    data[-20000] ^= 1
    backup.write_bytes(data)
    assert [problem.location for problem in verify(path).problems] == ["h.h5.bak"]
    with History.create(tmp_path / "other.h5", histories.space_json()):
        pass
    shutil.copy(tmp_path / "other.h5", backup)
    assert [problem.message for problem in verify(path).problems] == ["the backup of another history"]


def test_nothing_to_verify(tmp_path: Path) -> None:
    with pytest.raises(MissingPathError, match="got nothing there"):
        verify(tmp_path / "none.h5")
    with pytest.raises(UsageError, match="got a folder"):
        verify(tmp_path)
    (tmp_path / "x.h5").write_text("no")
    report = verify(tmp_path / "x.h5")
    assert [problem.location for problem in report.problems] == ["file"]


def test_restore_with_the_journal_on_top(path: Path) -> None:
    with History.open(path, write=True) as history:
        history.append(Evaluation("new", histories.configs(1)[0], 0.5, seed=77))
        expected = histories.plain(history.evaluations())
    damaged = path.read_bytes()[:5000]
    path.write_bytes(damaged)
    report = restore(path)
    assert report.ok
    assert report.remarks[0] == "brought back from h.h5.bak; the damaged file is h.h5.damaged"
    assert path.with_name("h.h5.damaged").read_bytes() == damaged
    with History.open(path, write=True) as history:
        assert histories.plain(history.evaluations()) == expected
        history.append(Evaluation("new", histories.configs(1)[0], 0.5, seed=78))


def test_restore_of_flipped_pixels(path: Path) -> None:
    with h5py.File(path, "r+", libver=layout.LIBVER) as file:
        pixels = file["images/new/array"][()]
        file["images/new/array"][0, 0, 0, 0] ^= 255
    assert not verify(path).ok
    with (
        History.open(path, write=True) as history,
        pytest.raises(HistoryDamagedError, match=r"expected sound images, got altered pixels in new\. Its backup is "),
    ):
        history.compact()  # never carries damage into the backup
    assert restore(path).ok
    with History.open(path) as history:
        np.testing.assert_array_equal(history.images("new").array, pixels)


def test_restore_without_a_sound_backup(path: Path) -> None:
    path.write_bytes(b"no")
    backup = path.with_name("h.h5.bak")
    backup.write_bytes(b"no")
    with pytest.raises(
        HistoryDamagedError, match=r"expected a sound backup h\.h5\.bak to restore from, got a damaged one"
    ):
        restore(path)
    backup.unlink()
    with pytest.raises(HistoryDamagedError, match="to restore from, got none"):
        restore(path)
    assert path.read_bytes() == b"no"


def test_restore_of_a_damaged_journal_keeps_all_other_lines(path: Path) -> None:
    with History.open(path, write=True) as history:
        for seed in range(5):
            history.append(Evaluation("new", histories.configs(6)[seed + 1], 0.5, seed=seed))
        history.add_dataset(histories.info("later"))
        history.append(Evaluation("later", histories.configs(1)[0], 0.5, seed=9))
    log = path.with_name("h.h5.journal")
    lines = log.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"0.5", b"0.6")
    log.write_bytes(b"".join(lines))
    with pytest.raises(HistoryDamagedError, match=r"got altered line 4\. Its backup"):
        History.open(path, write=True)
    report = restore(path)
    assert report.ok, report.problems
    assert "6 of 6 whole operations of the journal were kept, and 1 altered line is lost" in report.remarks[0]
    with History.open(path, write=True) as history:
        assert {run.seed for run in history.evaluations("new")} == {0, 1, 3, 4}
        assert history.n_evaluations == 9 + 5
        history.append(Evaluation("new", histories.configs(1)[0], 0.5, seed=10))
    assert verify(path).ok


@pytest.mark.parametrize(
    "odd",
    [
        {"op": "extend", "configs": [], "evaluations": [{"dataset": "nowhere", "config": {}, "error": 0.5}]},
        {"op": "set-result", "key": [], "value": {}},
        {"op": "novel"},
    ],
)
def test_restore_leaves_out_operations_that_do_not_fit(path: Path, odd: dict[str, object]) -> None:
    with History.open(path, write=True) as history:
        history.append(Evaluation("new", histories.configs(1)[0], 0.5, seed=1))
        serial = history._content.serial
    log = path.with_name("h.h5.journal")
    result = {"op": "set-result", "key": "b", "value": {"a": [1]}}
    text = log.read_bytes() + b"".join(
        line(json.dumps({"serial": serial + k, **each})) for k, each in enumerate((odd, result), start=1)
    )
    log.write_bytes(text)
    with pytest.raises(HistoryDamagedError, match="expected operations that fit the history"):
        History.open(path)
    report = restore(path)
    assert report.ok, report.problems
    assert "2 of 3 whole operations of the journal were kept, the other does not fit the history" in report.remarks[0]
    assert log.with_name("h.h5.journal.damaged").read_bytes() == text
    with History.open(path) as history:
        assert history.get_result("b") == {"a": [1]}
        assert history.n_evaluations == 9 + 1
    assert restore(path).remarks == verify(path).remarks  # nothing is left to do


def test_upgrade_rewrites_old_elements(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(layout._READERS, ("json", "0"), layout._read_json)
    with h5py.File(path, "r+", libver=layout.LIBVER) as file:
        layout.set_text(file["notes"], "encoding-version", "0")
    assert upgrade(path)
    monkeypatch.undo()
    assert not upgrade(path)
    assert History.open(path).notes == {"made": "in a test"}


def flip(path: Path, needle: bytes, bit: int = 0) -> None:
    """Flip a bit of a file in place, as a disk does."""
    data = bytearray(path.read_bytes())
    at = data.index(needle)
    data[at + len(needle) // 2] ^= 1 << bit
    path.write_bytes(data)


def test_altered_pixels_are_noticed_when_they_are_read(path: Path) -> None:
    with History.open(path) as history:
        pixels = history.images("new").array.copy()
    flip(path, pixels[3].tobytes(), bit=5)
    with History.open(path) as history:
        stored = history.images("new")
        rows = np.array([0, 1, 2, 4, 5])
        np.testing.assert_array_equal(stored.take(rows), pixels[rows])
        message = r"h\.h5:/images/new: expected images that match their checksums, got 1 with altered bytes \(number 3\)\. Its backup"
        for read in (
            lambda: stored.take(np.array([5, 3])),
            lambda: stored.sample(np.random.default_rng(0), 10),
            lambda: stored.array,
        ):
            with pytest.raises(HistoryDamagedError, match=message):
                read()
        np.testing.assert_array_equal(stored.take(rows), pixels[rows])
    with pytest.raises(HistoryDamagedError, match=message):
        open_images(f"{path}::new").read([3], size=32)


def test_altered_pixels_without_a_backup_stop_no_write(path: Path) -> None:
    with History.open(path) as history:
        pixels = history.images("new").array.copy()
    flip(path, pixels[3].tobytes(), bit=5)
    path.with_name("h.h5.bak").unlink()
    message = r"the pixels of new were altered, and no backup has them whole"
    with History.open(path, write=True) as history:
        with pytest.warns(HistoryWarning, match=message):
            history.append(Evaluation("new", histories.configs(1)[0], 0.5, seed=70))
        with pytest.warns(HistoryWarning, match=message):
            history.compact()
        with pytest.warns(HistoryWarning, match=message):
            history.add_datasets([(histories.info("other"), histories.pictures(10), None)])
    assert not verify(path).ok
    with History.open(path) as history:
        assert history.n_evaluations == 10
        np.testing.assert_array_equal(history.images("new").take(np.arange(3)), pixels[:3])
        with pytest.raises(HistoryDamagedError, match=r"number 3\)"):
            history.images("new").take(np.array([3]))
