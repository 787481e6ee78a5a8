import logging
import math
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from collecting import TINY, Here, pictures, pretend, tiny_history

from warmstart.history_store.errors import StorageError, UsageError
from warmstart.history_store.history import History
from warmstart.history_store.manifest import Manifest, Obtain
from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.records import Status
from warmstart.history_store.shards import read_shards
from warmstart.history_store.space import dump_space
from warmstart.training.collection.add_sources import rebuild
from warmstart.training.collection.collect import collect
from warmstart.training.collection.measure import Measure, Measured
from warmstart.training.collection.plan import (
    Cell,
    blocks,
    cell_seed,
    parse_time,
    plan_block,
    seconds_left,
    wall_seconds_left,
)
from warmstart.training.processes.executor import Lost
from warmstart.training.workloads.cnn.space import target_space

WRITING = ("/history_store/history.py", "/file/writing.py", "/file/journal.py")


def test_blocks_double_from_16() -> None:
    assert blocks(64) == [range(16), range(16, 32), range(32, 64)]
    assert blocks(16) == [range(16)]
    assert blocks(3) == [range(3)]
    assert blocks(70)[-1] == range(64, 70)
    with pytest.raises(UsageError, match="collect: expected at least one configuration, got configs=0"):
        blocks(0)


def test_a_block_goes_dataset_by_dataset() -> None:
    configs = [{"x": i} for i in range(4)]
    cells = plan_block(["a", "b"], configs, range(1, 3), seed=5, replicates=2)
    assert [(cell.dataset, cell.index) for cell in cells] == [("a", 1), ("a", 2)] * 2 + [("b", 1), ("b", 2)] * 2
    assert cells[0].seed == cell_seed("a", {"x": 1}, 0, base=5)
    assert cells[2].seed == cell_seed("a", {"x": 1}, 1, base=5)


def test_seconds_left_by_hand() -> None:
    durations = {0: [1.0, 3.0], 1: [10.0]}
    assert seconds_left(durations, [0, 1, 2], workers=2) == (2 + 10 + 6) / 2
    assert seconds_left(durations, [], workers=2) == 0
    assert math.isnan(seconds_left({}, [0], workers=1))
    # Three units of cost took 12 s: a unit takes 4 s, and the third configuration costs 5.
    assert seconds_left(durations, [0, 1, 2], workers=1, costs={0: 1.0, 1: 2.0, 2: 5.0}) == 2 + 10 + 20


def test_wall_seconds_left_by_hand() -> None:
    durations = {0: [2.0], 1: [4.0]}
    ask = {"workers": 1, "todo": [1, 1]}
    assert wall_seconds_left(durations, elapsed_s=5.0, measured=[], **ask) == 8.0
    # As long as expected, then three times as long; one cell votes for the clock being right.
    assert wall_seconds_left(durations, elapsed_s=4.0, measured=[1], **ask) == 8.0
    assert wall_seconds_left(durations, elapsed_s=12.0, measured=[1], **ask) == 8.0 * (12 + 4) / (4 + 4)
    assert wall_seconds_left(durations, elapsed_s=36.0, measured=[1] * 3, **ask) == 8.0 * (36 + 4) / (12 + 4)
    # Two workers, one cell over, one half done: 6 seconds of work in 3 seconds.
    assert wall_seconds_left(durations, todo=[1, 1], workers=2, elapsed_s=3.0, measured=[1], under_way=1) == 4.0
    assert math.isnan(wall_seconds_left({}, [0], workers=1, elapsed_s=1.0, measured=[]))
    assert wall_seconds_left(durations, [], workers=1, elapsed_s=1.0, measured=[1]) == 0.0


GIVEN = [{**config, "dropout_rate": 0.25} for config in sobol_configs(target_space(), 2, seed=9)]


