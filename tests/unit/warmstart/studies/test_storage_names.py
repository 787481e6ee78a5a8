"""Every path that a person can type names one storage, and no other file is touched."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import optuna
import pytest

from warmstart.history_store.errors import StorageError, UsageError
from warmstart.integrations.optuna.trials import read_study
from warmstart.studies.state.sqlite_file import study_names
from warmstart.studies.state.storage import open_store

ODD = [
    "st?udy.db",
    "100%41.db",
    "r?s/x.db",
    "a#b.db",
    "é☃ {x}.db",
    "%(here)s.db",
    "file:x?mode=ro",
    ":memory:",
    "-x.db",
    'it\'s "quoted".db',
    "new\nline.db",
    "user:secret@host.db",
    "st?udy.journal",
    "100%41{}.jsonl",
]


def keep(text: str, value: float) -> Path:
    """Keep a study in a storage; returns the path of the file."""
    store = open_store(text)
    study = optuna.create_study(storage=store.optuna, study_name="s")
    study.add_trial(optuna.trial.create_trial(value=value))
    claims = store.claims(1)
    assert claims.take(1)
    claims.close()
    store.close()
    assert store.path is not None
    return store.path


def value_in(text: str) -> float:
    store = open_store(text)
    value = optuna.load_study(storage=store.optuna, study_name="s").best_value
    store.close()
    return value


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_one_storage(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    assert keep(name, 0.25) == place
    assert place.is_file()
    assert {file.removeprefix(name) for file in files_in(tmp_path)} <= {"", ".writer", ".claims", "-wal", "-shm"}
    assert value_in(str(place)) == 0.25
    assert read_study(name).values.tolist() == [0.25]


def test_names_of_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"b\xff?.db")
    keep(str(path), 0.5)
    assert path.is_file()
    assert value_in(str(path)) == 0.5


def test_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store("~/x.db").path == tmp_path / "x.db"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~").mkdir()
    assert open_store("~/x.db").path == tmp_path / "~" / "x.db"


def test_urls_of_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store("sqlite:///100%25%3F.db").path == tmp_path / "100%?.db"
    for url in ("sqlite:///x.db?mode=ro", "sqlite://host/x.db"):
        with pytest.raises(UsageError, match=r"expected sqlite:///PATH, got .*Give the path alone"):
            open_store(url)


@pytest.mark.parametrize(("name", "wrong"), [("100%41.db", "100A.db"), ("r?s/x.db", "r")])
def test_what_0_1_wrote_elsewhere_is_named(
    name: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    with contextlib.closing(sqlite3.connect(tmp_path / name)) as file:
        file.execute("PRAGMA journal_mode=WAL")
    optuna.create_study(storage=f"sqlite:///{tmp_path / name}", study_name="mine")  # as 0.1 did
    assert study_names(tmp_path / wrong) == ["mine"]
    with pytest.raises(StorageError, match=rf"{wrong} holds it: 'mine'\. Name that one with `storage`"):
        open_store(name)
    assert open_store(wrong).path == tmp_path / wrong
    (tmp_path / name).unlink()
    assert open_store(name).path == tmp_path / name
    assert study_names(tmp_path / name) == []
