"""Studies on a PostgreSQL server, started here on loopback."""

import importlib.util
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))

from test_tune_kills import COMMAND, prepare  # noqa: E402

from history_store.errors import StorageError  # noqa: E402
from warmstart.studies.claims import ASKING, DatabaseClaims  # noqa: E402
from warmstart.studies.ledger import WORKER, open_ledger  # noqa: E402
from warmstart.studies.storage import open_store  # noqa: E402
from warmstart.studies.trial import ended_trials  # noqa: E402


def find_server():
    """Find the newest installed server's programs and a user who may run them."""
    # Debian keeps them off the path.
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    if not found and (there := shutil.which("pg_ctl")):
        found = [Path(there).resolve().parent]
    try:
        user = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    except KeyError:
        user = None
    return (found[-1], user) if found and user else None


SERVER = find_server()
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(SERVER is None, reason="no PostgreSQL server is installed here"),
    pytest.mark.skipif(importlib.util.find_spec("psycopg") is None, reason="psycopg is not installed here"),
]


@pytest.fixture
def server():
    """Start a server on a free port, and give the URL of its database."""
    programs, user = SERVER
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    os.chown(folder, user.pw_uid, user.pw_gid)
    as_user = {"user": user.pw_uid, "group": user.pw_gid} if os.getuid() == 0 else {}

    def run(program, *args):
        subprocess.run([programs / program, "-D", folder / "data", *args], check=True, cwd=folder, stdout=subprocess.DEVNULL, **as_user)  # fmt: skip

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run("initdb", "-A", "trust", "-U", "warm", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
    run("pg_ctl", "-w", "-l", folder / "log", "-o", options, "start")
    yield f"postgresql://warm:secret@127.0.0.1:{port}/postgres", run
    subprocess.run([programs / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop"], cwd=folder, check=False, stdout=subprocess.DEVNULL, **as_user)  # fmt: skip
    shutil.rmtree(folder)


def test_a_claim_is_of_one_session_until_that_ends(server):
    store = open_store(server[0])
    first, second, other_study = store.claims(7), store.claims(7), store.claims(8)
    assert isinstance(first, DatabaseClaims)
    assert first.take(3)
    assert not second.take(3)
    assert other_study.take(3)
    assert second.take(4)
    assert second.take(ASKING, patience=True)
    first.release(3)
    assert second.take(3)
    second.close()
    while not first.take(3):  # the server takes a moment to see that the session is over
        time.sleep(0.01)
    assert first.take(ASKING)
    for claims in (first, other_study):
        claims.close()
    store.close()


@pytest.mark.slow
def test_workers_of_a_server_share_its_trials(server, tmp_path):
    url, _ = server
    folder = prepare(tmp_path / "f")
    settings = ("--storage", url, "--trials", "12", "--format", "json")
    killed = subprocess.Popen([*COMMAND, *settings], cwd=folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not (folder / "calls").exists():
        assert killed.poll() is None
    killed.kill()
    killed.wait()
    both = [
        subprocess.Popen([*COMMAND, *settings, *more], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for more in ((), ("--workers", "2"))
    ]  # fmt: skip
    for process in both:
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert "secret" not in out + err
    with open_ledger(open_store(url), "studies-objective") as ledger:
        rows = ended_trials(ledger.trials())
    assert [trial.number for trial in rows] == list(range(12))
    assert len((folder / "calls").read_text().split()) <= 13


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kills", [0, 3])
def test_eight_workers_of_a_server(server, tmp_path, kills):
    """No trial is lost, none is chosen twice, and only what a killed worker ran is run again."""
    url, _ = server
    trials = 48
    folder = prepare(tmp_path / "f")
    command = [*COMMAND, "--storage", url, "--trials", str(trials), "--format", "json"]
    workers = [
        subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    calls = folder / "calls"
    for number in range(kills):
        while not calls.exists() or len(calls.read_text().split()) < 10 * (number + 1):
            assert workers[number].poll() is None, workers[number].communicate()
            time.sleep(0.01)
        workers[number].kill()
        workers[number].communicate()
    for process in workers[kills:]:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert sum(json.loads(out)["trials"].values()) == trials
    with open_ledger(open_store(url), "studies-objective") as ledger:
        frozen = ledger.trials()
        rows = ended_trials(frozen)
    assert [trial.number for trial in rows] == list(range(trials))
    configs = Counter(json.dumps(trial.config, sort_keys=True) for trial in rows)
    assert max(configs.values()) == 1, "a configuration was chosen twice"
    called = Counter(map(int, calls.read_text().split()))
    assert called.keys() == {trial.seed for trial in rows}
    assert trials <= sum(called.values()) <= trials + kills
    assert len({trial.user_attrs[WORKER] for trial in frozen}) > 8 // 2, "most of the workers took part"


def test_a_server_that_is_gone(server):
    store = open_store(server[0])
    claims = store.claims(1)
    server[1]("pg_ctl", "-m", "immediate", "stop")
    with (
        pytest.raises(
            StorageError, match=r"postgresql://warm@127\.0\.0\.1.*expected a storage of studies that answers"
        ),
        store.guard(),
    ):
        claims.take(0)
    claims.close()
    store.close()
    with pytest.raises(StorageError, match="expected a storage of studies that answers"):
        open_store(server[0])
