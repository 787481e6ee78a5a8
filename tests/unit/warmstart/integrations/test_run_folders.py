"""Run folders of timm, Trainer, Lightning, MLflow and W&B: values, curves, durations, crashed runs, the same twice."""

import contextlib
import json
import math
import shutil
import sqlite3

import pytest
from run_folders import MADE, RATES, database, lightning, mlflow, table, timm, trainer, wandb_json

from warmstart.histories.import_runs import ImportRequest, import_source
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.history import History
from warmstart.history_store.records import Status
from warmstart.history_store.space import dump_space
from warmstart.integrations.importers.registry import read_source
from warmstart.integrations.importers.run_folders import read_flat_yaml
from warmstart.spaces import read_space

LAST = {
    "timm": 0.7,
    "ultralytics": 0.7,
    "trainer": 0.7,
    "lightning": 0.7,
    "mlflow": 0.75,
    "database": 0.75,
    "wandb": 0.7,
    "json": 0.7,
}


@pytest.fixture
def history(tmp_path):
    from ConfigSpace import ConfigurationSpace, Float

    space = ConfigurationSpace()
    space.add(Float("learning_rate", (1e-5, 1.0), log=True))
    path = tmp_path / "h.h5"
    History.create(path, dump_space(space)).close()
    return path


@pytest.mark.parametrize("kind", MADE)
def test_runs_are_read_with_curves_durations_and_crashes(tmp_path, kind, history):
    source = str(MADE[kind](tmp_path / "runs"))
    runs, _ = read_source(source)
    assert [status is Status.OK for status in runs.status] == [True, True, False]
    assert runs.values[0] == pytest.approx(LAST[kind])
    assert math.isnan(runs.values[2])
    assert runs.status[2] is Status.CRASHED
    assert runs.maximised
    rate = next(values for name, values in runs.params.items() if name.endswith(("lr", "lr0", "learning_rate")))
    assert list(rate) == list(RATES)
    if kind != "wandb":
        assert runs.curves[0][-1][1] == pytest.approx(LAST[kind])
        assert len(runs.curves[0]) >= 2
    if kind not in ("timm", "lightning"):
        assert runs.durations[0] == {"trainer": 12.5, "ultralytics": 7.5}.get(kind, 30.0)
    if kind in ("mlflow", "database", "json"):
        assert runs.left_out == {"running": 1}
    dataset = None if kind in ("timm", "ultralytics") else "flowers"
    tried = import_source(history, source, ImportRequest(dataset=dataset, dry_run=True))
    assert len(tried.evaluations) == 3
    import_source(history, source, ImportRequest(dataset=dataset))
    before = history.read_bytes()
    again = import_source(history, source, ImportRequest(dataset=dataset))
    assert (len(again.evaluations), again.already_there) == (0, 3)
    assert history.read_bytes() == before
    with History.open(history) as opened:
        found = sorted(opened.evaluations("flowers"), key=lambda each: -each.config["learning_rate"])
    assert found[0].error == pytest.approx(1 - LAST[kind])
    assert [each.status for each in found] == [Status.OK, Status.OK, Status.CRASHED]


def test_a_metric_is_named_and_a_dataset_given_by_path(tmp_path, history):
    source = str(timm(tmp_path / "runs"))
    with pytest.raises(UsageError, match=r"expected one of eval_loss, eval_top1, .* got 'acc'"):
        read_source(source, metric="acc")
    runs, _ = read_source(source, metric="eval_loss")
    assert runs.maximised is None, "a loss has no best and no worst value"
    (tmp_path / "photos").mkdir()
    with pytest.raises(DataError, match="expected pictures"):
        import_source(history, source, ImportRequest(dataset=str(tmp_path / "photos")))
    assert runs.datasets == ["flowers"] * 3
    assert runs.seeds == [7] * 3
    assert import_source(history, source, ImportRequest(dataset="tulips")).evaluations[0].dataset == "tulips"


