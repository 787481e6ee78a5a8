"""Opening, writing, refusing: what the contract suite does not reach."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import histories
import numpy as np
import pytest

from warmstart.history_store.errors import (
    DataError,
    HistoryDamagedError,
    HistoryReadOnlyError,
    HistoryVersionError,
    ImagesMissingError,
    MissingPathError,
    StorageFullError,
    UsageError,
)
from warmstart.history_store.file import durable
from warmstart.history_store.file.layout import set_text
from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet
from warmstart.history_store.records import Evaluation
from warmstart.history_store.verify import restore, verify


@pytest.fixture
def history(path: Path) -> Iterator[History]:
    with History.open(path, write=True) as history:
        yield history


def one(seed: int = 42) -> Evaluation:
    return Evaluation("digits", histories.configs(1)[0], 0.5, seed=seed)


class TestCreate:
    def test_it_refuses_what_is_there(self, path: Path) -> None:
        before = path.read_bytes()
        with pytest.raises(UsageError, match=r"expected nothing there yet, got h\.h5\. Choose another path"):
            History.create(path, histories.space_json())
        assert path.read_bytes() == before
        path.unlink()
        with pytest.raises(UsageError, match=r"got h\.h5\.journal|got h\.h5\.bak"):
            History.create(path, histories.space_json())

    def test_a_place_that_cannot_be(self, tmp_path: Path) -> None:
        with pytest.raises(MissingPathError, match=r"expected a path in an existing folder, got .*none"):
            History.create(tmp_path / "none" / "h.h5", histories.space_json())
        with pytest.raises(UsageError, match="expected the name of a file, got a folder"):
            History.create(tmp_path, histories.space_json())
        with pytest.raises(UsageError, match="expected a stored size of at least 1 pixel, got stored_size=0"):
            History.create(tmp_path / "h.h5", histories.space_json(), stored_size=0)

    @pytest.mark.parametrize("text", ["", "{}", "[1", '{"hyperparameters": 3}'])
    def test_no_space(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(DataError, match="expected ConfigSpace JSON"):
            History.create(tmp_path / "h.h5", text, configs=histories.configs(1))
        assert not (tmp_path / "h.h5").exists()

    def test_configurations_twice_or_outside_the_space(self, tmp_path: Path) -> None:
        a, b = histories.configs(2)
        with pytest.raises(DataError, match="expected distinct configurations, got 1 a second time"):
            History.create(tmp_path / "h.h5", histories.space_json(), configs=[a, b, dict(a)])
        with pytest.raises(DataError, match=r"expected one that the space .* allows"):
            History.create(tmp_path / "h.h5", histories.space_json(), configs=[{"layers": 3}])

    def test_a_new_one_is_empty(self, tmp_path: Path) -> None:
        with History.create(tmp_path / "h.h5", histories.space_json(), notes={"a": "ü"}) as history:
            assert (history.names, history.configs, history.n_evaluations, history.revision) == ((), (), 0, 0)
            assert history.errors.shape == (0, 0)
            assert history.evaluations() == ()
            assert history.notes == {"a": "ü"}
            assert len(history.id) == 32
            assert history.space_json == histories.space_json()
        assert verify(tmp_path / "h.h5").ok


class TestOpen:
    def test_nothing_there(self, tmp_path: Path) -> None:
        for write in (False, True):
            with pytest.raises(MissingPathError, match=r"none\.h5: expected a history file, got nothing there"):
                History.open(tmp_path / "none.h5", write=write)
        assert not list(tmp_path.iterdir())

    def test_only_the_backup_is_left(self, path: Path) -> None:
        path.unlink()
        with pytest.raises(MissingPathError, match=r"`warmstart history verify --restore .*` brings it back"):
            History.open(path)

    @pytest.mark.parametrize(
        ("data", "got"),
        [(b"", "an empty file"), (b"text " * 99, "not HDF5"), (b"\x89HDF\r\n\x1a\n" + bytes(99), "a damaged one")],
    )
    def test_no_history(self, tmp_path: Path, data: bytes, got: str) -> None:
        path = tmp_path / "x.h5"
        path.write_bytes(data)
        for write in (False, True):
            with pytest.raises(HistoryDamagedError, match=f"{got}.*There is no backup"):
                History.open(path, write=write)
        assert path.read_bytes() == data

    def test_a_folder_and_another_hdf5_file(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="expected a history file, got a folder"):
            History.open(tmp_path)
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["x"] = 1
        with pytest.raises(HistoryDamagedError, match="with format 'warmstart-history', got None"):
            History.open(tmp_path / "x.h5")

    @pytest.mark.parametrize(("share", "write"), [(0.5, False), (0.9999, True)])
    def test_a_truncated_file_is_named_and_left_alone(self, path: Path, write: bool, share: float) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * share)])
        files = {p: p.read_bytes() for p in path.parent.iterdir()}
        message = (
            r"expected .*(truncated|damaged).*h\.h5\.bak: `warmstart history verify --restore .*h\.h5` brings it back"
        )
        with pytest.raises(HistoryDamagedError, match=message):
            History.open(path, write=write)
        assert {p: p.read_bytes() for p in path.parent.iterdir() if p.suffix != ".lock"} == {
            p: data for p, data in files.items() if p.suffix != ".lock"
        }

    @pytest.mark.parametrize("place", ["/", "/evaluations/error", "/datasets"])
    def test_a_newer_version(self, path: Path, place: str) -> None:
        with h5py.File(path, "r+") as file:
            del file[place].attrs["encoding-version"]
            set_text(file[place], "encoding-version", "9")
        before = path.read_bytes()
        for write in (False, True):
            with pytest.raises(
                HistoryVersionError, match=r'expected encoding-version "[12]", got "9"\. Upgrade warmstart'
            ):
                History.open(path, write=write)
        assert path.read_bytes() == before
        assert not verify(path).ok

    def test_a_gap_between_file_and_journal(self, path: Path, history: History) -> None:
        old = path.read_bytes()
        history.compact()
        history.append(one())
        history.close()
        path.write_bytes(old)
        with pytest.raises(HistoryDamagedError, match="got one that goes on from another copy of the history"):
            History.open(path)
        assert any("another copy" in problem.message for problem in verify(path).problems)
        assert restore(path).ok  # backup and journal belong together
        with History.open(path) as found:
            assert found.n_evaluations == len(histories.runs()) + 1

    def test_a_copy_with_its_journal_goes_on(self, path: Path, history: History, tmp_path: Path) -> None:
        history.compact()
        history.append(one(seed=80))
        history.close()
        copy = tmp_path / "copy.h5"
        for suffix in ("", ".journal"):
            shutil.copy(path.with_name(path.name + suffix), tmp_path / f"copy.h5{suffix}")
        with History.open(copy, write=True) as duplicate:
            for seed in (81, 82):
                duplicate.append(one(seed=seed))
            assert duplicate.n_evaluations == len(histories.runs()) + 3
        assert verify(copy).ok
        assert {run.seed for run in History.open(copy).evaluations()} >= {80, 81, 82}

    def test_through_a_link(self, path: Path, tmp_path: Path) -> None:
        link = tmp_path / "elsewhere" / "link.h5"
        link.parent.mkdir()
        link.symlink_to(path)
        with History.open(link, write=True) as history:
            history.append(one())
            history.compact()
        assert link.is_symlink()
        assert not list(tmp_path.glob("elsewhere/*.bak"))
        with History.open(path) as history:
            assert history.n_evaluations == len(histories.runs()) + 1

    def test_a_closed_one(self, history: History) -> None:
        assert history.writable
        history.close()
        history.close()
        assert not history.writable
        with pytest.raises(UsageError, match="expected an open history, got a closed one"):
            history.append(one())
        assert history.n_evaluations == len(histories.runs())


class TestReadOnly:
    @pytest.mark.parametrize("what", ["file", "folder"])
    def test_write_bits_count(self, path: Path, what: str) -> None:
        place = path if what == "file" else path.parent
        place.chmod(0o444 if what == "file" else 0o555)
        try:
            with pytest.raises(
                HistoryReadOnlyError, match=f"expected a {what} that may be written, got a read-only one"
            ):
                History.open(path, write=True)
            with History.open(path) as history:
                assert history.n_evaluations == len(histories.runs())
            if what == "folder":
                with pytest.raises(HistoryReadOnlyError, match="expected a folder that may be written"):
                    History.create(place / "new.h5", histories.space_json())
        finally:
            place.chmod(0o644 if what == "file" else 0o755)


def refuse(monkeypatch: pytest.MonkeyPatch, number: int, *, call: str = "write", after: int = 0) -> None:
    """Let the system refuse a durable call."""
    left = after

    def hook(name: str, path: Path) -> None:
        nonlocal left
        if name == call:
            left -= 1
            if left < 0:
                raise OSError(number, os.strerror(number))

    monkeypatch.setattr(durable, "hook", hook)


class TestFullDisk:
    @pytest.mark.parametrize("call", ["write", "fsync"])
    def test_the_journal_finds_no_room(self, history: History, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
        history.append(one(1))
        history._files._is_prepared = False  # as in a session's first write
        before = {p.name: p.read_bytes() for p in history.path.parent.iterdir()}
        refuse(monkeypatch, errno.ENOSPC, call=call)
        for _ in range(2):
            with pytest.raises(StorageFullError, match=r"No space left on device\. Nothing acknowledged was lost"):
                history.append(one(2))
        monkeypatch.setattr(durable, "hook", None)
        assert {p.name: p.read_bytes() for p in history.path.parent.iterdir()} == before
        history.append(one(2))
        with History.open(history.path) as reader:
            assert reader.n_evaluations == len(histories.runs()) + 2
        assert verify(history.path).ok


class TestWriting:
    def test_a_long_journal_is_compacted_on_close(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("warmstart.history_store.file.writing.most_bytes", lambda size: 500)
        with History.open(path, write=True) as history:
            assert path.with_name("h.h5.journal").exists()
            for seed in range(100, 106):
                history.append(one(seed))
        assert not path.with_name("h.h5.journal").exists()
        with History.open(path) as history:
            assert history.n_evaluations == len(histories.runs()) + 6

    @pytest.mark.filterwarnings("default::warmstart.history_store.errors.HistoryWarning")
    def test_a_run_is_recorded_also_where_the_journal_cannot_be_written_into_the_file(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
    ) -> None:
        def full(call: str, place: Path) -> None:
            if place.name == "h.h5.tmp":
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("warmstart.history_store.file.writing.most_bytes", lambda size: 100)
        monkeypatch.setattr("warmstart.history_store.quick_append.append_quickly", lambda *_: None)
        monkeypatch.setattr("warmstart.history_store.file.durable.hook", full)
        config = json.dumps(histories.configs(1)[0])
        done = cli("history", "record", path, "-d", "digits", "--config", config, "--error", "0.5")
        assert done.code == 0
        assert (
            "all was recorded, but its journal could not be written into the file (No space left on device)" in done.err
        )
        assert "repeat" not in done.err
        monkeypatch.setattr("warmstart.history_store.file.durable.hook", None)
        with History.open(path, write=True) as history:
            assert history.n_evaluations == len(histories.runs()) + 1
        assert not path.with_name("h.h5.journal").exists()
        assert verify(path).ok

    def test_configurations_that_are_none(self, history: History) -> None:
        for config in ({"layers": [3]}, [3]):
            with pytest.raises(DataError, match="expected numbers, texts and truth values by name"):
                history.append(Evaluation("digits", config, 0.5))  # type: ignore[arg-type]

    def test_results_and_embeddings_are_no_revision(self, history: History) -> None:
        revision = history.revision
        history.set_result("calibration/1/abc", {"slope": 0.5, "none": None})
        history.set_embeddings("abc", {"digits": np.arange(3), "..": np.ones(3)})
        history.set_embeddings("def", {})
        assert history.revision == revision
        with History.open(history.path) as reader:
            assert reader.get_result("calibration/1/abc") == {"slope": 0.5, "none": None}
            assert reader.get_result("else") is None
            assert reader.embeddings("abc")["digits"].tolist() == [0, 1, 2]
            assert reader.embeddings("abc")["digits"].dtype == np.float32
            assert reader.embeddings("ghi") == {}
            assert set(reader.model_hashes) == {"abc", "def"}

    def test_embeddings_that_cannot_be(self, history: History) -> None:
        with pytest.raises(UsageError, match="got 'digit'"):
            history.set_embeddings("abc", {"digit": np.ones(3)})
        with pytest.raises(UsageError, match="expected a model hash"):
            history.set_embeddings("a/b", {})
        for wrong in (np.full(3, np.nan), np.ones(2), np.ones((3, 1))):
            with pytest.raises(DataError, match="expected finite vectors of one length"):
                history.set_embeddings("abc", {"digits": wrong, "..": np.ones(3)})

    @pytest.mark.parametrize("name", ["", " a", "a::b", "a\nb", "x" * 201, "ä" * 40])
    def test_names_that_cannot_be(self, history: History, name: str) -> None:
        with pytest.raises(DataError, match="expected a dataset name of printable characters"):
            history.add_dataset(histories.info(name))

    @pytest.mark.parametrize("changes", [{"n_val": -1}, {"channels": 4}, {"fraction": 0.0}])
    def test_numbers_that_cannot_be(self, history: History, changes: dict[str, object]) -> None:
        with pytest.raises(DataError, match="expected numbers ≥ 0, 1 or 3 channels and a fraction"):
            history.add_dataset(histories.info("new", **changes))
        with pytest.raises(DataError, match="expected 2 class counts for 'new', got 3"):
            history.add_dataset(histories.info("new", class_counts=(1, 2, 3)))


class TestImages:
    def test_they_come_back_through_the_map(self, history: History) -> None:
        images = histories.pictures(12, seed=3)
        split = np.array([0] * 7 + [1] * 3 + [2] * 2, np.int8)
        history.add_dataset(histories.info("new", 7, n_val=3, n_test=2), images, split)
        stored = history.images("new")
        np.testing.assert_array_equal(stored.array, images.images)
        np.testing.assert_array_equal(stored.labels, images.labels)
        np.testing.assert_array_equal(stored.split, split)
        assert stored.class_names == ("even", "odd")
        assert len(stored) == 12
        assert not stored.array.flags.writeable
        assert stored.rows("val").tolist() == [7, 8, 9]
        history.remove_dataset("new")  # the map outlives its file's name
        history.close()
        np.testing.assert_array_equal(stored.array, images.images)

    def test_samples(self, history: History) -> None:
        given = histories.pictures(40)
        history.add_dataset(histories.info("new", 30, n_val=10), given, np.repeat([0, 1], [30, 10]).astype(np.int8))
        stored = history.images("new")
        images, labels = stored.sample(np.random.default_rng(0), 20)
        again, _ = stored.sample(np.random.default_rng(0), 20)
        np.testing.assert_array_equal(images, again)
        assert images.shape == (20, 32, 32, 3)
        rows = [int(np.flatnonzero((given.images == image).all(axis=(1, 2, 3)))[0]) for image in images]
        assert len(set(rows)) == 20
        assert max(rows) < 30
        assert labels.tolist() == [given.labels[i] for i in rows]
        assert len(stored.sample(np.random.default_rng(0), 200, split="val")[0]) == 10
        assert len(stored.sample(np.random.default_rng(0), 5, split="test")[0]) == 0
        with pytest.raises(UsageError, match="expected a sample of at least 1, got tau=0"):
            stored.sample(np.random.default_rng(0), 0)
        with pytest.raises(UsageError, match="expected split 'train', 'val' or 'test', got 'all'"):
            stored.sample(np.random.default_rng(0), 1, split="all")  # type: ignore[arg-type]

    def test_a_history_without_them_names_the_manifest(self, history: History) -> None:
        history.add_dataset(histories.info("new", manifest="uci/new"))
        with pytest.raises(ImagesMissingError, match=r"expected images of 'new'.*warmstart history add.*'uci/new'"):
            history.images("new")
        with pytest.raises(ImagesMissingError, match="it names no manifest"):
            history.images("digits")
        with pytest.raises(UsageError, match="got 'none'"):
            history.images("none")

    def test_all_or_none(self, history: History) -> None:
        good = (histories.info("good"), histories.pictures(), None)
        with pytest.raises(DataError, match="expected uint8 of shape"):
            history.add_datasets([good, (histories.info("bad"), histories.pictures(9), None)])
        assert not {"good", "bad"} & set(history.names)
        history.add_datasets([good, (histories.info("bare"), None, None)])
        assert history.has_images("good")
        assert not history.has_images("bare")

    @pytest.mark.parametrize(
        ("images", "split", "message"),
        [
            (histories.pictures(10, size=16), None, r"expected uint8 of shape \(10, 32, 32, 3\), got uint8 of shape"),
            (histories.pictures(10, channels=1), None, "expected uint8 of shape"),
            (histories.pictures(10), np.ones(10, np.int8), "expected 10/0/0 images .* got 0/10/0"),
            (histories.pictures(10), np.zeros(9, np.int8), "expected 10 labels and split codes"),
            (ImageSet(histories.pictures(10).images, np.arange(10), ("a",) * 10), None, r"expected labels in 0 \.\. 1"),
        ],
    )
    def test_images_that_do_not_fit(
        self, history: History, images: ImageSet, split: np.ndarray | None, message: str
    ) -> None:
        with pytest.raises(DataError, match=message):
            history.add_dataset(histories.info("new"), images, split)


def test_a_reader_keeps_up_with_a_writer(path: Path) -> None:
    """Another process appends and compacts; every state that a reader sees is whole and never goes back."""
    code = (
        "import json, sys; from warmstart.history_store.history import History\n"
        "from warmstart.history_store.records import Evaluation\n"
        "with History.open(sys.argv[1], write=True) as h:\n"
        "    for i in range(12):\n"
        "        h.append(Evaluation('digits', json.loads(sys.argv[2]), 0.5, seed=1000 + i))\n"
        "        print(h.n_evaluations, flush=True)\n"
        "        if i % 5 == 0: h.compact()\n"
    )
    said, config = path.with_name("said"), json.dumps(histories.configs(1)[0])
    with said.open("w") as out, subprocess.Popen([sys.executable, "-c", code, str(path), config], stdout=out) as writer:
        n_seen = 0
        with History.open(path) as old:
            while writer.poll() is None:
                acknowledged = max(map(int, said.read_text().split()[:-1]), default=0)  # the last may be half written
                with History.open(path) as history:
                    assert history.n_evaluations >= max(acknowledged, n_seen)
                    n_seen = history.n_evaluations
                old.refresh()
                assert old.n_evaluations >= n_seen
                time.sleep(0.001)
    assert writer.returncode == 0
    with History.open(path) as history:
        assert history.n_evaluations == len(histories.runs()) + 12


def test_cells_whose_runs_all_failed_are_told_from_those_not_run(history: History) -> None:
    assert np.isnan(history.errors).sum() == 9
    assert history.failed.tolist() == [[False] * 4, [False, True, True, False], [False, False, False, True]]


def test_they_can_be_put_in_later(history: History) -> None:
    history.add_dataset(histories.info("digits"), histories.pictures())
    assert history.has_images("digits")
    assert len(history.evaluations("digits")) == 3
    with pytest.raises(DataError, match="expected a new dataset, got 'digits'"):
        history.add_dataset(histories.info("digits"), histories.pictures())
    with pytest.raises(DataError, match="as the history describes it, got another description"):
        history.add_dataset(histories.info("..", 9), histories.pictures(9))
