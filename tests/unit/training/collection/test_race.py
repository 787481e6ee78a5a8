"""Racing: noise by hand, who is repeated next, when it ends, what a second call goes on with."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from collecting import TINY, Here, tiny_history

from warmstart.history_store.errors import UsageError
from warmstart.history_store.history import History
from warmstart.history_store.records import Evaluation, Status
from warmstart.training.collection.collect import collect
from warmstart.training.collection.measure import Measured
from warmstart.training.collection.plan import Cell, cell_seed
from warmstart.training.collection.race import POOLED_RUNS, Race, cell_noise
from warmstart.training.processes.executor import Lost

CONFIGS = [{"x": float(i)} for i in range(8)]


def noisy(spread: float, *, seed: int = 0):
    """Measure nothing: an error that rises with the configuration, and noise that follows from the cell."""

    def measure(cell: Cell) -> Measured:
        draw = np.random.default_rng([seed, cell.seed]).standard_normal()
        error = float(np.clip(0.2 + 0.1 * cell.index + spread * draw, 0, 1))
        return Measured(
            Evaluation(
                dataset=cell.dataset,
                config=cell.config,
                error=error,
                status=Status.OK,
                duration=1.0,
                seed=cell.seed,
                origin="collect/tiny",
            )
        )

    return measure


def test_noise_by_hand() -> None:
    errors = {0: [0.1, 0.2], 1: [0.3], 2: [0.9], 3: [0.5, 0.5], 4: [0.6], 5: [0.7], 6: [0.8], 7: [1.15]}
    found = cell_noise(errors)
    assert found.contenders == (0, 1)
    assert found.seeds == (2, 1)
    pooled = 0.005  # of one repetition of the contenders: (0.05² + 0.05²) / 1
    first = (0.005 + POOLED_RUNS * pooled) / (1 + POOLED_RUNS)
    np.testing.assert_allclose(found.relative, [math.sqrt(first / 2), math.sqrt(pooled)])
    np.testing.assert_allclose(found.median, np.mean(found.relative))
    np.testing.assert_allclose(found.rms, math.sqrt((first / 2 + pooled) / 2))


def test_noise_without_repetitions_or_without_a_range() -> None:
    once = cell_noise({index: [0.1 * index] for index in range(8)})
    assert (once.contenders, once.seeds) == ((0, 1), (1, 1))
    assert math.isnan(once.median)
    assert cell_noise({}).contenders == ()
    assert cell_noise({0: [0.5], 1: [0.5, 0.5]}).contenders == ()


@pytest.mark.parametrize("target", [0.0, 1.0, -0.1, math.nan])
def test_refuses_a_target_that_is_no_share(target: float) -> None:
    with pytest.raises(UsageError, match=r"race: expected a standard error in \(0, 1\)"):
        Race(["a"], CONFIGS, target)


def test_every_contender_gets_a_second_seed_before_any_gets_a_third() -> None:
    race = Race(["a", "b"], CONFIGS, 0.001)
    for name in ("a", "b"):
        for index in range(8):
            race.add(name, index, seed=cell_seed(name, CONFIGS[index]), error=0.1 * index)
    cells = [race.next_cell() for _ in range(6)]
    order = [(cell.dataset, cell.index) for cell in cells if cell is not None]
    assert order == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("a", 0), ("a", 1)]
    assert [cell.seed for cell in cells if cell][::4] == [cell_seed("a", CONFIGS[0], replicate) for replicate in (1, 2)]


def test_a_quiet_contender_rests_and_a_dataset_is_settled_by_its_median() -> None:
    race = Race(["a"], CONFIGS, 0.05)
    for index in range(8):
        race.add("a", index, seed=index, error=0.1 * index)
    assert not race.is_settled("a")
    for index, runs in ((0, [0.0, 0.0, 0.0]), (1, [0.1, 0.1, 0.1])):
        for number, error in enumerate(runs):
            race.add("a", index, seed=100 + 10 * index + number, error=error)
    assert race.is_settled("a")
    assert race.next_cell() is None
    assert race.cells_left() == []


def test_a_cell_that_always_fails_is_not_run_for_ever() -> None:
    race = Race(["a"], CONFIGS, 0.01, most_seeds=4)
    for index in range(8):
        race.add("a", index, seed=cell_seed("a", CONFIGS[index]), error=0.1 * index)
    for _ in range(6):
        cell = race.next_cell()
        assert cell is not None
        race.add("a", cell.index, seed=cell.seed, error=math.nan)
    assert race.next_cell() is None


def test_collect_races_after_the_grid_and_reaches_the_target(tmp_path: Path) -> None:
    with tiny_history(tmp_path / "h.h5") as history:
        here = Here(noisy(0.03))
        report = collect(history, configs=8, budget=TINY, executor=here, race=0.02)
        assert [(cell.dataset, cell.index) for cell in here.cells[:16]] == [
            (n, i) for n in ("alpha", "beta") for i in range(8)
        ]
        again = Counter((cell.dataset, cell.index) for cell in here.cells[16:])
        assert {index for _, index in again} <= {0, 1, 2}, "only the best are repeated"
        assert report.settled == 2
        assert report.stopped == "complete"
        assert report.noise is not None
        assert all(median <= 0.02 for median, _ in report.noise.values())
        assert len({cell.key for cell in here.cells}) == len(here.cells)
        # About (0.03 / 0.7 / 0.02)² = 4.6 runs of each of two contenders.
        assert 2 * 2 < sum(again.values()) < 2 * 2 * 12


def test_a_race_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    def stop_after(n: int):
        seen = []

        def measure(cell: Cell) -> Measured:
            seen.append(cell)
            if len(seen) > n:
                raise KeyboardInterrupt
            return noisy(0.03)(cell)

        return measure

    with tiny_history(tmp_path / "once.h5") as history:
        whole = Here()
        whole.work = noisy(0.03)
        collect(history, configs=8, budget=TINY, executor=whole, race=0.02)
    cells = []
    for stop in (5, 15, 3, 100):
        first = Here(stop_after(stop))
        with tiny_history(tmp_path / f"{stop}.h5") as history:
            try:
                collect(history, configs=8, budget=TINY, executor=first, race=0.02, shards=tmp_path / "shards")
            except KeyboardInterrupt:
                first.cells.pop()
        cells += [cell.key for cell in first.cells]
    assert cells == [cell.key for cell in whole.cells]


def test_a_race_stands_lost_cells_and_a_time_budget(tmp_path: Path) -> None:
    with tiny_history(tmp_path / "h.h5", ["alpha"]) as history:
        lost = Here(noisy(0.03), lose=lambda cell: Lost.DIED if cell.index == 0 else None)
        report = collect(history, configs=8, budget=TINY, executor=lost, race=0.02)
        assert {cell.index for cell in lost.cells[8:]} <= {1, 2, 3}
        assert report.settled == 1
    with History.open(tmp_path / "h.h5", write=True) as history:
        report = collect(history, configs=8, budget=TINY, executor=Here(noisy(0.03)), race=0.001, time_budget=1e-9)
        assert (report.stopped, report.settled) == ("time budget", 0)
