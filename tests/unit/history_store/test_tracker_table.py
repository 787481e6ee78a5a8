"""What Weights & Biases and MLflow export."""

import math

import pytest

from warmstart.history_store.errors import UsageError
from warmstart.history_store.external_table import read_table

WANDB = """"Name","State","Notes","User","Tags","Created","Runtime","Sweep","batch_size","lr","val_error"
"able-sun-1","finished","-","me","","2026-01-02T03:04:05.000Z","61","","16","0.001","0.25"
"brisk-sea-2","crashed","-","me","","2026-01-02T04:04:05.000Z","12","","32","0.1",""
"calm-lake-3","failed","-","me","","2026-01-02T05:04:05.000Z","3","","32","0.2","0.9"
"dry-hill-4","finished","-","me","","2026-01-02T06:04:05.000Z","70","","64","0.01",""
"early-fog-5","running","-","me","","2026-01-02T07:04:05.000Z","7","","64","0.02","0.5"
"fine-day-6","killed","-","me","","2026-01-02T08:04:05.000Z","7","","64","0.03",""
"""
MLFLOW = """run_id,experiment_id,status,artifact_uri,start_time,end_time,metrics.val_error,metrics.loss,params.lr,params.batch_size,tags.mlflow.user
a1,0,FINISHED,file:///a,2026-01-02 03:04:05+00:00,2026-01-02 03:05:05+00:00,0.25,1.5,0.001,16,me
b2,0,FAILED,file:///b,2026-01-02 03:04:05+00:00,2026-01-02 03:05:05+00:00,,,0.1,32,me
c3,0,FINISHED,file:///c,2026-01-02 03:04:05+00:00,2026-01-02 03:05:05+00:00,,2.5,0.01,64,me
d4,0,RUNNING,file:///d,2026-01-02 03:04:05+00:00,,,,0.02,64,me
"""
MLFLOW_UI = """Start Time,Duration,Run ID,Name,Source Type,Source Name,User,Status,batch_size,lr,val_error
2026-01-02 03:04:05,1.5min,a1,x,LOCAL,t.py,me,FINISHED,16,0.001,0.25
2026-01-02 03:04:05,2.5s,b2,y,LOCAL,t.py,me,FAILED,32,0.1,
"""


def read(tmp_path, text, **how):
    (tmp_path / "runs.csv").write_text(text)
    return read_table(tmp_path / "runs.csv", metric="val_error", **how)[0]


def test_weights_and_biases(tmp_path):
    runs = read(tmp_path, WANDB)
    assert [status.value for status in runs.status] == ["ok", "crashed", "crashed", "crashed"]
    assert runs.values[0] == 0.25
    assert all(map(math.isnan, runs.values[1:]))
    assert runs.durations.tolist() == [61, 12, 3, 7]
    assert runs.params == {"batch_size": [16, 32, 32, 64], "lr": [0.001, 0.1, 0.2, 0.03]}
    assert runs.left_out == {"running": 1, "finished without val_error": 1}


def test_mlflow_data_frame(tmp_path):
    runs = read(tmp_path, MLFLOW)
    assert [status.value for status in runs.status] == ["ok", "crashed"]
    assert runs.params == {"lr": [0.001, 0.1], "batch_size": [16, 32]}
    assert runs.left_out == {"running": 1, "finished without metrics.val_error": 1}


def test_mlflow_button(tmp_path):
    runs = read(tmp_path, MLFLOW_UI)
    assert [status.value for status in runs.status] == ["ok", "crashed"]
    assert runs.durations.tolist() == [90, 2.5]
    assert runs.params == {"batch_size": [16, 32], "lr": [0.001, 0.1]}


def test_a_metric_that_is_not_there_is_named(tmp_path):
    (tmp_path / "runs.csv").write_text(MLFLOW)
    with pytest.raises(UsageError, match=r"metric: expected a column of .*metrics\.val_error.*, got 'accuracy'"):
        read_table(tmp_path / "runs.csv", metric="accuracy")


def test_a_wrong_cell_is_named_by_its_row_in_the_file(tmp_path):
    (tmp_path / "runs.csv").write_text(WANDB.replace('"0.01",""', '"0.01","much"'))
    with pytest.raises(ValueError, match=r"runs\.csv (row|line) 5"):
        read_table(tmp_path / "runs.csv", metric="val_error")


def test_a_data_frame_of_optuna(tmp_path):
    optuna, pandas = pytest.importorskip("optuna"), pytest.importorskip("pandas", reason="needs pandas")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial):
        trial.suggest_float("x", 0, 1)
        if trial.number == 1:
            trial.report(0.75, 1)
            raise optuna.TrialPruned
        if trial.number == 2:
            raise RuntimeError
        return 0.25

    study = optuna.create_study()
    study.optimize(objective, n_trials=4, catch=RuntimeError)
    frame: pandas.DataFrame = study.trials_dataframe()
    frame.to_csv(tmp_path / "t.csv", index=False)
    runs = read_table(tmp_path / "t.csv", metric="value")[0]
    assert [status.value for status in runs.status] == ["ok", "crashed", "ok"]
    assert runs.left_out == {"pruned": 1}
    assert runs.durations.tolist() == pytest.approx([study.trials[n].duration.total_seconds() for n in (0, 2, 3)])
