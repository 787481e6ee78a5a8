"""Studies to look at: from storages of this version and of 0.1, of Optuna alone, and from reports."""

import gzip
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from objectives import parabola

from warmstart.history_store.errors import DataError, MissingPathError, StorageError, UsageError
from warmstart.plots.read_study import read_run_or_study
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.results.export import trial_rows, write_trials
from warmstart.studies.results.study_record import (
    StudyRecord,
    choose_study,
    read_study_record,
    records_of_report,
    study_names,
    unended_rows,
)
from warmstart.studies.results.trial import Trial, ended_trials
from warmstart.studies.state.attributes import PLAN
from warmstart.studies.state.reading import open_to_read
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.trial_queue import open_queue
from warmstart.studies.tune import tune

ARCHIVE = Path(__file__).parents[3] / "compat" / "v0_1"


def begun(folder, **options):
    space = {"x": (0.0, 1.0)}
    return tune(objective=parabola, space=space, storage=folder / "s.db", study="s", trials=4, **options)


def test_looking_at_a_study_loads_no_search_space(tmp_path):
    begun(tmp_path, warm="none")
    command = ["studies", "show", "--trials", "2", "--storage", str(tmp_path / "s.db")]
    code = f"import sys; from warmstart.cli import main; main({command}); print({{'scipy.stats', 'ConfigSpace'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "4 ok" in done.stdout or " 4 " in done.stdout
    assert done.stdout.splitlines()[-1] == "set()"


@pytest.fixture
def archive(tmp_path):
    for path in ARCHIVE.iterdir():
        if path.suffix == ".gz":
            (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        elif path.is_file():
            shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["done.db", "done.journal", "running.db", "running.journal", "joint.db"])
def test_studies_of_0_1_are_shown_and_left_as_they_are(archive, name):
    def files():
        """Read them all but what SQLite makes for readers, which holds nothing."""
        made = ("-shm", "-wal")
        every = {path.name: path.read_bytes() for path in archive.glob(f"{name}*")}
        return {
            file: read
            for file, read in every.items()
            if not (file.endswith(made) and not (read and file.endswith("-wal")))
        }

    before = files()
    with open_to_read(archive / name) as store:
        found = [read_study_record(store, each) for each in study_names(store)]
    assert [len(record.trials) > 1 and record.best is not None for record in found] == [True] * len(found)
    unended = sum(record.running + record.interrupted for record in found)
    assert unended == {"running.db": 1, "running.journal": 2}.get(name, 0)
    assert files() == before
    if name == "done.db":
        (record,) = found
        warm = [row for row in record.rows() if row["warm"]]
        assert len(warm) == 2
        assert all(row["source"] and 0 < row["promised"] < 1 and row["error"] is not None for row in warm)


def test_a_report_of_0_1_says_what_the_storage_says(archive):
    (report,) = archive.glob("sklearn-digits-objective.py-of_images-report.json")
    record = read_run_or_study(str(report))
    document = json.loads(report.read_text())
    assert len(record.trials) == len(document["all"])
    assert record.best.error == document["best"]["error"]
    joint = archive / "near-and-1-more-report.json"
    with pytest.raises(UsageError, match=r"expected the name of one of the studies .*near.*, got none"):
        read_run_or_study(str(joint))
    assert read_run_or_study(str(joint), study=json.loads(joint.read_text())["studies"][0]["study"]).trials


def test_the_plan_that_people_see_is_short_and_0_1_refuses_it(tmp_path):
    begun(tmp_path, initial=[{"x": 0.25}])
    study = optuna.load_study(study_name="s", storage=f"sqlite:///{tmp_path}/s.db")
    shown = json.loads(study.user_attrs[PLAN])
    assert shown["schema_version"] == 2  # 0.1 asks for an upgrade
    assert study.user_attrs["surrogate"] == "gp"
    assert study.metric_names == ["error"]
    with pytest.raises(StorageError, match="expected a study of version 1, got 2"):
        StudySpec.from_json(study.user_attrs[PLAN], "s.db:s")
    first = study.trials[0].user_attrs
    assert first["warm"] is True
    assert first["source"] == "you"
    assert first["came"] == pytest.approx(0.0025)
    assert "warm" not in study.trials[1].user_attrs
    again = begun(tmp_path, initial=[{"x": 0.25}])
    assert len(again.trials) == 4


def test_a_dashboard_shows_the_metric_and_what_else_a_trial_returned(tmp_path):
    def accuracy(config, seed):
        return {"val_acc": 100 * config["x"], "f1": 0.5} if config["x"] < 0.9 else {}

    storage, same = f"sqlite:///{tmp_path}/s.db", {"metric": "val_acc", "maximize": True, "scale": "percent"}
    configs = [{"x": 0.25}, {"x": 0.95}]
    tune(objective=accuracy, space={"x": (0.0, 1.0)}, initial=configs, trials=2, study="s", storage=storage, **same)
    study = optuna.load_study(study_name="s", storage=storage)
    assert (study.metric_names, study.direction.name) == (["val_acc"], "MAXIMIZE")
    assert study.best_value == 25.0
    assert study.best_trial.user_attrs["came"] == 25.0
    assert (study.user_attrs["metric"], study.user_attrs["direction"]) == ("val_acc", "maximize")
    first, second = (trial.user_attrs for trial in study.trials)
    assert (first["val_acc"], first["f1"]) == (25.0, 0.5)
    assert second["status"] == "failed"
    assert "val_acc" in second["note"]


