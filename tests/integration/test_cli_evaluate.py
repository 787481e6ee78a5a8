"""`evaluate` end to end: on the tiny history, on tables, in every format."""

import csv
import io
import json
import shutil

import numpy as np
import pytest

from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet

STATIC = "random,portfolio,nearest-learned,nearest-handcrafted,nearest-random-network,joint,oracle-nearest"


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "made.npz",
        errors=rng.random((6, 12)),
        dataset_names=np.array([f"d{i}" for i in range(6)]),
        groups=np.array(list("aabcde")),
        X=rng.random((12, 2)),
        meta_features=rng.random((6, 3)),
    )
    return tmp_path / "made.npz"


def test_a_history_is_evaluated_and_a_second_run_uses_its_models(cli, tiny, tmp_path):
    call = ["evaluate", "--history", tiny.history, "--models", tmp_path / "models", "--folds", 3, "--steps", 2]
    call += ["--rivals", STATIC, "--format", "json"]
    run = cli(*call, "--out", tmp_path / "report.json")
    assert run.code == 0, run.err
    report = run.json()
    assert json.loads((tmp_path / "report.json").read_text()) == report
    assert (report["protocol"], report["n_datasets"], report["n_groups"], report["n_configs"]) == ("leave-source-out", 6, 3, 8)  # fmt: skip
    assert report["horizon"] == 8  # no more than there are configurations
    assert set(report["rivals"]) == set(STATIC.split(","))
    assert set(report["distances"]) == {"learned", "handcrafted", "random network"}
    assert report["ours"] == "joint"
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "models").iterdir()}
    assert sum(name.endswith(".safetensors") for name in kept) == 6  # three, and three without two parts
    again = cli(*call).json()
    assert again == report
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "models").iterdir()} == kept


def test_a_calibrated_history_makes_suggest_promise_a_regret(cli, tiny, photos, tmp_path):
    copy = shutil.copy(tiny.history, tmp_path / "copy.h5")
    call = ["evaluate", "--history", copy, "--model", tiny.model, "--models", tmp_path / "models", "--folds", 3]
    call += ["--steps", 2, "--rivals", "joint,portfolio", "--calibrate", "--format", "json"]
    run = cli(*call)
    assert run.code == 0, run.err
    assert "Calibrated" in run.err
    report = run.json()
    assert report["calibration"]["groups"] == 3
    ask = ["suggest", "--dataset", photos, "--history", copy, "--model", tiny.model, "--format", "json"]
    regrets = [one["expected_regret"] for one in cli(*ask).json()["suggestions"]]
    assert all(0 <= regret <= 1 for regret in regrets)
    assert regrets == sorted(regrets, reverse=True)
    assert cli("history", "verify", copy).code == 0


def test_the_recipe_of_a_model_is_trained_anew(cli, tiny, tmp_path):
    copy, own = shutil.copy(tiny.history, tmp_path / "copy.h5"), tmp_path / "own.safetensors"
    assert cli("fit-similarity", "--history", copy, "--out", own, "--steps", 2, "--extractor", "adf-mix").code == 0
    call = ["evaluate", "--history", copy, "--folds", 2, "--rivals", "nearest-learned", "--format", "json"]
    by_model = cli(*call, "--model", own, "--models", tmp_path / "a")
    assert by_model.code == 0, by_model.err
    by_options = cli(*call, "--extractor", "adf-mix", "--steps", 2, "--models", tmp_path / "b").json()
    assert by_model.json()["rivals"] == by_options["rivals"]


