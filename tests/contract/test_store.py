"""What every way of keeping a history must give back, whichever road the records took."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import histories
import numpy as np
import pytest

from warmstart.history_store.errors import DataError, HistoryReadOnlyError, UsageError
from warmstart.history_store.exchange import export_history, import_evaluations, import_history
from warmstart.history_store.history import History
from warmstart.history_store.numbering import to_unit
from warmstart.history_store.records import Evaluation, Status
from warmstart.history_store.shards import history_from_shards, write_shards
from warmstart.history_store.space import load_space
from warmstart.history_store.verify import restore, verify

Road = Callable[[Path], History]


def as_written(folder: Path) -> History:
    return histories.filled(folder / "h.h5")


def one_by_one(folder: Path) -> History:
    history = histories.empty(folder / "h.h5")
    for run in histories.runs():
        history.append(run)
    return history


def copied(folder: Path) -> History:
    with one_by_one(folder) as history:
        history.compact(path=folder / "copy.h5")
    return History.open(folder / "copy.h5", write=True)


def restored(folder: Path) -> History:
    one_by_one(folder).close()
    path = folder / "h.h5"
    path.write_bytes(path.read_bytes()[:1000])
    restore(path)
    return History.open(path, write=True)


def through_shards(folder: Path) -> History:
    with as_written(folder) as history:
        write_shards(history, folder / "shards")
    return history_from_shards(folder / "shards", folder / "rebuilt.h5")


def through_parquet(folder: Path) -> History:
    with as_written(folder) as history:
        export_history(history, folder / "runs.parquet")
    return import_history(folder / "runs.parquet", folder / "imported.h5")


def into_an_empty_one(folder: Path) -> History:
    with as_written(folder) as history:
        export_history(history, folder / "runs.csv")
    target = History.create(folder / "t.h5", histories.space_json(), configs=histories.configs(3))
    import_evaluations(target, folder / "runs.csv")
    return target


ROADS = (as_written, one_by_one, copied, restored, through_shards, through_parquet, into_an_empty_one)


@pytest.fixture(scope="module", params=[one_by_one, through_shards], ids=lambda road: road.__name__)
def closed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed history, with a journal or without."""
    with request.param(tmp_path_factory.mktemp("closed")) as history:
        return history.path


@pytest.fixture
def history(closed: Path, tmp_path: Path) -> Iterator[History]:
    for suffix in ("", ".bak", ".journal"):
        if (file := closed.with_name(closed.name + suffix)).exists():
            shutil.copy(file, tmp_path)
    with History.open(tmp_path / closed.name, write=True) as history:
        yield history


def by_dataset(history: History) -> list[str]:
    return [text for name in sorted(history.names) for text in histories.plain(history.evaluations(name))]


@pytest.mark.parametrize("road", ROADS)
def test_everything_comes_back(road: Road, tmp_path: Path) -> None:
    with road(tmp_path) as written:
        path = written.path
    with History.open(path) as history:
        runs = sorted(histories.runs(), key=lambda run: run.dataset)
        assert by_dataset(history) == histories.plain(runs)
        assert history.n_evaluations == len(runs) == len(history.table())
        for run in history.evaluations():
            assert type(run.error) is float
            assert type(run.duration) is float
            assert run.seed is None or type(run.seed) is int
            assert all(type(step) is int and type(error) is float for step, error in run.curve)
        assert [repr(sorted(config.items())) for config in history.configs] == [
            repr(sorted(config.items())) for config in histories.configs(4)
        ]
        unit = to_unit(load_space(history.space_json), history.configs)
        np.testing.assert_array_equal(history.configs_unit, unit)
        assert np.isnan(unit).any()
        infos = [histories.info(name) for name in sorted(histories.NAMES)]
        assert sorted(history.datasets, key=lambda info: info.name) == infos
        assert history.groups == tuple(f"group of {name}" for name in history.names)
        assert history.dataset("..").n_train == 10
        nan = math.nan
        means = {"digits": [0.5, 0.9, nan, nan], "Ä/ö ☃": [nan] * 4, "..": [0.5, nan, nan, nan]}
        np.testing.assert_array_equal(history.errors, [means[name] for name in history.names])
    report = verify(path)
    assert report.ok, report.problems
    assert (report.n_datasets, report.n_configs, report.n_evaluations) == (3, 4, 9)


def test_errors_may_be_changed_by_who_got_them(history: History) -> None:
    history.errors[:] = 0
    history.configs_unit[:] = 0
    history.configs[0].clear()
    assert history.errors[history.names.index("digits"), 0] == 0.5
    assert history.configs[0] == histories.configs(1)[0]
    assert history.configs_unit.any()


def test_it_goes_on_growing(history: History) -> None:
    revision = history.revision
    history.append(Evaluation("digits", histories.configs(5)[4], 0.125, seed=11))
    assert history.revision == revision + 1
    assert len(history.configs) == 5
    with History.open(history.path) as other:
        assert other.errors[other.names.index("digits")].tolist()[4] == 0.125
        assert other.revision == history.revision
        assert other.id == history.id


def test_a_run_is_refused_twice(history: History) -> None:
    before = history.n_evaluations
    with pytest.raises(DataError, match=r"expected a run that it does not have, got 'digits'.*seed=0.*a second time"):
        history.append(histories.runs()[0])
    with pytest.raises(DataError, match="a second time"):
        history.extend([Evaluation("digits", histories.configs(1)[0], 0.5, seed=5, origin="o")] * 2)
    assert history.n_evaluations == before
    history.append(Evaluation("digits", histories.configs(1)[0], 0.25, seed=0, origin="someone else"))


def test_unknown_names_are_refused(history: History) -> None:
    with pytest.raises(DataError, match="expected an evaluation of one of its datasets, got 'digit'"):
        history.append(Evaluation("digit", histories.configs(1)[0], 0.5))
    with pytest.raises(UsageError, match=r"got 'digit'\. Did you mean digits\?"):
        history.dataset("digit")
    with pytest.raises(DataError, match=r"expected one that the space .* allows"):
        history.append(Evaluation("digits", {"layers": 99}, 0.5))


def test_removing_a_dataset_leaves_the_others(history: History) -> None:
    history.set_embeddings("abc", dict.fromkeys(history.names, np.ones(3, np.float32)))
    revision = history.revision
    history.remove_dataset("digits")
    wanted = [run for run in sorted(histories.runs(), key=lambda run: run.dataset) if run.dataset != "digits"]
    assert by_dataset(history) == histories.plain(wanted)
    assert set(history.embeddings("abc")) == set(histories.NAMES) - {"digits"}
    assert history.revision == revision + 1
    history.add_dataset(histories.info("digits"))
    assert np.isnan(history.errors[history.names.index("digits")]).all()
    assert verify(history.path).ok


def test_a_reader_sees_a_snapshot_until_it_refreshes(history: History) -> None:
    with History.open(history.path) as other:
        history.append(Evaluation("digits", histories.configs(1)[0], math.nan, Status.CRASHED, seed=12))
        assert other.n_evaluations == len(histories.runs())
        history.compact()
        assert other.n_evaluations == len(histories.runs())
        assert other.refresh()
        assert other.n_evaluations == len(histories.runs()) + 1
        assert not other.refresh()
        with pytest.raises(HistoryReadOnlyError, match=r"opened for reading\. Open it with write=True"):
            other.append(histories.runs()[0])