def test_flat_yaml_is_read_as_yaml_reads_it(tmp_path):
    import yaml

    text = (
        "a: 1\nb: 1.5e-3\nc: null\nd:\n- 1\n- 2\ne: 'x: y'\nf: true\ng: plain words\nh: {}\ni:\n  j:\n    k: 2\nl: ''\n"
    )
    (tmp_path / "a.yaml").write_text(text)
    found = read_flat_yaml(tmp_path / "a.yaml")
    said = yaml.safe_load(text)
    assert {name: found[name] for name in "acefgl"} == {name: said[name] for name in "acefgl"}
    assert found["b"] == 0.0015  # PyYAML takes it for a text
    assert (found["d"], found["i/j/k"]) == ("[1, 2]", 2)
    long = {"lr": 0.1, "note": "some words " * 20 + "end", "z": 1, "odd": "a\u2028b", "w": "'quoted' " * 20}
    for more in ({}, {"width": 40}, {"allow_unicode": True}):
        (tmp_path / "a.yaml").write_text(yaml.safe_dump(long, **more))
        assert read_flat_yaml(tmp_path / "a.yaml") == long
    (tmp_path / "a.yaml").write_text("a: [1\n")
    with pytest.raises(DataError, match="expected settings of a run as YAML"):
        read_flat_yaml(tmp_path / "a.yaml")


def test_entries_that_are_none_are_told_or_passed_over(tmp_path):
    from warmstart.integrations.importers.run_folders import to_number

    source = wandb_json(tmp_path / "wandb")
    runs = json.loads(source.read_text())
    source.write_text(json.dumps([{**run, "config": "lr = 0.1"} for run in runs]))
    with pytest.raises(DataError, match=r"runs\.json: expected .*, got 'lr = 0\.1' in place of a mapping"):
        read_source(str(source))
    source = trainer(tmp_path / "trainer")
    for path in source.rglob("trainer_state.json"):
        state = json.loads(path.read_text())
        path.write_text(json.dumps({**state, "log_history": [None, 3, *state["log_history"]]}))
    assert read_source(str(source))[0].values[0] == 0.7
    assert math.isnan(to_number(10**400))


def test_the_last_value_of_mlflow_counts_and_infinity_is_a_crash(tmp_path):
    from warmstart.integrations.importers import mlflow_runs

    folder = tmp_path / "run"
    for part in ("params", "metrics"):
        (folder / part).mkdir(parents=True)
    (folder / "metrics" / "val_error").write_text("1 0.9 0\n2 0.5 0\n3 0.1 0\n")
    assert mlflow_runs._file_run(folder, {}, "val_error").last == 0.1
    path = database(tmp_path)
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.execute("UPDATE metrics SET value = 1.7976931348623157e308")
    found = mlflow_runs._read_database(path, None, "val/acc")[2]
    assert not any(math.isfinite(each.last) for each in found)


def imported(path, source, space=None, **asked):
    """Import runs into a new history; return what was added."""
    space = read_space(space or {"lr": {"log": [1e-4, 1.0]}})
    History.create(path, dump_space(space)).close()
    plan = import_source(path, str(source), ImportRequest(**asked))
    with History.open(path) as opened:
        return plan, list(opened.evaluations())


def test_a_switch_that_all_runs_have_is_kept_and_told_only_where_it_has_a_place(tmp_path):
    root = timm(tmp_path / "out")
    for args in root.glob("*/args.yaml"):
        args.write_text(args.read_text() + "pretrained: true\nchannels_last: false\n")
    space = {"lr": {"log": [1e-4, 1.0]}, "pretrained": [False, True]}
    plan, runs = imported(tmp_path / "h.h5", root, space)
    assert [run.config["pretrained"] for run in runs] == [True] * 3
    assert "channels_last" not in {match.there for match in plan.matches}


def test_runs_that_reported_nothing_are_refused_not_taken_for_crashes(tmp_path):
    root = lightning(tmp_path / "logs")
    for metrics in root.glob("*/metrics.csv"):
        metrics.unlink()
    with pytest.raises(
        DataError, match=r"logs: expected runs that reported a value, such as val_acc, got none that did"
    ):
        read_source(str(root))


def test_of_a_loss_it_is_asked_what_is_best_and_worst(tmp_path):
    root = lightning(tmp_path / "logs")
    for metrics in root.glob("*/metrics.csv"):
        metrics.write_text(metrics.read_text().replace("val_acc", "val_loss"))
    with pytest.raises(UsageError, match=r"^error_range: .*val_loss does not say which values are best and worst"):
        imported(tmp_path / "h.h5", root, dataset="d")
    _, runs = imported(tmp_path / "other.h5", root, dataset="d", error_range="0,1.4")
    assert runs[0].error == pytest.approx(0.5)