def test_warm_configurations_are_shown_by_the_metric(tmp_path, cli):
    def accuracy(config):
        return {"accuracy": 1 - config["x"] ** 2}

    where = {"storage": tmp_path / "s.db", "study": "s", "metric": "accuracy", "maximize": True}
    tune(objective=accuracy, space={"x": (0.0, 1.0)}, trials=1, initial=[{"x": 0.5}], **where)
    shown = cli("studies", "show", "s", "--storage", tmp_path / "s.db").out
    (row,) = [line for line in shown.partition("Warm configurations")[2].splitlines() if line.lstrip().startswith("0 ")]
    assert row.split() == ["0", "-", "0.75"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a lock")
def test_a_trial_whose_worker_is_gone_is_interrupted(tmp_path):
    begun(tmp_path)

    def looked():
        with open_to_read(tmp_path / "s.db") as store:
            record, rows = read_study_record(store, "s"), unended_rows(store, "s")
        return record.counts, record.row()["trials"], [[row["trial"] for row in some] for some in rows]

    ours, theirs = os.pipe(), os.pipe()
    worker = os.fork()
    if not worker:
        with open_queue(open_store(tmp_path / "s.db"), "s") as queue:
            queue.next(5)
            os.write(theirs[1], b"begun")
            os.read(ours[0], 1)
            os._exit(0)
    os.read(theirs[0], 5)
    assert looked() == ({"ok": 4, "running": 1}, 5, [[4], []])
    os.write(ours[1], b"!")
    os.waitpid(worker, 0)
    assert looked() == ({"ok": 4, "interrupted": 1}, 4, [[], [4]])
    with open_queue(open_store(tmp_path / "s.db"), "s") as queue:
        assert queue.next(5).number == 4
        assert looked()[0] == {"ok": 4, "running": 1}  # its own claims a process cannot tell
        assert queue.claim(4)


def test_the_best_of_the_pruned_trials_is_named():
    def trial(number, *curve):
        return Trial(number, {"x": 0.1}, None, TrialStatus.PRUNED, 1.0, 0, curve=curve)

    trials = (trial(0, (1.0, 0.2), (2.0, 0.5)), trial(1, (3.0, 0.4)), trial(2))
    record = StudyRecord("s", "s.db", "f", trials, metric=Metric("acc", maximize=True))
    assert record.pruned_line == "3 pruned, the best at acc 0.6 after step 3, trial 1."
    assert StudyRecord("s", "s.db", "f", trials[2:]).pruned_line == ""


def test_studies_of_other_programs_are_shown(tmp_path):
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/o.db", study_name="o", direction="maximize")

    def objective(trial):
        if trial.number == 2:
            raise ValueError
        trial.report(0.1, 1)
        trial.report(0.2, 2)
        return trial.suggest_float("lr", 1e-4, 1.0, log=True)

    study.optimize(objective, n_trials=6, catch=ValueError)
    with open_to_read(tmp_path / "o.db") as store:
        record = read_study_record(store, choose_study(store, None))
    assert record.value(record.best) == pytest.approx(study.best_value)
    assert record.row()["failed"] == 1
    assert record.metric.maximize
    assert [record.metric.to_value(error) for _, error in record.trials[0].curve] == [0.1, 0.2]
    two = optuna.create_study(storage=f"sqlite:///{tmp_path}/o.db", study_name="two", directions=["minimize"] * 2)
    with open_to_read(tmp_path / "o.db") as store:
        with pytest.raises(DataError, match="expected a study of one objective, got 2"):
            read_study_record(store, two.study_name)
        with pytest.raises(UsageError, match="expected the name of one of 2 studies, got none"):
            choose_study(store, None)
        with pytest.raises(UsageError, match="expected one of the studies o, two, got 'x'"):
            choose_study(store, "x")


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_what_is_no_result_in_a_study_of_another_program_is_never_the_best(tmp_path, direction):
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/o.db", study_name="o", direction=direction)
    values = (0.5, math.inf, 0.4, -math.inf)

    def objective(trial):
        trial.suggest_categorical("c", [1.0, math.inf, math.nan])
        for step, value in enumerate((0.1, math.nan, math.inf, 0.2)):
            trial.report(value, step)
        if trial.number >= len(values):
            trial.report(-9.0 if direction == "minimize" else 9.0, 9)
            raise optuna.TrialPruned
        return values[trial.number]

    study.optimize(objective, n_trials=6)
    record = read_run_or_study(f"{tmp_path}/o.db::o")
    assert record.best.number == (0 if direction == "maximize" else 2)
    assert [trial.status for trial in record.trials] == ["ok", "failed", "ok", "failed", "pruned", "pruned"]
    assert [trial.error is None for trial in record.trials] == [False, True, False, True, True, True]
    assert record.trials[1].note == "expected one finite number, got inf"
    assert [[step for step, _ in trial.curve] for trial in record.trials[3:5]] == [[0.0, 3.0], [0.0, 3.0, 9.0]]
    for ending in ("json", "csv", "parquet"):
        write_trials(tmp_path / f"o.{ending}", record)
    document = json.loads((tmp_path / "o.json").read_text(), parse_constant=pytest.fail)
    assert [row["error"] is None for row in document["all"]] == [False, True, False, True, True, True]
    assert {type(row["config"]["c"]) for row in document["all"]} <= {float, str}


def test_what_another_program_made_of_a_trial_of_ours_is_no_result_unless_it_is_one(tmp_path):
    begun(tmp_path)
    with open_queue(open_store(tmp_path / "s.db"), "s") as queue:
        for state, value in (("PRUNED", None), ("COMPLETE", -math.inf), ("COMPLETE", 9.0)):
            run = queue.next(9)
            queue.report(run, 1, -1.0)
            queue.flush()
            queue.study.tell(run.number, value, state=optuna.trial.TrialState[state])  # by a dashboard, say
        found = ended_trials(queue.trials())
    assert [(trial.status, trial.error) for trial in found[4:]] == [("pruned", None), ("failed", None), ("ok", 9.0)]
    assert read_run_or_study(f"{tmp_path}/s.db::s").best.number < 4


def test_what_is_no_storage_is_refused_and_nothing_is_made(tmp_path):
    with pytest.raises(MissingPathError, match="expected a storage of studies, got nothing there"), open_to_read(tmp_path / "no.db"):  # fmt: skip
        pass
    assert not list(tmp_path.iterdir())
    for content, told in ((b"", "got an empty file"), (b"hello", "got another file")):
        (tmp_path / "x.db").write_bytes(content)
        with pytest.raises(StorageError, match=told), open_to_read(tmp_path / "x.db"):
            pass
    with pytest.raises(UsageError, match="expected a path, or a URL of sqlite"), open_to_read("http://x/y"):
        pass
    (tmp_path / "x.json").write_text('{"a": 1}')
    with pytest.raises(UsageError, match="expected a storage or a report to take study 's' from"):
        read_run_or_study(str(tmp_path / "x.json"), study="s")


def test_exported_rows_name_what_was_promised_and_what_came(tmp_path):
    begun(tmp_path, initial=[{"x": 0.25}])
    record = read_run_or_study(f"{tmp_path}/s.db::s")
    rows = trial_rows(record)
    assert [row["trial"] for row in rows] == [0, 1, 2, 3]
    assert rows[0]["warm"]
    assert not rows[1]["warm"]
    assert rows[0]["config.x"] == 0.25
    assert rows[0]["error"] == pytest.approx(0.0025)


def test_what_a_trial_returned_beside_its_error_is_exported_and_reported(tmp_path):
    def objective(config):
        return {"error": config["x"], "n bytes": 12, "constraints": {"small": config["x"] - 0.5}}

    where = {"storage": tmp_path / "s.db", "study": "s", "report": tmp_path / "r.md"}
    found = tune(objective=objective, space={"x": (0.0, 1.0)}, trials=3, **where)
    record = read_run_or_study(f"{tmp_path}/s.db::s")
    for trials in (
        found.trials,
        record.trials,
        records_of_report(json.loads((tmp_path / "r.json").read_text()), "r")[0].trials,
    ):
        for trial in trials:
            assert trial.metrics == {"n bytes": 12}
            assert trial.constraints == {"small": pytest.approx(trial.config["x"] - 0.5)}
    assert [row["metrics"] for row in record.rows()] == [{"n bytes": 12}] * 3
    assert all(row["metric.n bytes"] == 12 and row["constraint.small"] <= 0.5 for row in trial_rows(record))
    for ending in ("csv", "parquet", "json"):
        write_trials(tmp_path / f"o.{ending}", record)
    assert "metric.n bytes" in (tmp_path / "o.csv").read_text().splitlines()[0]


@pytest.mark.parametrize("ending", ["json", "html"])
def test_an_export_of_a_study_replaces_nothing_but_an_export(tmp_path, cli, ending):
    begun(tmp_path)
    out = tmp_path / f"mine.{ending}"
    out.write_text("[1, 2]")
    call = ("studies", "export", out, "s", "--storage", tmp_path / "s.db")
    refused = cli(*call)
    assert refused.code == 2
    assert "OUT: expected a new file, or an export to replace, got" in refused.err
    assert out.read_text() == "[1, 2]"
    out.unlink()
    for _ in range(2):
        assert cli(*call).code == 0