def test_a_table_is_replayed_for_people_and_programs(cli, table):
    call = ["evaluate", "--table", table, "--horizon", 5, "--repeats", 1, "--surrogate", "gp-map"]
    shown = cli(*call)
    assert shown.code == 0, shown.err
    assert "made, leave-source-out: 6 datasets in 5 groups, 12 configurations" in shown.out
    assert "cold-gp" in shown.out
    assert "is worse than the portfolio on" in shown.out
    rows = list(csv.DictReader(io.StringIO(cli(*call, "--format", "csv", "--rivals", "random,portfolio").out)))
    assert [row["rival"] for row in rows] == ["random", "portfolio"]
    assert 0 <= float(rows[0]["regret@3 mean"]) <= 1
    two = cli("evaluate", "--table", table, "--table", table, "--rivals", "random", "--format", "json").json()
    assert two["schema_version"] == 1
    assert [one["table"] for one in two["reports"]] == ["made", "made"]
    only = cli(*call, "--only", "d3", "--rivals", "portfolio,arbitrary", "--format", "json").json()
    assert only["datasets"] == ["d3"]


@pytest.mark.parametrize(
    ("more", "code", "match"),
    [
        (["--rivals", "magic"], 2, "--methods: expected names among"),
        (["--reference", "magic"], 2, "--reference: expected a method of the evaluation"),
        (["--only", "nobody"], 2, "--only: expected datasets"),
        (["--surrogate", "magic", "--rivals", "cold-gp"], 2, "expected surrogate among"),
        (["--out", "no/such/report.json"], 2, "--out: expected a place in a folder that exists"),
        (["--out", __file__], 2, "--out: expected a new file, or a JSON report to replace"),
        (["--plots", "no/such"], 2, "--plots: expected a place in a folder that exists"),
        (["--table", "none.npz"], 2, "expected an npz file with a table of errors, got nothing there"),
        (["--table", __file__], 3, "got a file that cannot be read as one"),
    ],
)
def test_wrong_calls_are_told(cli, table, more, code, match):
    run = cli("evaluate", "--table", table, "--rivals", "random", *more, "--format", "json")
    assert run.code == code
    assert match in json.loads(run.err)["error"]["message"]


@pytest.fixture
def mine(tiny, photos, tmp_path):
    """A history of one's own: a dataset with runs of five of the tiny history's configurations and of another."""
    from warmstart.api import suggest
    from warmstart.history_store.records import Evaluation, Status

    file = tmp_path / "mine.h5"
    with History.open(tiny.history) as known:
        configs, space = list(known.configs), known.space_json
    with History.create(file, space, stored_size=16):
        pass
    asked = [dict(one.config) for one in suggest(photos, k=3, history=tiny.history, model=tiny.model)]
    others = [config for config in configs if config not in asked][:2]
    runs = [*asked[:2], *others, {**configs[0], "dropout_rate": 0.123}]
    return (
        file,
        runs,
        [
            Evaluation(
                dataset="photos", config=config, error=0.1 * (number + 1), status=Status.OK, duration=1.0, seed=number
            )
            for number, config in enumerate(runs)
        ],
    )


def test_a_dataset_of_ones_own_is_asked_about_by_what_was_measured(cli, tiny, photos, mine, use_tiny):
    file, runs, evaluations = mine
    assert cli("history", "add", file, "--dataset", photos, "--name", "photos", "--group", "mine").code == 0
    with History.open(file, write=True) as history:
        history.extend(evaluations)
    call = ["evaluate", "--query", f"{file}::photos", "--format", "json"]
    run = cli(*call)
    assert run.code == 0, run.err
    report = run.json()
    assert (report["history"], report["model"]) == (str(tiny.history), str(tiny.model))
    assert (report["n_datasets"], report["n_configs"], report["horizon"]) == (
        1,
        4,
        4,
    )  # the configuration that nobody else has says nothing
    assert {"random", "portfolio", "average-rank", "nearest-learned", "joint"} <= set(report["rivals"])
    assert report["rivals"]["joint"]["per_dataset"][0][-1] == 0.0
    (query,) = report["queries"]
    assert (query["measured"], query["best_error"]) == (4, 0.1)
    assert [one["error"] for one in query["suggested"]] == [0.1, 0.2, None]
    assert [one["rank"] for one in query["suggested"]] == [1, 2, None]
    assert [one["config"] for one in query["suggested"][:2]] == runs[:2]
    assert cli(*call).json() == report
    table = cli("evaluate", "--query", f"{file}::photos")
    said = " ".join(table.out.split())
    assert "leave-source-out: 1 datasets in 1 groups, 4 configurations" in said
    assert "suggestions 1 to 3 reached 0.100 (place 1), 0.200 (place 2), not measured of 4 measured, best 0.100. Measure what is suggested: `suggest --format json`, then `history collect --first`" in said  # fmt: skip