def test_configurations_given_are_measured_first_on_every_dataset(tmp_path: Path) -> None:
    sequence = list(sobol_configs(target_space(), 4))
    with tiny_history(tmp_path / "h.h5") as history:
        here = Here(pretend)
        # One of them is in the sequence too, one stands there twice.
        first = [GIVEN[0], sequence[2], GIVEN[1], GIVEN[0]]
        report = collect(history, configs=4, first=first, budget=TINY, executor=here, shards=tmp_path / "shards")
        wanted = [GIVEN[0], sequence[2], GIVEN[1]]
        assert [(cell.dataset, cell.config) for cell in here.cells[:6]] == [
            (name, config) for name in ("alpha", "beta") for config in wanted
        ]
        assert list(history.configs) == [*wanted, sequence[0], sequence[1], sequence[3]]
        assert (report.total, report.complete_configs) == (12, 6)
        again = Here(pretend)
        assert collect(history, configs=4, budget=TINY, executor=again).known == 8, "seeds follow from the cells"
        assert again.cells == []
    with tiny_history(tmp_path / "only.h5") as history:
        only = Here(pretend)
        collect(history, configs=0, first=GIVEN, budget=TINY, executor=only)
        assert [cell.config for cell in only.cells] == [*GIVEN, *GIVEN]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3h", 10_800),
        ("90m", 5_400),
        ("1h30m", 5_400),
        ("1h30", 5_400),
        ("1m30s", 90),
        ("45s", 45),
        ("3min", 180),
        ("3 m", 180),
        ("1 hour 2 minutes", 3_720),
        ("0.5h", 1_800),
        ("12", 12),
        (7.5, 7.5),
        (None, math.inf),
    ],
)
def test_parse_time(text: str | float | None, seconds: float) -> None:
    assert parse_time(text, param="budget") == seconds


@pytest.mark.parametrize("text", ["", "soon", "3d", "-1h", "0", 0, -3.0, "1m2h", "1h2m5", "2m5", math.nan])
def test_parse_time_refuses(text: str | float) -> None:
    with pytest.raises(UsageError, match=r"^timeout: expected a length of time above 0"):
        parse_time(text, param="timeout")


def test_a_time_of_people_has_a_unit() -> None:
    with pytest.raises(UsageError, match=r"^time: .* got '3'\. `3m` or `3s`\?"):
        parse_time("3", param="time")


def test_every_cell_is_measured_once_in_blocks(tmp_path: Path) -> None:
    with tiny_history(tmp_path / "h.h5") as history:
        here = Here(pretend)
        report = collect(history, configs=20, budget=TINY, executor=here)
        assert (report.total, report.known, report.measured) == (40, 0, {Status.OK: 40})
        assert (report.complete_configs, report.stopped, report.datasets) == (20, "complete", ("alpha", "beta"))
        order = [(cell.dataset, cell.index) for cell in here.cells]
        assert order[:32] == [("alpha", i) for i in range(16)] + [("beta", i) for i in range(16)]
        assert order[32:] == [("alpha", i) for i in range(16, 20)] + [("beta", i) for i in range(16, 20)]
        assert history.errors.shape == (2, 20)
        assert not np.isnan(history.errors).any()
        assert list(history.configs) == sobol_configs(target_space(), 20)


def test_a_second_call_measures_what_is_missing(tmp_path: Path) -> None:
    with tiny_history(tmp_path / "h.h5") as history:
        collect(history, configs=3, budget=TINY, executor=Here(pretend))
        again = Here(pretend)
        assert collect(history, configs=3, budget=TINY, executor=again).known == 6
        assert again.cells == []
        more = Here(pretend)
        report = collect(history, configs=5, replicates=2, budget=TINY, executor=more)
        assert (report.total, report.known) == (20, 6)
        assert len({cell.key for cell in more.cells}) == 14
    with History.open(tmp_path / "h.h5") as history:
        counts = Counter((e.dataset, e.seed) for e in history.evaluations())
        assert len(counts) == 20
        assert set(counts.values()) == {1}


