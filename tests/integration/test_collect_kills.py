"""Collections that are killed at random moments: nothing acknowledged is lost, no cell is measured into it twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

from warmstart.history_store.history import History
from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.shards import read_shards
from warmstart.training.workloads.cnn.space import target_space

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from collecting import TINY, pretend, tiny_history  # noqa: E402

from warmstart.training.collection.collect import collect  # noqa: E402
from warmstart.training.collection.measure import Measured  # noqa: E402
from warmstart.training.collection.plan import Cell, plan_block  # noqa: E402
from warmstart.training.collection.progress import CollectionProgress  # noqa: E402
from warmstart.training.processes.executor import Done, LocalExecutor  # noqa: E402

T = TypeVar("T")
R = TypeVar("R")

NAMES = ("alpha", "beta", "gamma")
CONFIGS = 24
HOLD = "HOLD_THE_LAST_BLOCK"
"""Variable under which no collection ends."""


def nap(cell: Cell) -> Measured:
    """Take as long as a very small network would."""
    time.sleep(cell.seed % 7 / 1000)
    while cell.index >= 16 and HOLD in os.environ:
        time.sleep(0.01)
    return pretend(cell)


class Napping(LocalExecutor):
    """Real processes, real pipes; no training."""

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[Done[T, R]]:
        return super().run(nap, tasks)  # type: ignore[arg-type]


def drive(folder: Path) -> None:
    """Collect, and note every cell whose evaluation was acknowledged."""
    acknowledged = os.open(folder / "acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(progress: CollectionProgress) -> None:
        if progress.latest is None:
            print("begun", flush=True)  # noqa: T201
        else:
            line = [progress.latest.dataset, progress.latest.seed, progress.latest.error]
            os.write(acknowledged, (json.dumps(line) + "\n").encode())

    with History.open(folder / "h.h5", write=True, lock_timeout=30) as history:
        collect(history, configs=CONFIGS, budget=TINY, executor=Napping(2), shards=folder / "shards", progress=note)


def start(folder: Path, **env: str) -> subprocess.Popen[str]:
    code = f"import sys; sys.path[:0] = [{str(HERE)!r}]\nfrom pathlib import Path\nimport test_collect_kills as t\nt.drive(Path({str(folder)!r}))"
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True, env=os.environ | env
    )


def check(folder: Path) -> int:
    """Compare the history with what was acknowledged; gives its number of evaluations."""
    with History.open(folder / "h.h5") as history:
        evaluations = history.evaluations()
    keys = Counter((e.dataset, e.seed) for e in evaluations)
    assert max(keys.values(), default=1) == 1, "a cell is in it twice"
    held = {(e.dataset, e.seed, e.error) for e in evaluations}
    log = folder / "acknowledged"
    noted = [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []
    assert set(noted) <= held, "an acknowledged evaluation is lost"
    assert len(set(noted)) == len(noted), "a cell was acknowledged twice"
    if (folder / "shards" / "collection.json").exists():
        shards = read_shards(folder / "shards")
        assert {(e.dataset, e.seed, e.error) for runs in shards.evaluations.values() for e in runs} <= held
    return len(evaluations)


def check_complete(folder: Path) -> None:
    cells = plan_block(NAMES, sobol_configs(target_space(), CONFIGS), range(CONFIGS))
    with History.open(folder / "h.h5") as history:
        held = {(e.dataset, e.seed): e for e in history.evaluations()}
        assert list(history.configs) == sobol_configs(target_space(), CONFIGS)
    for cell in cells:
        assert held.pop((cell.dataset, cell.seed)) == pretend(cell).evaluation
    assert not held
    runs = read_shards(folder / "shards").evaluations
    assert {name: len(each) for name, each in runs.items()} == dict.fromkeys(NAMES, CONFIGS)


def finish(folder: Path) -> None:
    process = start(folder)
    process.communicate(timeout=200)
    assert process.returncode == 0
    assert check(folder) == len(NAMES) * CONFIGS
    check_complete(folder)


def kill_at_random(folder: Path, rng: random.Random) -> bool:
    """Collect for a random time, then kill the whole group; tells whether it was over before."""
    process = start(folder)
    log = folder / "acknowledged"
    if rng.random() < 0.2:  # while it starts
        time.sleep(rng.random() * 1.5)
    else:  # some way into it, wherever it then is
        wanted = (log.stat().st_size if log.exists() else 0) + rng.randrange(1, 700)
        while process.poll() is None and not (log.exists() and log.stat().st_size >= wanted):
            time.sleep(0.002)
        time.sleep(rng.random() * 0.03)
    over = process.poll() is not None
    if not over:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not over or process.returncode == 0
    return over


def kill_until(kills: int, folder: Path, rng: random.Random) -> None:
    done = rounds = 0
    while done < kills:
        place = folder / str(rounds)
        place.mkdir()
        tiny_history(place / "h.h5", NAMES).close()
        rounds += 1
        over = False
        while not over and done < kills:
            over = kill_at_random(place, rng)
            done += not over
            check(place)
        finish(place)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_kills(tmp_path: Path) -> None:
    kill_until(15, tmp_path, random.Random(1))


def test_ctrl_c_ends_with_the_shards_written(tmp_path: Path) -> None:
    tiny_history(tmp_path / "h.h5", NAMES).close()
    process = start(tmp_path, **{HOLD: "1"})
    assert process.stdout is not None
    process.stdout.readline()
    log = tmp_path / "acknowledged"
    while not log.exists() or log.stat().st_size < 500:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: parent and workers alike
    process.communicate(timeout=200)
    assert process.returncode == -signal.SIGINT
    held = check(tmp_path)
    assert 0 < held < len(NAMES) * CONFIGS
    assert sum(map(len, read_shards(tmp_path / "shards").evaluations.values())) == held
    finish(tmp_path)