@pytest.mark.parametrize(("option", "value"), [("folds", 3), ("extractor", "adf")])
def test_an_option_of_models_says_nothing_beside_a_table(cli, table, option, value):
    run = cli("evaluate", "--table", table, f"--{option}", value)
    assert run.code == 2
    assert f"--{option} cannot be used with --table, for which no model is trained" in run.err


def test_queries_are_checked(cli, photos, mine, table, use_tiny):
    file, _, _ = mine
    assert cli("history", "add", file, "--dataset", photos, "--name", "photos", "--group", "mine").code == 0
    for call, code, match in [
        (["--query", "nobody"], 2, "expected FILE.h5::NAME, or a dataset of"),
        (["--query", f"{file}::nobody"], 2, "expected a dataset of"),
        (["--query", f"{file}::photos"], 3, "expected runs of configurations that"),
        (["--query", "stripes0", "--table", table], 2, "--query cannot be used with --table."),
        (["--query", "nowhere.h5::photos"], 2, "nowhere.h5"),
    ]:
        run = cli("evaluate", *call)
        assert run.code == code, run.err
        assert match in run.err


def test_where_nothing_suggested_was_measured_the_next_step_is_named():
    from warmstart.models.query_evaluation import query_lines

    none = {"config": {}, "error": None, "rank": None}
    (line,) = query_lines([{"dataset": "h.h5::d", "measured": 6, "best_error": 0.1, "suggested": [none] * 3}])
    assert line == (
        "h.h5::d: none of suggestions 1 to 3 is among the 6 configurations that both have measured, best 0.100. "
        "Measure what is suggested: `suggest --format json`, then `history collect --first`"
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("protocol", "in-source"),
        ("only", "stripes1"),
        ("folds", 3),
        ("models", "here"),
        ("surrogate", "gp-map"),
        ("extractor", "adf"),
        ("target", "rank"),
        ("steps", 3),
        ("preset", "paper"),
        ("workers", 2),
    ],
)
def test_an_option_that_says_nothing_beside_a_query_is_refused(cli, tiny, use_tiny, option, value):
    run = cli("evaluate", "--query", tiny.names[0], f"--{option}", value)
    assert run.code == 2
    assert f"--{option} cannot be used with --query" in run.err


def test_a_calibration_needs_a_history_its_model_and_all_datasets(cli, tiny, tmp_path):
    run = cli("evaluate", "--history", tiny.history, "--rivals", "portfolio", "--calibrate")
    assert run.code == 2
    assert "--calibrate needs --history and --model." in run.err
    copy = shutil.copy(tiny.history, tmp_path / "copy.h5")
    run = cli("evaluate", "--history", copy, "--model", tiny.model, "--rivals", "portfolio", "--calibrate")
    assert run.code == 2
    assert "expected learned distances of all datasets" in run.err


def test_two_groups_are_too_few_to_calibrate_and_that_is_told_at_once(cli, tiny, tmp_path, monkeypatch):
    from warmstart.training.evaluation import fold_models

    two = tmp_path / "two.h5"
    with (
        History.open(tiny.history) as known,
        History.create(two, known.space_json, stored_size=known.stored_size) as own,
    ):
        for name in tiny.names[:4]:
            stored = known.images(name)
            images = ImageSet(np.asarray(stored.array), stored.labels, stored.class_names)
            own.add_dataset(known.dataset(name), images, stored.split)
        own.extend([each for each in known.evaluations() if each.dataset in tiny.names[:4]])
    monkeypatch.setattr(fold_models, "FoldModels", None)
    run = cli("evaluate", "--history", two, "--model", tiny.model, "--calibrate")
    assert run.code == 2
    said = "--calibrate: expected at least three groups of datasets with images and runs"
    assert said in run.err
    assert "got 2: group0, group1." in run.err