def test_time_budget_begins_nothing_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def slow(cell: Cell) -> Measured:
        now[0] += 0.05
        return pretend(cell)

    monkeypatch.setattr("warmstart.training.collection.collect.time.monotonic", lambda: now[0])
    with tiny_history(tmp_path / "h.h5") as history:
        report = collect(history, configs=16, budget=TINY, executor=Here(slow), time_budget=0.29)
        assert report.stopped == "time budget"
        assert history.n_evaluations == 6
        assert report.complete_configs == 0
        report = collect(history, configs=16, budget=TINY, executor=Here(pretend), time_budget="1h")
        assert report.stopped == "complete"
        assert history.n_evaluations == 32


def test_lost_tasks_are_recorded_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lost = {0: Lost.DIED, 1: Lost.TIMEOUT}
    with tiny_history(tmp_path / "h.h5", ["alpha"]) as history, caplog.at_level(logging.WARNING):
        report = collect(
            history, configs=3, budget=TINY, executor=Here(pretend, lose=lambda cell: lost.get(cell.index))
        )
        assert [e.status for e in history.evaluations()] == [Status.CRASHED, Status.TIMEOUT, Status.OK]
        assert np.isnan(history.errors[0, :2]).all()
        assert report.measured == {Status.CRASHED: 1, Status.TIMEOUT: 1, Status.OK: 1}
        assert "alpha, configuration 0: crashed: lost" in caplog.text
        again = Here(pretend)
        collect(history, configs=3, budget=TINY, executor=again)
        assert again.cells == [], "a failure is a result"


def test_shards_hold_what_the_history_holds_wherever_an_interrupt_comes(tmp_path: Path) -> None:
    """At every fifteenth line that writes a cell, before and after it is on the disk."""
    before, lines = sys.gettrace(), 0

    def interrupting(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(WRITING):
            return None
        if event == "line":
            lines -= 1
            if lines == 0:
                raise KeyboardInterrupt
        return interrupting

    def work(cell: Cell) -> Measured:
        sys.settrace(interrupting)
        return pretend(cell)

    lost = 0
    with tiny_history(tmp_path / "h.h5", ("alpha",)) as history:
        for n in range(1, 150, 15):
            lines, known = n, history.n_evaluations
            try:
                with pytest.raises(KeyboardInterrupt):
                    collect(history, configs=n + 2, budget=TINY, executor=Here(work), shards=tmp_path / "shards")
            finally:
                sys.settrace(before)
            with History.open(tmp_path / "h.h5") as there:
                assert read_shards(tmp_path / "shards").evaluations["alpha"] == there.evaluations(), n
                lost += there.n_evaluations == known
    assert 0 < lost < 10


def test_refuses_a_second_budget(tmp_path: Path) -> None:
    with tiny_history(tmp_path / "h.h5") as history:
        collect(history, configs=1, budget=TINY, executor=Here(pretend))
        with pytest.raises(UsageError, match=r"expected evaluations of budget 'compact-400' alone, got some of 'tiny'"):
            collect(history, configs=1, executor=Here(pretend))


def test_refuses_nothing_to_measure(tmp_path: Path) -> None:
    with tiny_history(tmp_path / "h.h5", []) as history:
        with pytest.raises(UsageError, match="expected datasets to measure"):
            collect(history, configs=1)
        with pytest.raises(UsageError, match="expected at least one replicate"):
            collect(history, configs=1, replicates=0)


def test_measure_trains_on_the_images_of_the_history(tmp_path: Path) -> None:
    with tiny_history(tmp_path / "h.h5") as history:
        collect(history, configs=2, budget=TINY, executor=Here(), device="cpu")
        evaluations = history.evaluations()
    assert {e.status for e in evaluations} <= {Status.OK, Status.DIVERGED}
    assert all(e.origin == "collect/tiny" and e.duration > 0 for e in evaluations)
    assert [e.seed for e in evaluations] == [cell_seed(e.dataset, e.config) for e in evaluations]
    ok = next(e for e in evaluations if e.status is Status.OK)
    assert ok.curve[-1] == (2, ok.error)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), Status.OOM),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes."), Status.OOM),
        (ZeroDivisionError("x"), Status.CRASHED),
    ],
)
def test_measure_records_what_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, status: Status
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr("warmstart.training.workloads.cnn.train.train_target", broken)
    with tiny_history(tmp_path / "h.h5") as history:
        cell = plan_block(["alpha"], sobol_configs(target_space(), 1), range(1))[0]
        measured = Measure(history.path, TINY)(cell)
    assert measured.evaluation is not None
    assert measured.evaluation.status is status
    assert math.isnan(measured.evaluation.error)
    assert type(error).__name__ in measured.note