def test_a_run_that_names_nothing_of_the_space_is_no_run_of_the_default(tmp_path):
    root = mlflow(tmp_path)
    for place in (root / "mlruns" / "123").glob("*/params/lr"):
        place.rename(place.with_name("notes"))
        break
    plan, runs = imported(tmp_path / "h.h5", root, dataset="d")
    assert plan.left_out["naming no hyperparameter of the space"] == 1
    assert len(runs) == 2


def test_runs_of_several_datasets_under_one_name_are_told(tmp_path):
    root = timm(tmp_path / "out")
    first = next(iter(sorted(root.glob("*/args.yaml"))))
    first.write_text(first.read_text().replace("/data/flowers", "/data/pets/train"))
    plan, _ = imported(tmp_path / "h.h5", root, dataset="flowers")
    assert plan.notes == ()
    assert {run.dataset for run in plan.evaluations} == {"flowers"}
    plan, _ = imported(tmp_path / "other.h5", root, dataset="both")
    assert plan.notes == ("all runs are taken for 'both', though their settings name flowers, pets",)


def test_the_state_of_the_whole_run_counts_before_that_of_its_last_checkpoint(tmp_path):
    root = trainer(tmp_path / "out")
    state = json.loads((root / "run-0" / "checkpoint-20" / "trainer_state.json").read_text())
    state["log_history"] += [{"step": 20, "train_runtime": 99.0}, {"step": 20, "eval_accuracy": 0.9}]
    (root / "run-0" / "trainer_state.json").write_text(json.dumps(state))
    _, runs = imported(tmp_path / "h.h5", root, dataset="d")
    assert (runs[0].error, runs[0].duration) == (pytest.approx(0.1), 99.0)


def test_what_a_state_says_itself_is_no_rival_of_what_was_searched(tmp_path):
    root = trainer(tmp_path / "out")
    for path in root.glob("*/*/trainer_state.json"):
        state = json.loads(path.read_text())
        state["trial_params"] |= {"per_device_train_batch_size": 16}
        path.write_text(json.dumps(state))
    space = {"lr": {"log": [1e-4, 1.0]}, "batch_size": {"choice": [16, 32]}}
    _, runs = imported(tmp_path / "h.h5", root, space, dataset="d")
    assert {run.config["batch_size"] for run in runs} == {16}


def test_a_link_to_a_run_is_no_second_run(tmp_path):
    root = timm(tmp_path / "out")
    (root / "latest").symlink_to(sorted(root.iterdir())[0])
    (tmp_path / "elsewhere").mkdir()
    timm(tmp_path / "elsewhere", runs=(0.5,))
    (root / "other").symlink_to(tmp_path / "elsewhere")
    assert sorted(read_source(str(root))[0].params["lr"]) == [0.001, 0.01, 0.1, 0.5]


def test_per_cent_that_were_made_fractions_are_not_divided_again(tmp_path):
    with pytest.raises(UsageError, match=r"^error_range: expected values from 0 to 1, as timm runs .* got 100,0"):
        imported(tmp_path / "h.h5", timm(tmp_path / "out"), dataset="d", error_range="100,0")


def test_a_range_that_all_values_are_better_than_is_refused(tmp_path):
    with pytest.raises(
        UsageError, match=r"^error_range: expected values that are no better than the best, 0\.1, got 0\.7"
    ):
        imported(tmp_path / "h.h5", timm(tmp_path / "out"), dataset="d", error_range="0.1,0")


@pytest.mark.parametrize("kind", ["timm", "ultralytics", "trainer", "lightning", "mlflow", "wandb"])
def test_a_run_is_the_same_wherever_its_files_lie(tmp_path, history, kind):
    source = MADE[kind](tmp_path / "runs")
    request = ImportRequest(dataset="flowers")
    assert len(import_source(history, str(source), request).evaluations) == 3
    shutil.copytree(source, tmp_path / "above" / "copy", symlinks=True)
    for path in (tmp_path / "above" / "copy", tmp_path / "above"):
        if kind != "mlflow" or path.name == "copy":
            again = import_source(history, str(path), request)
            assert (len(again.evaluations), again.already_there) == (0, 3)


