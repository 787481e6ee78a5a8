"""Backups of history and studies: whole while both are written to, restored beside nothing, resumed after a fault."""

import stat
import subprocess
import sys
import time

import optuna
import pytest

import warmstart
from tests.histories import filled, plain
from warmstart.backup import restore_backup, write_backup
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.file import durable
from warmstart.history_store.history import History

SPACE = {"x": {"float": [0.0, 1.0]}}


def tuned(storage, name="s", trials=3):
    return warmstart.tune(objective=lambda config: config["x"], space=SPACE, storage=storage, study=name, trials=trials)


@pytest.fixture
def team(tmp_path):
    """A history, studies and tokens of a team."""
    filled(tmp_path / "h.h5").close()
    tuned(tmp_path / "s.db")
    (tmp_path / "tokens").write_text("")
    (tmp_path / "tokens").chmod(0o600)
    return {"history": tmp_path / "h.h5", "storage": tmp_path / "s.db", "token_file": tmp_path / "tokens"}


def beside(folder):
    folder.mkdir(exist_ok=True)
    return {"history": folder / "h.h5", "storage": folder / "s.db", "token_file": folder / "tokens"}


def test_everything_comes_back(team, tmp_path):
    about = write_backup(tmp_path / "b.tar", **team)
    assert stat.S_IMODE((tmp_path / "b.tar").stat().st_mode) == 0o600
    new = beside(tmp_path / "new")
    assert restore_backup(tmp_path / "b.tar", **new) == about
    with History.open(team["history"]) as before, History.open(new["history"]) as after:
        assert plain(after.evaluations()) == plain(before.evaluations())
    assert stat.S_IMODE(new["token_file"].stat().st_mode) == 0o600
    result = tuned(new["storage"], trials=4)
    assert [trial.number for trial in result.trials] == [0, 1, 2, 3]
    assert not list(tmp_path.glob("**/.warmstart-backup-*"))


@pytest.mark.parametrize(("saved", "restored"), [("s.journal", "n.db"), ("s.db", "n.journal")])
def test_studies_move_between_storages(tmp_path, saved, restored):
    before = tuned(tmp_path / saved)
    write_backup(tmp_path / "b.tar", storage=tmp_path / saved)
    for _ in range(2):  # the second call finds all of it there
        restore_backup(tmp_path / "b.tar", storage=tmp_path / restored)
    assert [trial.error for trial in tuned(tmp_path / restored).trials] == [trial.error for trial in before.trials]


def test_a_storage_may_be_a_url(tmp_path):
    before = tuned(tmp_path / "s.db")
    write_backup(tmp_path / "b.tar", storage=f"sqlite:///{tmp_path}/s.db")
    restore_backup(tmp_path / "b.tar", storage=f"sqlite:///{tmp_path}/n.db")
    assert [trial.error for trial in tuned(tmp_path / "n.db").trials] == [trial.error for trial in before.trials]


def test_nothing_is_overwritten(team, tmp_path):
    write_backup(tmp_path / "b.tar", **team)
    with pytest.raises(UsageError, match="never overwritten"):
        write_backup(tmp_path / "b.tar", **team)
    new = beside(tmp_path / "new")
    new["history"].write_bytes(b"mine")
    with pytest.raises(UsageError, match="nothing there yet"):
        restore_backup(tmp_path / "b.tar", **new)
    assert new["history"].read_bytes() == b"mine"
    tuned(tmp_path / "other.db", trials=5)
    with pytest.raises(UsageError, match="got one with 5"):
        restore_backup(tmp_path / "b.tar", history=tmp_path / "x.h5", storage=tmp_path / "other.db")


def test_a_damaged_archive_restores_nothing(team, tmp_path):
    write_backup(tmp_path / "b.tar", **team)
    data = bytearray((tmp_path / "b.tar").read_bytes())
    data[len(data) // 2] ^= 1
    for content in (bytes(data), bytes(data[: len(data) // 2]), b"x"):
        (tmp_path / "bad.tar").write_bytes(content)
        with pytest.raises(DataError):
            restore_backup(tmp_path / "bad.tar", **beside(tmp_path / "new"))
        assert not list((tmp_path / "new").iterdir())


def test_a_restore_that_was_broken_off_goes_on(team, tmp_path, monkeypatch):
    write_backup(tmp_path / "b.tar", **team)
    new, calls = beside(tmp_path / "new"), []

    def stop(call, path):
        calls.append(call)
        if len(calls) == limit:
            raise KeyboardInterrupt

    limit = 0
    monkeypatch.setattr(durable, "hook", stop)
    while True:
        calls.clear()
        limit += 1
        try:
            restore_backup(tmp_path / "b.tar", **new)
            break
        except KeyboardInterrupt:
            continue
    assert limit > 3
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["h.h5", "s.db", "tokens"]


WORKER = """
import warmstart

def objective(config):
    with open("ended", "a") as file:
        file.write(f"{config['x']}\\n")
    return config["x"]

warmstart.tune(objective=objective, space={"x": {"float": [0.0, 1.0]}}, storage="s.db", study="s", trials=1000)
"""


def test_a_backup_in_use_has_what_was_acknowledged(tmp_path):
    filled(tmp_path / "h.h5").close()
    with subprocess.Popen([sys.executable, "-c", WORKER], cwd=tmp_path) as worker:
        try:
            while not (ended := lines(tmp_path / "ended"))[6:]:
                time.sleep(0.05)
            write_backup(tmp_path / "b.tar", history=tmp_path / "h.h5", storage=tmp_path / "s.db")
            assert worker.poll() is None
        finally:
            worker.kill()
    new = beside(tmp_path / "new")
    restore_backup(tmp_path / "b.tar", **new)
    study = optuna.load_study(study_name="s", storage=f"sqlite:///{new['storage']}")
    values = [trial.value for trial in study.trials if trial.state.name == "COMPLETE"]
    assert values[:6] == pytest.approx([float(line) for line in ended[:6]])  # the seventh was not told yet


def lines(path):
    return path.read_text().splitlines() if path.exists() else []
