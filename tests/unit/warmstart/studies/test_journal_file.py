"""A study's journal notices what was altered or lost in it, and stays one of Optuna."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from warmstart.history_store.errors import StorageError
from warmstart.studies.state.storage import open_store


def study_in(path: Path) -> optuna.Study:
    store = open_store(path)
    with store.guard():
        return optuna.create_study(storage=store.optuna, study_name="s", load_if_exists=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    study = study_in(tmp_path / "s.journal")
    for number in range(4):
        study.add_trial(optuna.trial.create_trial(value=0.125 * number))
        study.set_user_attr("told", number)
    return tmp_path / "s.journal"


def values(study: optuna.Study) -> list[float | None]:
    return [trial.value for trial in study.trials]


def test_it_stays_a_journal_of_optuna(path: Path) -> None:
    plain = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    other = optuna.load_study(storage=plain, study_name="s")
    assert values(other) == [0.0, 0.125, 0.25, 0.375]
    mine = study_in(path)
    other.add_trial(optuna.trial.create_trial(value=0.5))  # a line without a checksum
    mine.add_trial(optuna.trial.create_trial(value=0.625))
    assert values(study_in(path)) == values(mine) == [0.0, 0.125, 0.25, 0.375, 0.5, 0.625]
    whole = path.read_bytes()
    assert whole.count(b":0.5,") == 1
    path.write_bytes(whole.replace(b":0.5,", b":0.4,"))
    with pytest.raises(StorageError, match=r"got line \d+, which does not match its checksum"):
        study_in(path)


def test_a_journal_of_0_1_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "s.journal"
    plain = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    optuna.create_study(storage=plain, study_name="s").add_trial(optuna.trial.create_trial(value=0.5))
    study_in(path).add_trial(optuna.trial.create_trial(value=0.25))
    assert values(study_in(path)) == [0.5, 0.25]


def test_a_lost_or_moved_line_is_noticed(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    for number in range(len(lines) - 1):
        path.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
        with pytest.raises(StorageError, match="altered or lost"):
            study_in(path)
    path.write_bytes(b"".join([*lines[:3], lines[4], lines[3], *lines[5:]]))
    with pytest.raises(StorageError, match="got line 4, which"):
        study_in(path)


def test_every_altered_byte_is_noticed(path: Path) -> None:
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for at in range(0, last, 29):
        altered = bytearray(whole)
        altered[at] ^= 4
        path.write_bytes(altered)
        with pytest.raises(StorageError, match="expected a storage of studies that answers"):
            study_in(path)


def test_lines_that_go_while_it_is_open(path: Path) -> None:
    study = study_in(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])
    with pytest.raises(StorageError, match="lines were lost"):
        study.set_user_attr("a", 1)
