"""Studies that learn from related datasets of the history."""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace
from objectives import rate_alone

import warmstart
from warmstart.bo.related import thinned
from warmstart.bo.surrogates import MultiTaskGaussianProcess
from warmstart.history_store.errors import UsageError
from warmstart.history_store.history import History
from warmstart.history_store.space import dump_space
from warmstart.studies.history import related as related_module
from warmstart.studies.history.warm_start import ask_history
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.options import Sources
from warmstart.studies.results.trial import ended_trials
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.trial_queue import begin, find_plan
from warmstart.training.workloads.cnn.space import target_space


def expect_small(note):
    """Accept what is said of a history of three groups, and nothing else."""
    assert note.startswith("The history is small")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def tune(**changes):
    return warmstart.tune(**{"objective": rate_alone, "trials": 3, "k": 2, "study": "s"} | changes)


def study(total, *, history, name="s", **changes):
    """Go on with a study until it has so many trials, in this process; give its trials and its plan."""
    settings = {
        "space": dump_space(target_space()),
        "objective": {"function": "m:rate"},
        "dataset": None,
        "fingerprint": None,
        "seed": 3,
        "surrogate": "gp",
        "acquisition": "ei",
        "pruner": "none",
        "budget": None,
        "warm": "none",
        "k": 2,
        "strategy": None,
        "exclude_group": (),
        "n_startup_trials": 3,
    }
    ask = partial(ask_history, sources=Sources(history=history, cache=False), on_message=expect_small)
    with begin(open_store(None), name, ask, StudySpec(**settings | changes)) as queue:
        while (run := queue.next(total)) is not None:
            queue.end(run, Outcome(rate_alone(run.config), TrialStatus.OK, 1.0))
        return ended_trials(queue.trials()), queue.plan


def test_the_nearest_datasets_of_other_groups_are_learnt_from(use_tiny, tiny, tmp_path, monkeypatch, short_chains):
    history = Path(shutil.copy(tiny.history, tmp_path / "own.h5"))
    dataset = f"{history}::stripes0"
    settings = {"dataset": dataset, "fingerprint": "listing:x", "warm": "design", "history": history}
    settings |= {"related": ("auto",), "neighbours": 2}
    fits = []
    fit = MultiTaskGaussianProcess.fit

    def noted(self, X, y, *, rng):
        fits.append((len(self._related), len(y)))
        return fit(self, X, y, rng=rng)

    monkeypatch.setattr(MultiTaskGaussianProcess, "fit", noted)
    trials, plan = study(4, **settings)
    assert fits == [(2, 1), (2, 2), (2, 3)]  # to forecast the second warm configuration, then to suggest
    near = warmstart.neighbours(dataset, k=6, history=history, seed=3)
    distances = {neighbour.name: neighbour.distance for neighbour in near}
    with History.open(history) as opened:
        groups = dict(zip(opened.names, opened.groups, strict=True))
        errors = dict(zip(opened.names, opened.errors, strict=True))
        configs = opened.configs
    firsts = {groups[neighbour.name]: neighbour.name for neighbour in reversed(near)}.values()
    assert [each.name for each in plan.tasks] == [each.name for each in near if each.name in firsts][:2]
    for each in plan.tasks:
        assert each.distance == pytest.approx(distances[each.name])
        assert list(each.errors) == errors[each.name].tolist()
        assert list(each.configs) == list(configs)
        away = np.linalg.norm(np.subtract(each.meta_feature, plan.meta_feature))
        assert away == pytest.approx(distances[each.name], rel=1e-4)
    # A study that was stopped goes on with what it was told, though the history is another one by then.
    study(3, **settings, name="t")
    with History.open(history, write=True) as opened:
        opened.remove_dataset(plan.tasks[0].name)
    again, same = study(4, **settings, name="t")
    assert ([trial.config for trial in again], same) == ([trial.config for trial in trials], plan)


def test_named_datasets_for_an_objective_without_images(use_tiny, tiny, monkeypatch, short_chains):
    monkeypatch.setattr(related_module, "TOTAL", 6)
    found = tune(related=["stripes4", "stripes1", "stripes4"], trials=1, report=True)
    assert [(each.name, each.distance, len(each.errors)) for each in found.related] == [
        ("stripes1", None, 3),
        ("stripes4", None, 3),
    ]
    assert found.to_dict()["related"][0] == {"name": "stripes1", "distance": None, "evaluations": 3}
    plan = find_plan(open_store(None), "s")
    assert plan.meta_feature is None
    assert plan.tasks == found.related
    assert plan.history["path"] == str(tiny.history)
    settings = json.loads(Path("warmstart-studies-reports/s/report.json").read_text())["settings"]
    assert settings["related"] == ["stripes1", "stripes4"]
    assert settings["tasks"] == found.to_dict()["related"]
    assert "| stripes4 |  | 3 |" in Path("warmstart-studies-reports/s/report.md").read_text()
    cold, _ = study(1, history=tiny.history, name="cold")
    assert cold[0].config != found.trials[0].config  # no design: the tasks say where to begin
    # What was asked is read as it was written, and is part of what makes a study.
    assert StudySpec.from_json(plan.to_json(), "here") == plan
    for changes, told in (
        ({"related": ("stripes2",)}, r"`related` stripes2 \(the study has stripes1, stripes4\)"),
        ({"related": ()}, r"`related` none \("),
        ({"exclude_group": ("group1",)}, r"`exclude_group` group1 \(the study has none\)"),
    ):
        with pytest.raises(UsageError, match=told):
            plan.check_same(replace(plan, **changes), "here")
    plan.check_same(replace(plan, neighbours=7), "here")
    with pytest.raises(UsageError, match=r"`neighbours` 7 \(the study has 3\)"):
        replace(plan, related=("auto",)).check_same(replace(plan, related=("auto",), neighbours=7), "here")
    old = {name: value for name, value in json.loads(plan.to_json()).items() if name not in ("related", "neighbours", "tasks", "meta_feature")}  # fmt: skip
    assert StudySpec.from_json(json.dumps(old), "here").tasks == ()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"related": "auto"}, "related: 'auto' needs a dataset of images"),
        ({"related": ["auto", "stripes1"], "dataset": "{0}::stripes0"}, "or auto alone, got auto"),
        ({"related": "stripes1", "exclude_group": "group0"}, "got stripes1, which `exclude_group` leaves out"),
        ({"related": "stripes0", "dataset": "{0}::stripes0"}, "got stripes0, which .* is the one that is tuned"),
        (
            {"related": "stripes0", "surrogate": "gp-map"},
            "related: expected `surrogate` gp, dngo, bohamiann, got gp-map",
        ),
        (
            {"related": "stripes0", "space": ConfigurationSpace({"log10_learning_rate": (-5.0, 0.0)})},
            "related: expected a study over the space of .*, got one over another",
        ),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(use_tiny, tiny, changes, told):
    changes = {name: value.format(tiny.history) if name == "dataset" else value for name, value in changes.items()}
    with pytest.raises(UsageError, match=told):
        tune(**changes, progress=pytest.fail)


def test_half_of_the_thinned_evaluations_are_the_best():
    errors = [0.5, np.nan, 0.1, 0.9, 0.3, np.inf, 0.7, 0.2]
    assert thinned(errors, 8) == [0, 2, 3, 4, 6, 7]  # all that have an error
    assert thinned(errors, 4) == [2, 3, 4, 7]  # 0.1 and 0.2; of 0.3, 0.5, 0.7, 0.9 the ends
    assert thinned(errors, 1) == [2]
    assert thinned([np.nan], 3) == []
