"""Storages of studies, and what can go wrong with them."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from warmstart.history_store.errors import MissingPathError, StorageError, StorageFullError, UsageError
from warmstart.studies.state import storage
from warmstart.studies.state.storage import open_store


@pytest.fixture(params=["s.db", "s.journal"])
def path(request, tmp_path):
    return tmp_path / request.param


def study_in(store):
    return optuna.create_study(storage=store.optuna, study_name="s", load_if_exists=True)


def test_a_study_comes_back(path):
    study = study_in(open_store(path))
    study.add_trial(optuna.trial.create_trial(value=0.5))
    again = open_store(open_store(path).url)
    assert study_in(again).best_value == 0.5
    assert again.display_name == str(path)


@pytest.mark.parametrize(
    ("named", "error", "told"),
    [
        ("redis://localhost", UsageError, "expected a path, or a URL of sqlite, postgresql, mysql, mariadb, got 'redis://"),
        ("{tmp}/none/s.db", MissingPathError, "expected a folder for the studies, got none at"),
    ],
)  # fmt: skip
def test_what_names_no_storage(tmp_path, named, error, told):
    with pytest.raises(error, match=told):
        open_store(named.format(tmp=tmp_path))


def test_read_only(path):
    study_in(open_store(path))
    path.parent.chmod(0o555)
    try:
        with pytest.raises(StorageError, match="expected a storage that can be written, got a read-only one"):
            open_store(path)
    finally:
        path.parent.chmod(0o755)


def test_a_password_is_not_shown():
    assert storage._without_password("postgresql://me:secret@host/db") == "postgresql://me@host/db"


def test_a_database_that_another_program_keeps_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "BUSY_S", 0.05)
    store = open_store(tmp_path / "s.db")
    study = study_in(store)
    other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    told = r"one that is locked by another program. End that"
    with pytest.raises(StorageError, match=told), store.guard():
        study.set_user_attr("a", 1)
    other.execute("ROLLBACK")
    other.close()
    study.set_user_attr("a", 1)  # nothing broke


def test_a_full_disk(path, monkeypatch):
    store = open_store(path)
    study = study_in(store)
    if path.suffix == ".db":
        with store.optuna._backend.engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    else:
        monkeypatch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StorageFullError, match="expected room on the disk, got none left"), store.guard():
        study.set_user_attr("a", "x" * 100_000)


def test_the_unfinished_line_of_a_killed_writer_goes(tmp_path):
    path = tmp_path / "s.journal"
    study = study_in(open_store(path))
    study.set_user_attr("a", 1)
    whole = path.read_bytes()
    for torn in (b'{"op_code": 2, "us', b"x" * 200_000):
        path.write_bytes(whole + torn)
        study = study_in(open_store(path))
        study.set_user_attr("b", 2)
        assert study_in(open_store(path)).user_attrs == {"a": 1, "b": 2}
    path.write_bytes(b"torn at once")
    assert open_store(path).optuna.get_all_studies() == []
    study_in(open_store(path))


WRITER = """
import sys, optuna
from warmstart.studies.state.storage import open_store
optuna.logging.set_verbosity(optuna.logging.WARNING)
store = open_store(sys.argv[1])
study = optuna.create_study(storage=store.optuna, study_name="s", load_if_exists=True)
for number in range(12):
    trial = study.ask()
    trial.suggest_float("x", 0, 1)
    trial.report(0.5, 1)
    study.tell(trial, float(number))
"""


def test_writers_that_open_and_write_at_once(path):
    """SQLite calls a reader that becomes a writer locked at once; tables made twice are an error."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path)]) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    trials = study_in(open_store(path)).trials
    assert [trial.number for trial in trials] == list(range(36))
    assert {trial.state for trial in trials} == {TrialState.COMPLETE}


def test_a_storage_put_in_place_of_another_is_told(path):
    store = open_store(path)
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    store.check()
    Path(copy).replace(path)
    with pytest.raises(StorageError, match="expected the storage that was opened, got another file in its place"):
        store.check()
    path.unlink()
    with pytest.raises(StorageError, match="got none in its place"):
        store.check()


def test_companions_have_the_mode_of_the_storage(path):
    mode = 0o660
    open_store(path).close()
    path.chmod(mode)
    store = open_store(path)
    study_in(store)
    store.claims(1).close()
    companions = [place for place in path.parent.iterdir() if place.suffix in (".writer", ".claims")]
    assert {place.stat().st_mode & 0o777 for place in companions} == {mode}
    assert len(companions) == 2


def test_planted_links_are_not_followed(path, tmp_path):
    path.with_name(path.name + ".claims").symlink_to(tmp_path / "target")
    with pytest.raises(StorageError, match="expected an ordinary file, got a link"):
        open_store(path).claims(1)
    assert not (tmp_path / "target").exists()


def test_a_server_without_its_driver():
    with pytest.raises(UsageError, match="expected a database whose Python driver is installed, got 'mysql"):
        open_store("mysql://me:secret@localhost/db")
