"""Each option of tuning is stated once."""

import inspect
import json
import re
from dataclasses import fields

import pytest
import typer

import warmstart
from warmstart.cli.app import app
from warmstart.history_store.errors import UsageError
from warmstart.history_store.history import History
from warmstart.history_store.space import dump_space
from warmstart.option import identity_of
from warmstart.studies.options import GROUPS, Caller, Search, WarmStart
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.tune_options import TuneOptions
from warmstart.training.workloads import get_workload

NAMES = [each.name for group in GROUPS for each in fields(group)]
COMMAND = typer.main.get_command(app).commands["tune"]
KEYWORDS = inspect.signature(warmstart.tune).parameters


def test_no_option_is_in_two_groups_and_the_options_of_a_call_are_all_of_them():
    assert len(NAMES) == len(set(NAMES))
    assert {each.name for each in fields(TuneOptions)} - {each.name for each in fields(Caller)} == set(NAMES)


def test_every_option_is_a_keyword_with_its_default_and_its_text():
    keywords = {name: each.default for name, each in KEYWORDS.items() if name not in ("dataset", "groups")}
    assert keywords == {each.name: each.default for group in GROUPS for each in fields(group)}
    for name in NAMES:
        assert f"        {name}: " in warmstart.tune.__doc__


def test_options_come_as_keywords_or_in_groups(tmp_path):
    calls = []
    call = {"objective": lambda config: config["x"], "space": {"x": [0, 1.0]}, "trials": 1, "on_message": calls.append}
    one = warmstart.tune(**call, warm="none", surrogate="gp-map", storage=tmp_path / "a.db")
    two = warmstart.tune(None, Search(surrogate="gp-map"), WarmStart(warm="none"), **call, storage=tmp_path / "b.db")
    assert [trial.config for trial in one.trials] == [trial.config for trial in two.trials]


@pytest.mark.parametrize(
    ("groups", "keywords", "words"),
    [
        ((), {"surogate": "dngo"}, "unexpected keyword argument 'surogate'. Did you mean 'surrogate'?"),
        ((), {"zzz": 1}, "unexpected keyword argument 'zzz'"),
        ((Search(),), {"surrogate": "dngo"}, "'surrogate' twice, once in Search"),
        ((Search(), Search()), {}, "'acquisition' twice"),
        (("photos",), {}, "then groups of options (Problem, Search"),
    ],
)
def test_an_option_that_does_not_exist_or_comes_twice_is_refused(groups, keywords, words):
    for tune in (warmstart.tune, warmstart.tune_many):
        with pytest.raises(TypeError, match=re.escape(words)):
            tune(None if tune is warmstart.tune else ["a", "b"], *groups, **keywords)


def test_tune_many_shows_the_keywords_of_tune_and_split():
    shown = inspect.signature(warmstart.tune_many).parameters
    assert list(shown) == ["datasets", "groups", "split", *NAMES]


def test_every_option_is_one_of_the_command_with_the_same_default():
    elsewhere = {"cluster", "progress", "on_message"}  # --ray and its like, what is shown
    known = {param.name: param for param in COMMAND.params}
    assert set(NAMES) - set(known) == elsewhere
    for group in GROUPS:
        for each in fields(group):
            if each.name not in elsewhere:
                assert (known[each.name].default or None) == (each.default or None), each.name


def test_what_is_searched_is_kept_in_the_study_by_being_in_its_group():
    kept = {each.name for each in fields(StudySpec)}
    assert {each.name for group in (Search, WarmStart) for each in fields(group)} <= kept
    assert all(each.metadata["option"].identity is not None for group in (Search, WarmStart) for each in fields(group))


def test_names_may_be_one_name_or_several_in_any_order():
    assert TuneOptions(exclude_group="a").exclude_group == ("a",)
    assert TuneOptions(exclude_group=None).exclude_group == ()
    assert TuneOptions(related=["b", "a", "b"]).related == ("a", "b")


