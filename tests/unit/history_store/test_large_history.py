"""Large histories are read where they are looked at; what is answered is what a small one answers."""

import itertools
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import histories
import numpy as np
import pytest

from warmstart.history_store.errors import DataError, HistoryDamagedError, StorageError
from warmstart.history_store.file import base, blocks, dataset_list, layout, table
from warmstart.history_store.file.append_index import digest_config, digest_run, digest_runs
from warmstart.history_store.file.cells import CELLS
from warmstart.history_store.file.dataset_list import INDEX
from warmstart.history_store.history import History
from warmstart.history_store.quick_append import append_quickly
from warmstart.history_store.records import DatasetInfo, Evaluation, Status
from warmstart.history_store.verify import verify


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every history count as large."""
    monkeypatch.setattr(dataset_list, "INDEXED", 1)
    monkeypatch.setattr(table, "LAZY_ROWS", 1)


@pytest.fixture
def mapped(large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each of its arrays count as large too."""
    monkeypatch.setattr(layout, "MAPPED", 1)
    monkeypatch.setattr(base, "MAPPED", 1)  # where each begins at a page


def run(seed: int | None, name: str = "digits", row: int = 0, origin: str = "here") -> Evaluation:
    return Evaluation(name, histories.configs()[row], error=0.25, seed=seed, origin=origin)


def everything(history: History) -> list[object]:
    return [
        history.datasets,
        history.names,
        history.groups,
        history.configs,
        histories.plain(history.evaluations()),
        history.n_evaluations,
        history.revision,
        *(array.tobytes() for array in (history.errors, history.failed)),
    ]


@pytest.mark.parametrize("size", ["large", "mapped"])
def test_a_large_history_says_what_a_small_one_says(
    path: Path, size: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue(size)
    with History.open(path, write=True) as history:
        history.compact()
        history.append(run(77))
    with History.open(path) as history:
        assert isinstance(history._content.base, table.StoredTable)
        assert all(isinstance(item, int) for item in history._content.datasets._items)
        n, errors = history.n_evaluations, history.errors
        assert isinstance(history._content.base, table.StoredTable)  # neither needed all of them
        large_content = everything(history)
        closed = History.open(path)
    closed.close()
    assert closed.n_evaluations == n
    assert closed.errors.tobytes() == errors.tobytes()
    assert everything(closed) == large_content
    assert verify(path).ok
    monkeypatch.undo()
    with History.open(path, write=True) as history:
        history.compact()
        assert INDEX not in history._h5
        assert CELLS not in history._h5
        assert everything(history) == large_content


@pytest.mark.parametrize("key", ["names", "group", "end"])
def test_an_index_of_datasets_that_lies_is_told_of(path: Path, large: None, key: str) -> None:
    with History.open(path, write=True) as history:
        history.compact()
    with h5py.File(path, "r+") as file:  # with checksums that match
        element = file[INDEX][key]
        values = element[()] if key != "names" else bytes(element[()]).replace(b"digits", b"stigid")
        if key == "names":
            element[()] = values
            element.attrs["crc32"] = np.uint32(zlib.crc32(values))
        else:
            element[()] = values[::-1] if key == "end" else values * 0
            element.attrs["crc32"] = np.uint32(zlib.crc32(np.ascontiguousarray(element[()]).tobytes()))
    with pytest.raises(HistoryDamagedError), History.open(path) as history:
        history.datasets  # noqa: B018
    assert not verify(path).ok


def altered(path: Path, key: str, change: Callable[[np.ndarray], object]) -> None:
    """Change an array of a file, with a checksum that matches."""
    with h5py.File(path, "r+") as file:
        element = file[key]
        values = element[()]
        change(values)
        element[...] = values
        element.attrs["crc32"] = np.uint32(zlib.crc32(np.ascontiguousarray(values).tobytes()))


@pytest.mark.parametrize(("key", "value"), [("total", np.nan), ("total", 2.0), ("count", 255), ("runs", 0)])
def test_sums_that_no_runs_have_are_refused(path: Path, large: None, key: str, value: float) -> None:
    with History.open(path, write=True) as history:
        history.append(run(5))
        history.compact()
    altered(path, f"{CELLS}/{key}", lambda values: values.put(np.flatnonzero(values), value))
    with History.open(path) as history, pytest.raises(HistoryDamagedError, match="/cells: expected the sums"):
        history.errors  # noqa: B018
    assert not verify(path).ok


def test_runs_of_later_datasets_and_configurations_join_the_sums(path: Path, mapped: None) -> None:
    with History.open(path, write=True) as history:
        history.append(run(5))
        history.compact()
        history.add_dataset(DatasetInfo("later", "later", 10, 0, 0, 2, 1))
        history.append(run(6))
        history.append(run(1, "later"))
        history.append(replace(run(2, "later"), error=0.75))
        history.append(replace(run(3, "later", 1), error=np.nan, status=Status.OOM))
    with History.open(path) as history:
        assert isinstance(history._content.base, table.StoredTable)
        sums = history.errors, history.failed, history.n_runs, history.origins
        assert isinstance(history._content.base, table.StoredTable)
        assert history.errors[-1, 0] == 0.5
        assert history.failed[-1].tolist()[:2] == [False, True]
        whole = history.table()
        expected = whole.errors(len(history.names), len(history.configs))
        assert sums[0].tobytes() == expected.tobytes()
        assert sums[2].tolist() == np.bincount(whole.dataset, minlength=len(history.names)).tolist()
        assert sums[3] == whole.origin_counts()


def test_only_the_blocks_that_are_reached_are_compared(
    path: Path, mapped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 64)
    with History.open(path, write=True) as history:
        history.append(run(5))
        history.set_embeddings("abc", {name: np.arange(40, dtype=np.float32) for name in history.names})
    with h5py.File(path, "r+", locking=False) as file:  # the last number of the last row
        file["embeddings/abc/vectors"][-1, -1] = 7.0
        file[f"{CELLS}/total"][-1, -1] += 0.5
    with History.open(path) as history:
        names, vectors = history.vectors("abc")
        assert isinstance(vectors, blocks.StoredRows)
        last, rows = len(names) - 1, np.arange(len(names) - 1)
        assert vectors[0].tolist() == vectors[rows][-1].tolist() == list(range(40))
        assert vectors.in_order(rows[::-1])[:1].tolist() == [list(range(40))]
        with pytest.raises(HistoryDamagedError, match=r"abc/vectors: expected checksum .* of block"):
            vectors[last]
        with pytest.raises(HistoryDamagedError, match="abc/vectors"):
            np.asarray(vectors)
        cells = history.cells()
        assert cells.outcomes(np.array([0]))[0].shape == (1, len(history.configs))
        with pytest.raises(HistoryDamagedError, match="cells/total: expected checksum"):
            cells.outcomes(np.array([cells.shape[0] - 1]))
    assert not verify(path).ok


def test_digests_by_one_and_by_many_agree_and_equal_configurations_have_one() -> None:
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 2**31 - 1, 50), rng.integers(0, 99, 50), rng.integers(0, 2**62, 50), rng.integers(0, 3, 50)]  # fmt: skip
    many = digest_runs(columns)
    assert [digest_run(*map(int, row)) for row in zip(*columns, strict=True)] == many.tolist()
    assert len(set(many.tolist())) == 50
    assert digest_config({"a": 1, "b": True}) == digest_config({"b": 1.0, "a": 1.0})
    different = [{"a": 1}, {"a": "1"}, {"a": 1.5}, {"b": 1}, {"a": 2**60 + 1}, {"a": 2**60}, {"a": float("inf")}]
    assert len({digest_config(config) for config in different}) == len(different)


