"""`history import` of other tools' runs, end to end."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import optuna
import pandas as pd
import pytest

from warmstart.history_store.history import History


@pytest.fixture
def copy(tiny, tmp_path):
    return shutil.copy(tiny.history, tmp_path / "copy.h5")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of accuracies over a space that is half the history's."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = tmp_path_factory.mktemp("optuna") / "study.db"
    made = optuna.create_study(
        storage=f"sqlite:///{path}",
        study_name="cnn",
        direction="maximize",
        sampler=optuna.samplers.RandomSampler(seed=0),
    )

    def objective(trial):
        trial.suggest_float("lr", 1e-6, 1e-1, log=True)
        trial.suggest_categorical("batch_size", [8, 16, 32, 64])
        trial.suggest_float("momentum", 0.0, 0.99)
        if trial.number == 3:
            raise RuntimeError
        return 0.5 + trial.number / 100

    made.optimize(objective, n_trials=10, catch=(RuntimeError,))
    return path


def test_an_optuna_study(cli, copy, study):
    call = ["history", "import", copy, study, "--dataset", "stripes0", "--fill", "dropout_rate=0.25"]
    call += ["--format", "json"]
    before = Path(copy).read_bytes()
    asked = cli(*call, "--dry-run")
    assert asked.code == 0, asked.err
    assert Path(copy).read_bytes() == before
    done = cli(*call).json()
    assert asked.json() == done | {"dry_run": True}
    assert (done["imported"], done["n_evaluations"], done["already_there"]) == (10, 58, 0)
    assert {match["here"] or match["there"]: match["action"] for match in done["mapping"]} == {
        "batch_size": "clipped",
        "dropout_rate": "filled",
        "log10_decay_rate": "filled",
        "log10_learning_rate": "clipped",
        "num_layers_conv": "filled",
        "num_layers_fc": "filled",
        "momentum": "dropped",
    }
    trials = optuna.load_study(study_name="cnn", storage=f"sqlite:///{study}").trials
    with History.open(copy) as history:
        runs = [run for run in history.evaluations("stripes0") if run.origin == "import/optuna/cnn"]
    assert len(runs) == 10
    for run, trial in zip(runs, trials, strict=True):
        assert 10 ** run.config["log10_learning_rate"] == pytest.approx(max(trial.params["lr"], 1e-5))
        assert run.config["batch_size"] == min(trial.params["batch_size"], 32)
        assert run.config["dropout_rate"] == 0.25
        assert run.status == ("crashed" if trial.number == 3 else "ok")
        assert trial.number == 3 or run.error == pytest.approx(0.5 - trial.number / 100)
    again = cli(*call).json()
    assert (again["imported"], again["n_evaluations"], again["already_there"]) == (0, 58, 10)


def test_a_table_of_another_space(cli, copy, tmp_path):
    frame = pd.DataFrame({"params_lr": [1e-3, 1e-2], "params_BatchSize": [8, 64], "value": [97.0, 95.5], "state": ["COMPLETE"] * 2})  # fmt: skip
    frame.to_csv(tmp_path / "trials.csv", index=False)
    call = ["history", "import", copy, tmp_path / "trials.csv", "--dataset", "stripes1", "--format", "json"]
    assert "expected a column 'error' or 'status'" in cli(*call).err
    assert "does not say which values are best and worst" in cli(*call, "--metric", "value").err
    named = frame.rename(columns={"value": "val_acc"})
    named.to_csv(tmp_path / "percent.csv", index=False)
    named.assign(val_acc=[0.97, 0.955]).to_csv(tmp_path / "fraction.csv", index=False)
    by_name = ["history", "import", copy, "--dataset", "stripes1", "--dry-run", "--metric", "val_acc"]
    assert "expected accuracies in [0, 1], got values from 95.5 to 97" in cli(*by_name, tmp_path / "percent.csv").err
    assert "1 is error 0, 0 is error 1" in cli(*by_name, tmp_path / "fraction.csv").out
    done = cli(*call, "--metric", "value", "--error-range", "100,0").json()
    assert done["imported"] == 2
    with History.open(copy) as history:
        runs = history.evaluations("stripes1")[-2:]
    assert [run.error for run in runs] == pytest.approx([0.03, 0.045])
    assert [run.config["batch_size"] for run in runs] == [8, 32]


def test_an_export_of_another_space(cli, copy, tmp_path):
    """A history of the paper's space, whose batches are larger, brought into one of the compact space."""
    other = tmp_path / "paper.h5"
    assert cli("history", "create", other, "--space", "paper", "--configs", 4).code == 0
    with History.open(other, write=True) as history:
        from warmstart.history_store.records import DatasetInfo, Evaluation

        history.add_dataset(DatasetInfo("letters", "alphabet", 5, 0, 0, 2))
        history.extend(Evaluation("letters", config, 0.25, seed=1, origin="lab") for config in history.configs)
    runs = tmp_path / "runs.parquet"
    assert cli("history", "export", other, runs).code == 0
    refused = cli("history", "import", copy, runs)
    assert (refused.code, "of which none fits" in refused.err) == (3, True)
    done = cli("history", "import", copy, runs, "--fill", "batch_size=16", "--format", "json").json()
    (batch,) = [match for match in done["mapping"] if match["here"] == "batch_size"]
    assert (done["imported"], done["new_datasets"]) == (4, ["letters"])
    assert (batch["there"], batch["action"], batch["filled"]) == (None, "filled", 4)
    (dropped,) = [match for match in done["mapping"] if match["there"] == "batch_size"]
    assert dropped["reason"].endswith("0% of the values lie in 8 .. 32 as x")
    with History.open(copy) as history:
        assert history.dataset("letters").group == "alphabet"
        assert {run.origin for run in history.evaluations("letters")} == {"lab"}