def plan(**changes):
    return StudySpec(**{"space": "{}", "objective": {"function": "m:f"}, "dataset": "d", "fingerprint": "f"} | changes)


def test_options_without_effect_make_no_study_another_one():
    assert identity_of(plan(warm="none", k=2)) == identity_of(plan(warm="none", k=3, strategy="joint"))
    assert identity_of(plan(n_startup_trials=2)) == identity_of(plan(n_startup_trials=5))
    assert identity_of(plan(warm="extra", n_startup_trials=2)) != identity_of(plan(warm="extra", n_startup_trials=5))
    assert identity_of(plan(neighbours=2)) == identity_of(plan())
    assert identity_of(plan(related=["auto"], neighbours=2)) != identity_of(plan(related=["auto"]))


def test_a_plan_of_version_0_1_is_read():
    text = {
        "schema_version": 1, "space": "{}", "objective": {"function": "m:f", "command": None, "target_budget": None},
        "dataset": "d", "fingerprint": "f", "seed": 3, "surrogate": "gp", "acquisition": "ei", "pruner": "none",
        "budget": None, "warm": "design", "k": 3, "strategy": None, "exclude_group": ["g"], "startup": 3, "configs": [],
        "history": None, "folder": ".", "device": "auto", "related": ["b"], "neighbours": 3, "tasks": [],
        "meta_feature": None, "members": [], "split": "equal",
    }  # fmt: skip
    read = StudySpec.from_json(json.dumps(text), "here")
    assert (read.exclude_group, read.related, read.seed) == (("g",), ("b",), 3)
    assert StudySpec.from_json(read.to_json(), "here") == read
    assert json.loads(read.to_json()) == text


def test_an_ensemble_needs_a_file_that_it_is_saved_in():
    with pytest.raises(UsageError, match="3 networks need `save_model`") as told:
        TuneOptions(ensemble=3).limits()
    assert told.value.params == ("ensemble",)
    TuneOptions(ensemble=3, save_model="clf.safetensors").limits()


def test_the_direction_of_a_metric_is_told_once_and_of_new_studies_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = "The least number that last finds is the best: add `maximize` where larger is better."
    settings = {"command": "echo {x}", "space": {"x": [0, 1.0]}, "metric": "last", "warm": "none"}
    for trials, times in ((1, 1), (2, 0)):
        told = []
        warmstart.tune(**settings, trials=trials, on_message=told.append)
        assert told.count(line) == times
    told = []
    warmstart.tune_many(["a", "b"], **settings, trials=2, on_message=told.append)
    assert told.count(line) == 1


def test_the_workload_is_the_one_that_a_named_history_measured(tmp_path):
    path = tmp_path / "mine.h5"
    History.create(path, dump_space(get_workload("transfer").space())).close()
    assert TuneOptions(history=path).plan(None, None).workload == "transfer"
    assert TuneOptions(history=path, space="compact").plan(None, None).workload == "cnn"
    assert TuneOptions(history=path, workload="transfer").plan(None, None).workload == "transfer"


@pytest.mark.parametrize(("option", "value"), [("workload", "transfer"), ("target_budget", "steps")])
@pytest.mark.parametrize("own", ["objective", "command"])
def test_what_is_of_a_workload_says_nothing_beside_a_program_of_ones_own(own, option, value):
    with pytest.raises(UsageError, match=rf"^{option} cannot be used with `{own}`, which trains in its own way"):
        warmstart.tune(**{own: "train.py:main", option: value}, trials=1)


def test_labels_are_of_a_dataset(cli):
    run = cli("tune", "--command", "python train.py", "--labels", "labels.csv", "--trials", 1)
    assert run.code == 2
    assert "--labels needs --dataset." in run.err


def test_a_function_in_place_of_the_images_is_told_its_name():
    with pytest.raises(
        UsageError, match=r"^dataset: expected a path, got a function\. Give it by name: tune\(objective="
    ):
        warmstart.tune(len, trials=1)
