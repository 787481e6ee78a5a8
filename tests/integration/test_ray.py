"""A real Ray cluster of this machine: workers that are killed or hang, and a collection on it."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "warmstart[ray]"')

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent)]

from collecting import TINY, pretend, tiny_history  # noqa: E402

from warmstart.history_store.errors import UsageError  # noqa: E402
from warmstart.integrations.ray.cluster import Cluster, RayExecutor  # noqa: E402
from warmstart.training.collection.collect import collect  # noqa: E402
from warmstart.training.collection.plan import plan_block  # noqa: E402
from warmstart.training.processes.executor import TRIES, Lost  # noqa: E402

# A cluster starts in 5 to 15 s, and each of its workers in 1 to 3.
pytestmark = pytest.mark.slow
SETTINGS = {"include_dashboard": False, "log_to_driver": False}


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_sent():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Workers import this module, and what it imports, by name.
    os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="class")
def one_node(request):
    """Start a cluster with room for two trials."""
    ray.init(address="local", num_cpus=2, **SETTINGS)
    yield
    ray.shutdown()


@dataclass
class DieOn:
    """Kills its own process on one task, as the kernel does when memory is short."""

    task: int
    folder: Path
    times: int

    def __call__(self, x):
        marks = len(list(self.folder.iterdir()))
        if x == self.task and marks < self.times:
            (self.folder / str(marks)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return -x


def unlucky(x):
    if x == 1:
        raise ValueError("not this one")
    return x


class TestOneNode:
    pytestmark = pytest.mark.usefixtures("one_node")

    @pytest.mark.parametrize(("times", "lost"), [(1, None), (99, Lost.DIED)])
    def test_a_killed_worker_costs_one_try(self, tmp_path, times, lost):
        done = {each.task: each for each in RayExecutor(Cluster()).run(DieOn(3, tmp_path, times), range(8))}
        assert len(list(tmp_path.iterdir())) == min(times, TRIES)
        assert sorted(done) == list(range(8))
        assert done[3].lost is lost
        assert done[3].result == (None if lost else -3)
        assert all(done[task].result == -task for task in done if task != 3)

    def test_what_hangs_is_given_up(self):
        done = {each.task: each for each in RayExecutor(Cluster(), limit_s=20).run(time.sleep, [0.0, 600.0, 0.01])}
        assert done[600.0].lost is Lost.TIMEOUT
        assert done[600.0].note == "no result after 20 s"
        assert done[0.0].lost is done[0.01].lost is None

    def test_more_than_any_node_has_is_refused(self):
        with pytest.raises(UsageError, match=r"expected a node for 1 CPU and 1 GPU, got 2 CPU, 0 GPU"):
            list(RayExecutor(Cluster(gpus=1)).run(unlucky, range(3)))
        assert Cluster(cpus=0.5).places() == 4
        assert Cluster(cpus=1.5).places() == 1

    def test_a_collection_with_killed_workers_is_whole(self, tmp_path):
        """Every cell is in the history once, with the error that it has anywhere."""
        with tiny_history(tmp_path / "h.h5") as history:
            report = collect(history, configs=10, budget=TINY, executor=Killed(tmp_path))
            assert (report.total, report.complete_configs) == (20, 10)
            cells = plan_block(report.datasets, list(history.configs), range(10))
            held = {(each.dataset, each.seed): each for each in history.evaluations()}
        assert (tmp_path / "killed").exists()
        assert held == {(cell.dataset, cell.seed): pretend(cell).evaluation for cell in cells}


@dataclass
class KillOnce:
    """Pretends to measure; the first worker to get so far is killed in the middle of its fourth cell."""

    folder: Path
    count: int = 0

    def __call__(self, cell):
        self.count += 1
        if self.count == 4 and not (self.folder / "killed").exists():
            (self.folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return pretend(cell)


@dataclass
class Killed:
    folder: Path

    def run(self, work, tasks):
        return RayExecutor(Cluster()).run(KillOnce(self.folder), tasks)
