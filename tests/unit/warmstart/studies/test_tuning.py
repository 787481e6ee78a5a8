"""`warmstart.tune`: from a dataset or an objective to the best configuration."""

import json
import shutil
from pathlib import Path

import pytest
from ConfigSpace import ConfigurationSpace, ForbiddenAndConjunction, ForbiddenEqualsClause
from objectives import (
    bowl,
    fail,
    fail_but_once,
    fail_for_many_reasons,
    none,
    own_names,
    rate,
    remove_folder,
    slow,
    speak,
    total,
)

import warmstart
from warmstart.history_store.errors import (
    AllTrialsFailedError,
    DataError,
    MissingPathError,
    UsageError,
)
from warmstart.history_store.history import History
from warmstart.history_store.wording import counted
from warmstart.studies.tune_options import memory_bytes

SPACE = ConfigurationSpace({"x": (-1.0, 1.0), "y": (-1.0, 1.0)})


@pytest.fixture(autouse=True)
def _folder(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "processes" not in request.fixturenames:
        request.getfixturevalue("functions_here")


@pytest.fixture
def processes():
    """Run trials in processes of their own, as users do."""


@pytest.fixture
def own(tiny, tmp_path, monkeypatch):
    """Return a copy of the tiny history to write into."""
    shutil.copy(tiny.history, tmp_path / "own.h5")
    monkeypatch.setenv("WARMSTART_MODEL", str(tiny.model))
    return tmp_path / "own.h5"


def tune(**changes):
    settings = {"objective": bowl, "space": SPACE, "surrogate": "gp-map", "trials": 5, "study": "s"}
    return warmstart.tune(**settings | changes)


def test_a_study_goes_on_and_then_is_done(tmp_path):
    told = []
    first = tune(progress=told.append)
    assert [trial.number for trial in first.trials] == list(range(5))
    assert first.best.error == min(trial.error for trial in first.trials)
    assert (first.study, first.storage, first.counts) == ("s", str(tmp_path / "warmstart-studies.db"), {"ok": 5})
    ended = [now for now in told if now.latest]
    assert [now.done for now in (told[0], *ended)] == [0, 1, 2, 3, 4, 5]
    assert [trial.number for now in told for trial in now.running if now.done == trial.number]  # those under way
    assert {len(now.running) for now in told if not now.latest} <= {0, 1}
    assert told[-1].best == first.best
    assert ended[2].left_s > 0
    assert [len(now.latest) for now in ended] == [1, 1, 1, 1, 1]
    more = tune(trials=7)
    assert more.trials[:5] == first.trials
    assert tune(trials=7, workers=3).trials == more.trials
    assert first.trials[0].curve == ((1.0, 1.0),)


def test_a_finite_space_ends_the_study_early():
    space = ConfigurationSpace({"x": [0, 1, 2], "y": (1, 2)})
    space.add(ForbiddenAndConjunction(ForbiddenEqualsClause(space["x"], 2), ForbiddenEqualsClause(space["y"], 1)))
    told = []
    found = tune(objective=total, space=space, trials=9, on_message=told.append)
    assert sorted((trial.config["x"], trial.config["y"]) for trial in found.trials) == [
        (0, 1), (0, 2), (1, 1), (1, 2), (2, 2),
    ]  # fmt: skip
    assert (found.exhausted, found.to_dict()["exhausted"]) == (True, True)
    assert told == ["s: every configuration of the space has had its trial: the study ends after 5."]
    assert tune(objective=total, space=space, trials=5).exhausted  # all that was asked for


def test_the_document_is_plain_json():
    document = json.loads(json.dumps(tune(trials=2, budget=2.0).to_dict(), allow_nan=False))
    assert set(document) == {
        "schema_version", "study", "storage", "dataset", "best", "trials", "exhausted", "warm", "related",
        "comparison", "metric", "report", "saved_model", "seconds", "expected_error", "expectation", "tracked",
    }  # fmt: skip
    assert document["trials"] == {"ok": 2}
    assert set(document["best"]) == {"config", "natural", "error", "value", "trial"}
    assert document["best"]["error"] > 2
    assert document["comparison"]["verdict"] == "unknown"


def test_warm_configurations_of_the_history_come_first(use_tiny, tiny):
    dataset = f"{tiny.history}::stripes0"
    asked = warmstart.suggest(dataset, k=2, seed=4)
    found = tune(objective=rate, space=None, dataset=dataset, k=2, seed=4, trials=3)
    assert [trial.config for trial in found.trials[:2]] == [design.config for design in asked]
    assert [warm.source for warm in found.warm] == [design.source for design in asked]
    cold = tune(objective=rate, space=None, dataset=dataset, warm="none", seed=4, trials=2, study="cold")
    assert cold.warm == ()
    assert cold.trials[0].config not in [design.config for design in asked]


def test_how_warm_configurations_count(use_tiny, tiny, monkeypatch):
    from warmstart.bo.optimizer import Optimizer

    asked = []
    monkeypatch.setattr(Optimizer, "_promising", lambda self, rng: asked.append(len(self._log.observations)) or None)
    settings = {"objective": rate, "space": None, "dataset": f"{tiny.history}::stripes0"}
    tune(**settings, k=2, n_startup_trials=4, warm="extra", trials=6)
    assert asked == []
    tune(**settings, k=2, n_startup_trials=4, warm="extra", trials=7)
    assert asked == [6]


def test_a_space_of_ones_own_begins_warm(use_tiny, tiny):
    space = {"lr": {"log": [1e-5, 0.1]}, "batch_size": {"choice": [16, 32]}, "model": ["a", "b", "c"]}
    dataset, told = f"{tiny.history}::stripes0", list[str]()
    settings = {"objective": own_names, "space": space, "dataset": dataset, "k": 3, "on_message": told.append}
    found = tune(**settings, trials=4, report=True)
    asked = warmstart.suggest(dataset, k=3, space=space)
    assert [trial.config for trial in found.trials[:3]] == [design.config for design in asked]
    assert {trial.config["model"] for trial in found.trials[:3]} == {"a", "b", "c"}
    assert [(warm.measured, warm.source_error) for warm in found.warm] == [(False, None)] * 3
    assert found.to_dict()["warm"][0]["not_measured"] == asked[0].to_dict()["not_measured"]
    assert any(line.startswith("Known from the history: batch_size") for line in told)
    assert "not measured" in Path(found.report).read_text()
    told.clear()
    assert [trial.config for trial in tune(**settings, trials=5).trials[:4]] == [t.config for t in found.trials]
    with pytest.raises(UsageError, match=r"got another `rename` learning_rate=lr"):
        tune(**settings, trials=5, rename={"learning_rate": "lr"})


def test_a_space_of_which_nothing_is_known_begins_cold(use_tiny, tiny, caplog):
    found = tune(objective=bowl, dataset=f"{tiny.history}::stripes0", trials=1)
    assert found.warm == ()
    [line] = [record.message for record in caplog.records if "space" in record.message]
    assert line == "The history knows nothing about your space: the first configurations fill it evenly (Sobol)."


def test_configurations_to_begin_with(use_tiny, tiny, tmp_path):
    """No dataset and no history is needed; a file, configurations and suggestions say the same."""
    space = {"lr": {"log": [1e-5, 0.1]}, "batch_size": {"choice": [16, 32]}, "model": ["a", "b"]}
    configs = [{"log10_learning_rate": -3.0, "bs": 22}, {"lr": 0.05, "batch_size": 32, "model": "b", "depth": 3}]
    (tmp_path / "start.json").write_text(json.dumps(configs))
    told = list[str]()
    settings = {"objective": own_names, "space": space, "on_message": told.append}
    found = tune(**settings, initial=tmp_path / "start.json", trials=3, report=True)
    expected = [{"batch_size": 16, "lr": 1e-3, "model": "a"}, {"batch_size": 32, "lr": 0.05, "model": "b"}]
    assert [trial.config for trial in found.trials[:2]] == expected
    assert told == [
        "Moved to the nearest value that your space allows: batch_size.",
        "Not given, so varied over the initial configurations: model.",
        "Not in your space: depth.",
    ]
    assert "Given; they count as `--warm design`." in Path(found.report).read_text()
    again = tune(**settings, initial=configs, trials=4)
    assert [trial.config for trial in again.trials[:3]] == [trial.config for trial in found.trials]
    with pytest.raises(UsageError, match=r"got another `initial` 1 configurations"):
        tune(**settings, initial=configs[:1], trials=4)
    designs = warmstart.suggest(f"{tiny.history}::stripes0", k=2, space=space)
    warm = tune(**settings, initial=designs, trials=2, study="other")
    assert [trial.config for trial in warm.trials] == [design.config for design in designs]


def test_the_runs_go_to_the_history_once(own):
    settings = {"objective": rate, "space": None, "dataset": f"{own}::stripes0", "history": own, "seed": 2}
    told = []
    found = tune(**settings, trials=6, record="stripes0", on_message=told.append)
    fitting = [trial for trial in found.trials if trial.error <= 1]
    assert 0 < len(fitting) < 6
    with History.open(own) as history:
        added = [e for e in history.evaluations("stripes0") if e.origin.startswith("tune/")]
    assert [(e.config, e.error, e.seed) for e in added] == [(t.config, t.error, t.seed) for t in fitting]
    assert added[0].origin == "tune/objectives:rate"
    assert told[0].startswith("The history is small")
    assert told[1:] == [
        f"{own}: {len(fitting)} evaluations of 'stripes0' added; {counted(6 - len(fitting), 'trial')} pruned or with an error outside [0, 1], left out."
    ]
    tune(**settings, trials=6, record="stripes0", on_message=told.append)
    assert "0 evaluations of 'stripes0' added" in told[-1]
    with History.open(own) as history:
        assert len([e for e in history.evaluations("stripes0") if e.origin.startswith("tune/")]) == len(fitting)


def test_a_new_dataset_is_added_with_its_runs(own, tiny, tmp_path):
    shutil.copy(tiny.history, tmp_path / "other.h5")
    dataset = f"{tmp_path}/other.h5::stripes1"
    found = tune(objective=rate, space=None, dataset=dataset, history=own, trials=2, record="mine")
    with History.open(own) as history:
        assert history.dataset("mine").group == "mine"
        assert len(history.evaluations("mine")) == sum(trial.error <= 1 for trial in found.trials)
    with pytest.raises(DataError, match="expected the images that it knows by this name"):
        tune(objective=rate, space=None, dataset=dataset, history=own, record="stripes2", progress=pytest.fail)


def test_the_shipped_history_is_not_written(monkeypatch, own, tmp_path):
    shutil.copy(own, tmp_path / "history.h5")
    monkeypatch.setattr("warmstart.locations._DEFAULTS", tmp_path)
    with pytest.raises(
        UsageError,
        match=r"record: expected a history of your own, got the shipped one.*history create grown.h5 --from-default",
    ):
        tune(objective=rate, space=None, dataset=f"{own}::stripes0", history=own, record="a")


def test_the_report_says_it_all(use_tiny, tiny, tmp_path):
    found = tune(objective=rate, space=None, dataset=f"{tiny.history}::stripes0", k=2, trials=3, report=True)
    assert found.report == str(tmp_path / "warmstart-studies-reports" / "s" / "report.md")
    document = json.loads(Path(found.report).with_suffix(".json").read_text())
    assert document["best"]["trial"] == found.best.number
    assert document["settings"]["surrogate"] == "gp-map"
    assert document["settings"]["history"]["path"] == str(tiny.history)
    assert [trial["number"] for trial in document["all"]] == [0, 1, 2]
    text = Path(found.report).read_text()
    assert text.startswith("# Study s\n")
    assert f"From `{tiny.history}`, revision" in text
    assert f"| {found.warm[0].source} |" in text


def test_a_report_that_cannot_be_written_in_the_end_loses_nothing(tmp_path):
    told = []
    (tmp_path / "there").mkdir()
    report = tmp_path / "there" / "r.md"
    settings = {"trials": 1, "report": report, "on_message": told.append}
    found = tune(objective=remove_folder, budget=None, log=tmp_path / "a.log", **settings)
    assert (len(found.trials), found.report) == (1, None)
    assert told == [f"{report}: the report could not be written (No such file or directory); the study itself is kept. The same call writes it: name another file with `report`, or correct this."]  # fmt: skip
    report.parent.mkdir()
    assert tune(objective=remove_folder, log=tmp_path / "a.log", **settings).report == str(report)


def test_a_report_that_is_cut_short_leaves_the_one_of_before(tmp_path, monkeypatch):
    report = tmp_path / "r.md"
    tune(trials=1, report=report)
    before = [report.read_bytes(), report.with_suffix(".json").read_bytes()]
    replace, moved = Path.replace, []

    def cut_short(path, place):
        if place.parent == tmp_path:
            moved.append(place.name)
            raise KeyboardInterrupt
        return replace(path, place)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", cut_short)
        with pytest.raises(KeyboardInterrupt):
            tune(trials=2, report=report)
    assert moved == ["r.json"]
    assert [report.read_bytes(), report.with_suffix(".json").read_bytes()] == before
    (tmp_path / "link.md").symlink_to(report)
    tune(trials=2, report=tmp_path / "link.md")
    assert (tmp_path / "link.md").is_symlink()
    assert "trials: 2 ok" in report.read_text()


def test_what_trials_print_is_beside_a_report_of_ones_own(tmp_path, processes):
    (tmp_path / "out").mkdir()
    for study in ("a", "b"):
        tune(objective=speak, trials=1, study=study, report=tmp_path / "out" / f"{study}.md")
    assert (tmp_path / "out" / "trials.log").read_text().splitlines() == ["== a, trial 0 ==", "a, trial 0 | spoken", "== b, trial 0 ==", "b, trial 0 | spoken"]  # fmt: skip


def test_every_trial_failed():
    with pytest.raises(AllTrialsFailedError, match=r"expected a trial that gives a result, got none of 2 \(2 crashed; the last: RuntimeError: never.*Correct the objective, and do the same again"):  # fmt: skip
        tune(objective=fail, trials=2)


def test_first_trials_that_all_fail_alike_end_the_call_and_the_same_call_goes_on():
    said = []
    for ended in (5, 10):
        with pytest.raises(AllTrialsFailedError, match=rf"got none of {ended} .*the last: expected an error that is"):
            tune(objective=none, trials=40, n_startup_trials=40, on_message=said.append)
        assert said[-1] == f"All {ended} trials failed in the same way, so no more was begun."
    (told,) = [line for line in said if "gave no result" in line]
    assert told.startswith(
        "s: trial 0 gave no result (failed): expected an error that is one finite number, got nothing"
    )


def test_failures_that_configurations_may_cause_do_not_end_a_call():
    with pytest.raises(AllTrialsFailedError, match="got none of 7"):
        tune(objective=fail_for_many_reasons, trials=7, n_startup_trials=7)
    assert tune(objective=fail_but_once, trials=7, n_startup_trials=7, study="t").counts == {"ok": 1, "failed": 6}


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"objective": None}, UsageError, "Give your script with `command`"),
        ({"command": "true {config}"}, UsageError, "`objective` and `command` cannot be used together"),
        ({"trials": 0}, UsageError, "trials: expected a whole number of at least 1, got 0"),
        ({"surrogate": "gpp"}, UsageError, "expected surrogate among"),
        ({"warm": "hot", "dataset": "a"}, UsageError, "warm: expected one of design, initial, extra, none"),
        ({"dataset": "none/such"}, MissingPathError, "none/such"),
        ({"space": "none.json"}, UsageError, "space: expected compact, paper, transfer or a file of a space"),
        ({"timeout": "soon"}, UsageError, "expected a length of time"),
    ],
)
def test_wrong_calls(changes, error, told, tmp_path):
    with pytest.raises(error, match=told):
        tune(**{"study": None, **changes})
    assert not list(tmp_path.glob("warmstart-studies*"))