def test_measure_stops_without_its_device(tmp_path: Path) -> None:
    with tiny_history(tmp_path / "h.h5") as history:
        measured = Measure(history.path, TINY, "warp:3")(Cell("alpha", {}, 0, 0))
        assert measured.evaluation is None
        with pytest.raises(UsageError, match="device: expected one that torch can use here, got 'warp:3'"):
            raise measured.stop or AssertionError


def test_shards_and_sources_rebuild_the_history(tmp_path: Path) -> None:
    for number, name in enumerate(("alpha", "beta")):
        images, labels = pictures(number)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=labels, class_names=["dark", "bright"])
    manifests = [
        Manifest(name, name, "squares", "a test", "MIT", Obtain("file", f"{name}.npz")) for name in ("alpha", "beta")
    ]
    shards = tmp_path / "shards"

    def sitting(path: Path, configs: int) -> History:
        """Go on where the shards are, on a machine that has nothing else but the sources."""
        history = History.create(path, dump_space(target_space()), stored_size=8)
        here = Here(pretend, lose=lambda cell: Lost.DIED if cell.index == 1 else None)
        collect(
            history,
            manifests,
            root=tmp_path,
            configs=configs,
            budget=TINY,
            executor=here,
            shards=shards,
            fractions=(0.5, 1.0),
        )
        return history

    with sitting(tmp_path / "one.h5", 4) as one:
        assert one.names == ("alpha@50", "alpha", "beta@50", "beta")
        first = one.n_evaluations
    with (
        sitting(tmp_path / "two.h5", 18) as two,
        rebuild(shards, tmp_path / "three.h5", manifests, root=tmp_path) as three,
    ):
        assert (first, two.n_evaluations) == (16, 72)
        rows = [three.names.index(name) for name in two.names]
        assert three.configs == two.configs
        np.testing.assert_array_equal(three.errors[rows], two.errors)
        assert [three.dataset(name) for name in two.names] == list(two.datasets)
        for name in two.names:
            assert sorted(map(repr, three.evaluations(name))) == sorted(map(repr, two.evaluations(name)))
            np.testing.assert_array_equal(three.images(name).array, two.images(name).array)
            np.testing.assert_array_equal(three.images(name).split, two.images(name).split)


def test_two_processes_measure_like_one(tmp_path: Path) -> None:
    """The real thing: spawned workers, real training; the numbers do not depend on who measures."""
    with tiny_history(tmp_path / "one.h5") as one, tiny_history(tmp_path / "two.h5") as two:
        threads = torch.get_num_threads()
        collect(one, configs=2, budget=TINY, executor=Here(), device="cpu")
        torch.set_num_threads(threads)
        report = collect(two, configs=2, budget=TINY, workers=2, device="cpu", cell_timeout=100.0)
        assert report.stopped == "complete"
        np.testing.assert_array_equal(one.errors, two.errors)


def test_stops_where_a_worker_cannot_go_on(tmp_path: Path) -> None:
    def gone(cell: Cell) -> Measured:
        return Measured(None, stop=StorageError("gone"))

    with tiny_history(tmp_path / "h.h5") as history:
        with pytest.raises(StorageError, match="gone"):
            collect(history, configs=1, budget=TINY, executor=Here(gone))
        assert history.n_evaluations == 0
