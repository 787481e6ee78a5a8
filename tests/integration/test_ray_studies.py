"""Studies on real Ray clusters of this machine, whose workers are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "warmstart[ray]"')

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))

from test_tune_kills import COMMAND, prepare, stored  # noqa: E402

from warmstart.history_store.errors import UsageError  # noqa: E402
from warmstart.integrations.ray import studies as ray_studies  # noqa: E402
from warmstart.integrations.ray.cluster import Cluster  # noqa: E402
from warmstart.studies.execution.worker import Job, Limits  # noqa: E402
from warmstart.studies.state.storage import open_store  # noqa: E402

# A cluster starts in 5 to 15 s, each of its workers in 3 to 6.
pytestmark = pytest.mark.slow
TRIALS = 24


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parents[1])]))


@pytest.fixture
def one_node():
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def start(folder, *more):
    return subprocess.Popen(
        [*COMMAND, "--trials", str(TRIALS), "--format", "json", *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_calls(folder, number, process):
    calls = folder / "calls"
    while not calls.exists() or len(calls.read_text().split()) < number:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def workers():
    """List the processes of Ray that work on studies."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cmdline").read_bytes().startswith(b"ray::_serve"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def check(folder, process, *, losses):
    """Nothing is lost, nothing is chosen twice, and only what a lost worker ran is run again."""
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    rows, _ = stored(folder)
    found = json.loads(out)
    assert sum(found["trials"].values()) == len(rows) == TRIALS
    configs = Counter(json.dumps(config, sort_keys=True) for _, config, *_ in rows)
    assert max(configs.values()) == 1, "a configuration was chosen twice"
    called = Counter(map(int, (folder / "calls").read_text().split()))
    assert called.keys() == {seed for _, _, seed, *_ in rows}
    assert TRIALS <= sum(called.values()) <= TRIALS + losses


def test_a_study_whose_workers_are_killed(tmp_path):
    folder = prepare(tmp_path / "f")
    process = start(folder, "--ray", "--cpus-per-trial", "0.5", "--workers", "2")
    for number in (2, 10):
        wait_for_calls(folder, number, process)
        os.kill(workers()[0], signal.SIGKILL)
    check(folder, process, losses=2)


def test_ctrl_c_leaves_nobody_at_work(tmp_path):
    folder = prepare(tmp_path / "f")
    process = start(folder, "--ray")
    wait_for_calls(folder, 3, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "all are kept. Run the same command again to continue." in " ".join(err.split())
    time.sleep(3)
    calls = (folder / "calls").read_text()
    time.sleep(1)
    assert (folder / "calls").read_text() == calls
    rows, _ = stored(folder)
    assert len(rows) < TRIALS


def job(folder):
    return Job(str(folder / "s.db"), ("none",), Limits(trials=3))


def test_a_file_is_no_storage_for_other_machines(one_node, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_studies, "live_nodes", lambda: [{"NodeManagerHostname": "far"}])
    store = open_store(tmp_path / "s.db")
    with pytest.raises(UsageError, match=r"storage: expected a database that far can reach, got the file .*s\.db"):
        ray_studies.run_on_cluster(job(tmp_path), Cluster(), store, workers=None, look=lambda: 0)