def test_a_run_that_finished_without_the_metric_is_left_out(tmp_path):
    root = lightning(tmp_path / "runs")
    (root / "version_3").mkdir()
    (root / "version_3" / "hparams.yaml").write_text("lr: 0.1\n")
    (root / "version_3" / "metrics.csv").write_text("epoch,step,test_acc\n0,9,0.7\n")
    source = mlflow(tmp_path / "flow")
    (source / "mlruns" / "123" / f"{0:032x}" / "metrics" / "val" / "acc").unlink()
    for path, n_runs in ((root, 3), (source, 2)):
        runs, _ = read_source(str(path))
        assert len(runs) == n_runs
        assert runs.left_out["finished without a value of the metric"] == 1


def test_timm_derives_the_learning_rate_that_was_not_given(tmp_path):
    cases = {
        "a": ("sgd", 512, "", 0.2, 0.2),
        "b": ("adamw", 64, "", 0.05, 0.05),
        "c": ("sgd", 64, "sqrt", 0.05, 0.05),
        "d": ("sgd", 512, "", 0.8, None),  # of four processes, which the settings do not tell
    }
    for name, (optimizer, batch, scale, used, _) in cases.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "args.yaml").write_text(
            f"lr: null\nlr_base: 0.1\nlr_base_size: 256\nlr_base_scale: '{scale}'\nbatch_size: {batch}\nopt: {optimizer}\nepochs: 1\n"
        )
        table(tmp_path / "runs" / name / "summary.csv", [{"epoch": 0, "eval_top1": 50.0, "lr": used}])
    runs, _ = read_source(str(tmp_path / "runs"))
    assert list(runs.params["lr"]) == pytest.approx([rate for *_, rate in cases.values()])


@pytest.mark.parametrize(
    ("file", "content", "kind"),
    [
        ("ax.json", '{"type": "Experiment", "trials": {"0": {"arm": {}}}}', "an object of Ax that is no experiment"),
        ("results.json", '[[0, 0, 1], 9.0, {"submitted": 1.0}, {"loss": 0.1}, null]\n' * 2, "results of HpBandSter"),
        ("wandb-summary.json", '{"val_acc": 0.9, "lr": 0.1}', "summary of a run of Weights & Biases without its set"),
        ("syne/metadata.json", '{"metric_names": ["val_acc"]}', "a folder of Syne Tune without results.csv.zip"),
        ("keras/trial_0/build_config.json", "{}", "a folder of Keras Tuner without a trial"),
        ("tune.ipynb", "{}", "a notebook"),
        ("study.pkl", "", "a pickle"),
    ],
)
def test_files_of_tools_that_are_not_read_are_named(tmp_path, file, content, kind):
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content)
    source = tmp_path / file.split("/")[0]
    with pytest.raises(DataError, match=f"expected runs of a tool that is read .*got .*{kind}"):
        read_source(str(source))


@pytest.mark.parametrize(
    ("file", "value"),
    [("scenario.json", {"objectives": 5}), ("runhistory.json", {"configs": {"1": None}, "data": [[1]]})],
)
def test_values_of_any_kind_are_an_error_of_the_file(tmp_path, file, value):
    row = {"config_id": 1, "instance": None, "seed": 0, "budget": None, "cost": 0.5, "time": 1.0, "status": 1}
    (tmp_path / "runhistory.json").write_text(json.dumps({"data": [row], "configs": {"1": {"lr": 0.1}}}))
    (tmp_path / file).write_text(json.dumps(value))
    with pytest.raises(DataError, match=r"expected (runs as their tool writes them|a run history)"):
        read_source(str(tmp_path))


def test_two_values_of_one_name_and_truths_are_no_values(tmp_path):
    runs = [
        {"id": f"{n}", "state": "finished", "config": {"lr": 0.1}, "summary": {"val_error": value}}
        for n, value in enumerate([0.5, True])
    ]
    (tmp_path / "runs.json").write_text("\ufeff" + json.dumps(runs), encoding="utf-8")
    read, _ = read_source(str(tmp_path / "runs.json"))
    assert [status.value for status in read.status] == ["ok", "crashed"]
    runs[0]["config"] = {"optimizer/lr": 0.1, "optimizer": {"lr": 0.2}}
    (tmp_path / "runs.json").write_text(json.dumps(runs))
    with pytest.raises(DataError, match="two values of 'optimizer/lr'"):
        read_source(str(tmp_path / "runs.json"))
