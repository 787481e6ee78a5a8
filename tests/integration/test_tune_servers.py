"""Studies on database servers, started here on loopback."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))

from database_servers import MariaDB, Postgres  # noqa: E402
from test_tune_kills import COMMAND, prepare  # noqa: E402

from warmstart.history_store.errors import StorageError  # noqa: E402
from warmstart.studies.results.trial import ended_trials  # noqa: E402
from warmstart.studies.state.attributes import WORKER  # noqa: E402
from warmstart.studies.state.locks import ASKING, DatabaseClaims  # noqa: E402
from warmstart.studies.state.storage import open_store  # noqa: E402
from warmstart.studies.state.trial_queue import open_queue  # noqa: E402


@pytest.fixture(params=[Postgres, MariaDB])
def server(request):
    """Start a server on a free port of loopback."""
    kind = request.param
    if (reason := kind.missing()) is not None:
        pytest.skip(reason)
    with kind.started() as started:
        yield started


def test_a_claim_is_of_one_session_until_that_ends(server):
    store = open_store(server.url)
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
@pytest.mark.timeout(400)
def test_eight_workers_of_a_server(server, tmp_path):
    """No trial is lost, none is chosen twice, and only what a killed worker ran is run again."""
    url, trials, kills = server.url, 48, 3
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
    with open_queue(open_store(url), "studies-objective") as queue:
        frozen = queue.trials()
        rows = ended_trials(frozen)
    assert [trial.number for trial in rows] == list(range(trials))
    configs = Counter(json.dumps(trial.config, sort_keys=True) for trial in rows)
    assert max(configs.values()) == 1, "a configuration was chosen twice"
    called = Counter(map(int, calls.read_text().split()))
    assert called.keys() == {trial.seed for trial in rows}
    assert trials <= sum(called.values()) <= trials + kills
    assert len({trial.user_attrs[WORKER] for trial in frozen}) > 8 // 2, "most of the workers took part"


def test_a_server_that_is_gone(server):
    store = open_store(server.url)
    claims = store.claims(1)
    assert claims.take(1)
    server.stop()
    with (
        pytest.raises(StorageError, match=r"sql.*://warm@127\.0\.0\.1.*expected a storage of studies that answers"),
        store.guard(),
    ):
        claims.take(0)
    claims.close()
    store.close()
    with pytest.raises(StorageError, match=r"expected a (server|storage of studies) that answers"):
        open_store(server.url)