def test_an_objective_that_cannot_be_loaded_leaves_nothing(tmp_path):
    (before := tmp_path / "before.log").write_text("of before\n")
    with pytest.raises(UsageError, match="expected a module that can be imported"):
        tune(objective="nowhere:f", report=True, workers=2)
    with pytest.raises(UsageError, match="expected a module that can be imported"):
        tune(objective="nowhere:f", log=before)
    assert [path.name for path in tmp_path.iterdir()] == ["before.log"]
    assert before.read_text() == "of before\n"
    assert len(tune(trials=1).trials) == 1


def test_a_function_of_the_same_name_goes_on_and_it_is_said():
    told = []
    tune(objective=lambda config: config["x"], study=None, trials=1, on_message=told.append)
    assert told == []
    tune(objective=lambda config: -config["x"], study=None, trials=2, on_message=told.append)
    assert len(told) == 1
    assert "lambda in " in told[0]
    assert told[0].endswith("goes on from 1 trial, begun with a function of the same name. For another function begin another study with `study`.")  # fmt: skip


def test_a_time_for_the_call():
    found = tune(objective=slow, trials=None, timeout=4)
    assert len(found.trials) < 8  # as many as began in 4 s; the last one ended
    assert tune(objective=slow, trials=None, timeout=0.001).trials == found.trials


def test_limits_of_a_trial():
    with pytest.raises(AllTrialsFailedError, match="1 timeout"):
        tune(objective=None, command='python3 -c "import time; time.sleep(60)" {config}', trial_timeout=0.3, trials=1)


@pytest.mark.parametrize(("text", "bytes_"), [(None, None), ("4G", 4 << 30), ("512MiB", 512 << 20), ("1.5k", 1536), (77, 77)])  # fmt: skip
def test_amounts_of_memory(text, bytes_):
    assert memory_bytes(text) == bytes_


@pytest.mark.parametrize(
    ("report", "error", "told"),
    [
        (".", MissingPathError, r"report: expected a file in a folder that is there, got \.\. Make the folder first"),
        ("none/r.md", MissingPathError, "report: expected a file in a folder that is there, got none/r.md"),
        ("r.json", UsageError, r"report: expected a file for Markdown, got r\.json; .* Give a \.md file"),
        ("r.HTML", UsageError, "report: expected a file for Markdown"),
    ],
)
def test_a_report_without_a_place_of_its_own_is_refused_first(report, error, told, tmp_path):
    with pytest.raises(error, match=told):
        tune(report=report, progress=pytest.fail)
    assert not list(tmp_path.iterdir())