FOREIGN = Path(__file__).parents[1] / "foreign"


@pytest.mark.parametrize(
    ("source", "options", "imported", "renamed"),
    [
        ("smac", ["-d", "stripes2"], 16, "learning_rate"),
        ("smac/runhistory.json", ["-d", "stripes2", "--outside", "drop"], 4, "learning_rate"),
        ("ray", ["-d", "stripes2", "--metric", "accuracy", "--error-range", "1,0"], 7, "optimizer/lr"),
    ],
)
def test_runs_of_smac_and_ray(cli, copy, source, options, imported, renamed):
    done = cli("history", "import", copy, FOREIGN / source, *options, "--format", "json")
    assert done.code == 0, done.err
    assert done.json()["imported"] == imported
    (match,) = [match for match in done.json()["mapping"] if match["here"] == "log10_learning_rate"]
    assert (match["there"], match["action"]) == (renamed, "rescaled")
    assert cli("history", "verify", copy, "--format", "json").json()["ok"] is True


def test_tables_of_hpob(cli, copy, tmp_path):
    table = {
        "77": {"3": {"X": [[0.1, 0.5], [0.9, 0.25]], "y": [[0.75], [0.5]]}, "9": {"X": [[0.5, 0.5]], "y": [[1.0]]}}
    }
    (tmp_path / "meta-test-dataset.json").write_text(json.dumps(table))
    call = ["history", "import", copy, tmp_path / "meta-test-dataset.json", "--format", "json"]
    assert "Say which is which with --rename" in cli(*call).err
    done = cli(*call, "--rename", "x1=dropout_rate").json()
    assert (done["imported"], done["new_datasets"]) == (3, ["hpob-3", "hpob-9"])
    with History.open(copy) as history:
        assert [(run.error, run.config["dropout_rate"]) for run in history.evaluations("hpob-3")] == [
            (0.25, 0.5),
            (0.5, 0.25),
        ]


def test_a_dataset_and_its_runs_in_one_call(cli, copy, study, photos, tiny):
    call = ["history", "add", copy, "--dataset", photos, "--name", "mine", "--group", "home", "--runs", study]
    before = Path(copy).read_bytes()
    refused = cli(*call, "--metric", "loss")
    assert refused.code == 2
    assert Path(copy).read_bytes() == before
    added = cli(*call, "--format", "json")
    assert added.code == 0, added.err
    assert (added.json()["dataset"]["n_train"], added.json()["runs"]["imported"]) == (24, 10)
    assert "momentum -> -: dropped" in added.err
    asked = ["suggest", "--dataset", photos, "--history", copy, "--model", tiny.model, "-k", 1, "--strategy", "nearest"]
    found = cli(*asked, "--no-cache", "--format", "json").json()
    assert found["neighbours"][0]["name"] == "mine"
    assert found["suggestions"][0]["from"] == "mine"
    assert found["suggestions"][0]["source_error"] == pytest.approx(1 - 0.59)


def test_runs_that_name_their_dataset_are_not_added_with_another(cli, copy, photos, tmp_path):
    (tmp_path / "runs.csv").write_text("dataset,batch_size,lr,dropout,error\ndigits,8,0.01,0.5,0.25\n")
    call = ["history", "add", copy, "--dataset", photos, "--name", "mine", "--group", "home"]
    before = Path(copy).read_bytes()
    refused = cli(*call, "--runs", tmp_path / "runs.csv")
    assert refused.code == 2
    assert re.match(r"error: --runs: expected runs that name no dataset, .*'mine', got .*names digits\.", refused.err)
    assert Path(copy).read_bytes() == before


def test_no_history_and_no_source(cli, copy, study, tmp_path):
    run = cli("history", "import", tmp_path / "no.h5", study, "-d", "x")
    assert run.code == 2
    assert "warmstart history create" in run.err
    for source, code in ((tmp_path / "no.db", 2), (tmp_path, 3), ("postgresql+nothing://localhost/x", 4)):
        assert cli("history", "import", copy, source, "-d", "x").code == code
    assert cli("history", "import", copy, tmp_path / "no.csv", "-d", "x").code == 2
