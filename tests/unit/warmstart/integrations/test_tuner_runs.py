"""Runs that other tuners wrote themselves (`tests/foreign/make_*.py`)."""

import json
import math
import shutil
from pathlib import Path

import pytest

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.external_runs import ForeignParameter
from warmstart.history_store.records import Status
from warmstart.integrations.importers.registry import read_source

FOREIGN = Path(__file__).parents[3] / "foreign"


def test_runs_of_ultralytics():
    runs, _ = read_source(str(FOREIGN / "ultralytics"))
    assert (len(runs), runs.maximised, list(runs.values)) == (3, True, [0.55] * 3)
    assert runs.status == [Status.OK] * 3
    assert list(runs.params["lr0"]) == [0.02, 0.002, None], "`optimizer: auto` took another"
    assert list(runs.params["imgsz"]) == [32] * 3
    assert set(runs.datasets) == {"digits"}
    assert all(0 < seconds < 100 for seconds in runs.durations)
    assert [step for step, _ in runs.curves[0]] == [1, 2]


def test_a_project_of_keras_tuner():
    runs, _ = read_source(str(FOREIGN / "keras_tuner"))
    assert (len(runs), runs.maximised, runs.curves[0]) == (8, True, ((0, runs.values[0]),))
    for row in range(8):
        rate = runs.params["lr"][row]
        failed = runs.params["units"][row] == 128
        assert runs.status[row] is (Status.CRASHED if failed else Status.OK)
        assert failed or runs.values[row] == pytest.approx(min(0.9, 0.7 + rate))  # as its maker computes it
    assert math.isnan(runs.values[runs.status.index(Status.CRASHED)])
    assert runs.space["lr"] == ForeignParameter(1e-4, 0.1, log=True)
    assert runs.space["optimizer"].choices == ("adam", "sgd")
    assert len(set(runs.origins)) == 8
    with pytest.raises(UsageError, match="expected one of val_accuracy"):
        read_source(str(FOREIGN / "keras_tuner"), metric="val_loss")


def test_trials_of_hyperband_with_fewer_epochs_and_unended_ones_are_left_out(tmp_path):
    shutil.copytree(FOREIGN / "keras_tuner", tmp_path / "k")
    for number, path in enumerate(sorted(tmp_path.glob("k/digits/trial_*/trial.json"))):
        trial = json.loads(path.read_text())
        trial["hyperparameters"]["values"]["tuner/epochs"] = 2 if number < 3 else 6
        trial["status"] = "RUNNING" if number == 7 else "COMPLETED"
        trial["metrics"] = {"metrics": {"val_loss": {"direction": "min", "observations": [{"value": [0.4, 0.6], "step": 1}]}}}  # fmt: skip
        path.write_text(json.dumps(trial))
    runs, _ = read_source(str(tmp_path / "k"))
    assert list(runs.values) == [0.5] * 4, "the mean of two executions"
    assert runs.left_out == {"trained for fewer than 6 epochs": 3, "running": 1}
    assert set(runs.params["epochs"]) == {6}
    assert runs.maximised is None, "a loss has no best and no worst value"


def test_an_experiment_of_syne_tune():
    runs, _ = read_source(str(FOREIGN / "syne_tune"))
    assert (len(runs), runs.maximised) == (5, True)
    assert runs.values == pytest.approx([0.8 + rate for rate in runs.params["lr"]])
    assert [step for step, _ in runs.curves[0]] == [1, 2, 3]
    assert runs.curves[0][0][1] == pytest.approx(runs.values[0] - 0.2)
    assert all(isinstance(size, int) and size <= 60 for size in runs.params["batch_size"])
    assert runs.left_out == {"ended before the longest: stopped or still running": 1}
    assert runs.durations[0] == pytest.approx(0.6, abs=0.1)
    with pytest.raises(UsageError, match=r"expected one of epoch, val_acc.* got 'acc'"):
        read_source(str(FOREIGN / "syne_tune"), metric="acc")


def test_reports_that_are_no_archive(tmp_path):
    shutil.copytree(FOREIGN / "syne_tune", tmp_path / "s")
    (tmp_path / "s" / "digits" / "results.csv.zip").write_bytes(b"torn")
    with pytest.raises(DataError, match="expected the reports of Syne Tune"):
        read_source(str(tmp_path / "s"))


def test_an_experiment_of_ax():
    runs, _ = read_source(str(FOREIGN / "ax" / "experiment.json"))
    assert (len(runs), runs.maximised, runs.left_out) == (4, True, {"still running": 1})
    assert [status is Status.OK for status in runs.status] == [True, True, False, True]
    for row in (0, 1, 3):
        assert runs.values[row] == pytest.approx(0.5 + runs.params["lr"][row])
    assert runs.space["lr"] == ForeignParameter(1e-5, 0.1, log=True)
    assert runs.space["batch_size"].choices == (16, 32, 64)
    assert runs.durations[0] >= 0


def test_logs_of_tensorboard():
    runs, _ = read_source(str(FOREIGN / "tensorboard"), metric="val/acc")
    assert (len(runs), runs.maximised) == (3, True)
    assert [status is Status.OK for status in runs.status] == [True] * 3
    assert runs.values == pytest.approx([0.7, 0.71, 0.72])
    assert runs.curves[0] == ((0, pytest.approx(0.5)), (1, pytest.approx(0.6)), (2, pytest.approx(0.7)))
    assert list(runs.params["lr"]) == [0.1, 0.01, 0.001]
    assert list(runs.params["nesterov"]) == [False, True, False]
    assert set(runs.params["optimizer"]) == {"sgd"}
    assert len(set(runs.origins)) == 3


def test_settings_that_share_their_scalars_and_logs_without_settings(tmp_path):
    shutil.copytree(FOREIGN / "tensorboard" / "run0", tmp_path / "run")
    shutil.copytree(FOREIGN / "tensorboard" / "run1" / "settings", tmp_path / "run" / "second")
    with pytest.raises(UsageError, match=r"expected one of hparam/best.* got 'val/acc'"):
        read_source(str(tmp_path / "run"), metric="val/acc")  # of which of the two?
    shutil.rmtree(tmp_path / "run" / "second")
    shutil.rmtree(tmp_path / "run" / "settings")
    with pytest.raises(DataError, match="expected logs of TensorBoard with the settings"):
        read_source(str(tmp_path / "run"))
    (tmp_path / "run" / "hparams.yaml").write_text("lr: 0.5\n")  # as Lightning's TensorBoardLogger
    runs, _ = read_source(str(tmp_path / "run"))
    assert (list(runs.params["lr"]), list(runs.values)) == ([0.5], [pytest.approx(0.7)])


@pytest.mark.parametrize("content", [b"\x00" * 40, b"\x08" + b"\x00" * 11 + b"\xff" * 8 + b"\x00" * 4])
def test_events_that_are_none(tmp_path, content):
    (tmp_path / "events.out.tfevents.1.host").write_bytes(content)
    with pytest.raises(DataError, match=r"expected (events|logs) of TensorBoard"):
        read_source(str(tmp_path))