class TestQuickAppend:
    @pytest.fixture(autouse=True)
    def indexed(self, path: Path) -> None:
        with History.open(path, write=True) as history:
            history.append(run(1000))

    def test_it_is_an_append(self, path: Path) -> None:
        with History.open(path) as history:
            n = history.n_evaluations
        for k, seed in enumerate((None, 1001, 1002), start=1):
            assert append_quickly(path, run(seed)) == n + k
        with History.open(path) as history:
            assert history.n_evaluations == n + 3
            assert {e.seed for e in history.evaluations("digits")} >= {1000, 1001, 1002}
        assert verify(path).ok
        with History.open(path, write=True) as history:
            history.compact()
        assert append_quickly(path, run(1003)) == n + 4
        assert verify(path).ok

    def test_what_is_not_plain_is_left_to_the_history(self, path: Path) -> None:
        new = dict(histories.configs()[0]) | {"layers": 7, "rate": 0.0123}
        with History.open(path) as history:
            seeded = next(e for e in history.evaluations() if e.seed is not None and e.origin != "here")
        assert append_quickly(path, run(1000)) is None  # in the journal
        assert append_quickly(path, seeded) is None  # in the file
        assert append_quickly(path, run(5, "unknown")) is None
        assert append_quickly(path, Evaluation("digits", new, error=0.25, seed=5)) is None
        assert append_quickly(path.with_name("none.h5"), run(5)) is None
        with pytest.raises(DataError, match="a second time"), History.open(path, write=True) as history:
            history.append(seeded)

    @pytest.mark.parametrize("part", ["", ".bak", ".journal"])
    def test_files_that_changed_are_read(self, path: Path, part: str) -> None:
        file = path.with_name(path.name + part)
        data = file.read_bytes()
        file.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
        assert append_quickly(path, run(7)) is None

    @pytest.mark.parametrize("kept", [0, 2])
    def test_an_index_does_not_outlive_lines_of_the_journal(self, path: Path, kept: int) -> None:
        new = dict(histories.configs()[0]) | {"layers": 7, "rate": 0.0123}
        log = path.with_name("h.h5.journal")
        with History.open(path, write=True) as history:
            history.compact()
            history.append(run(1))
            history.add_dataset(histories.info("late"))
            history.append(Evaluation("late", new, error=0.5, seed=1))
            n = history.n_evaluations
        assert append_quickly(path, Evaluation("late", new, error=0.5, seed=2)) == n + 1
        lines = log.read_bytes().splitlines(keepends=True)
        log.unlink()
        if kept:
            log.write_bytes(b"".join(lines[:kept]))
        runs = [Evaluation("late", histories.configs()[0], 0.5, seed=3), Evaluation("digits", new, 0.5, seed=3)]
        assert [append_quickly(path, each) for each in (*runs, run(2))] == [None, None, None]
        with History.open(path, write=True):
            pass  # makes the index anew
        assert [append_quickly(path, each) for each in runs] == [None, None]
        assert append_quickly(path, run(2)) == n - 1 + (kept == 2)
        assert verify(path).ok

    def test_a_damaged_index_is_none_and_is_made_anew(self, path: Path) -> None:
        index = path.with_name("h.h5.index")
        whole = index.read_bytes()
        rng = np.random.default_rng(0)
        with History.open(path) as history:
            seeded = next(e for e in history.evaluations() if e.seed is not None and e.origin != "here")
        for at in rng.integers(0, len(whole), 20).tolist():
            index.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1 :])
            assert append_quickly(path, seeded) is None  # never taken for a new one
        for text in (b"", whole[:40], whole[:-1], whole + b"\0", b"\0" * len(whole)):
            index.write_bytes(text)
            assert append_quickly(path, run(7)) is None
        index.unlink()
        index.symlink_to(path)
        assert append_quickly(path, run(7)) is None
        with History.open(path, write=True) as history:
            history.append(run(7))
        assert append_quickly(path, run(8)) is not None
        assert not index.is_symlink()

    def test_a_link_or_a_pipe_for_a_journal_is_left_to_the_history(self, path: Path) -> None:
        journal = path.with_name("h.h5.journal")
        journal.unlink()
        os.mkfifo(journal)
        assert append_quickly(path, run(7)) is None

    def test_a_writer_that_was_replaced_acknowledges_nothing(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        other = path.with_name("other.h5")
        other.write_bytes(path.read_bytes())

        def swap(call: str, place: Path) -> None:
            if call == "write" and place.name == "h.h5.journal" and other.exists():
                other.replace(path)

        monkeypatch.setattr("warmstart.history_store.file.durable.hook", swap)
        with pytest.raises(StorageError, match="another file"):
            append_quickly(path, run(9))

    def test_neither_numpy_nor_hdf5_is_loaded(self, path: Path) -> None:
        code = f"""if True:
            import sys
            from pathlib import Path
            from warmstart.history_store.quick_append import append_quickly
            from warmstart.history_store.records import Evaluation
            assert append_quickly(Path({str(path)!r}), Evaluation("digits", {dict(histories.configs()[0])!r}, error=0.5)) > 0
            assert not {{"numpy", "h5py", "pandas"}} & sys.modules.keys()
        """
        subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "h.h5"
    histories.filled(path).close()
    return path


def test_the_columns_of_errors_alone_are_read(path: Path, large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with History.open(path, write=True) as history:
        history.compact()
    with h5py.File(path, "r+") as file:  # as before there were sums
        del file[CELLS]
    read: list[str] = []
    plain = table.read_element
    monkeypatch.setattr(
        table, "read_element", lambda group, key, *rest: (read.append(key), plain(group, key, *rest))[1]
    )
    with History.open(path) as history:
        history.errors  # noqa: B018
    assert sorted(read) == ["config", "dataset", "error", "status"]


def test_runs_are_compared_alike_by_a_few_questions_and_by_many(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmstart.history_store.file.content._FEW_RUNS", 0)
    with History.open(path, write=True) as history:
        stored = [e for e in history.evaluations() if e.seed is not None]
        for k in itertools.count():
            with pytest.raises(DataError, match="a second time"):
                history.append(stored[k % len(stored)])
            history.append(run(5000 + k))
            with pytest.raises(DataError, match="a second time"):
                history.append(run(5000 + k))
            if history._content._run_keys is not None:
                break
        assert k > 3


def test_runs_that_lie_are_told_of_where_they_are_looked_at(path: Path, large: None) -> None:
    with History.open(path, write=True) as history:
        history.compact()
    altered(path, "evaluations/dataset", lambda values: values.fill(99))
    with h5py.File(path, "r+") as file:
        del file[CELLS]
    with History.open(path) as history:
        with pytest.raises(HistoryDamagedError, match="dataset"):
            history.errors  # noqa: B018
        with pytest.raises(HistoryDamagedError, match="dataset"):
            history.evaluations()
    assert not verify(path).ok
