"""A trial that was ended with the time of its command: no failure, no result, and tried again where it told nothing."""

import re

import optuna
import pytest
from ConfigSpace import ConfigurationSpace
from optuna.study import StudyDirection

from warmstart.cli.shell import Shell
from warmstart.cli.tune import _print
from warmstart.integrations.optuna.problem import Problem, is_uninformative, read_trials
from warmstart.integrations.optuna.sampler import WarmStartSampler
from warmstart.integrations.optuna.space import to_distributions
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.results.summary import TuneResult
from warmstart.studies.results.trial import Trial
from warmstart.studies.state.attributes import CUT

SPACE = ConfigurationSpace({"x": (0.0, 1.0)})
WARM = [{"x": 0.25}, {"x": 0.75}]


@pytest.fixture
def study():
    """Make a study that begins with two warm configurations."""
    return optuna.create_study(sampler=WarmStartSampler(space=SPACE, initial=WARM, n_startup_trials=2, seed=0))


def begun(study):
    return study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})


def read(study):
    return read_trials(study.trials, Problem(SPACE, to_distributions(SPACE), is_given=True), StudyDirection.MINIMIZE)


def end(study, trial, *, reports=(), cut=12.0):
    for step, error in enumerate(reports, start=1):
        trial.report(error, step)
    if cut is not None:
        trial.set_user_attr(CUT, cut)
    study.tell(trial, state=optuna.trial.TrialState.PRUNED)


def test_what_told_nothing_is_no_evaluation_and_is_tried_again(study):
    end(study, begun(study))
    assert is_uninformative(study.trials[0])
    assert read(study).observations == ()
    assert begun(study).params == WARM[0]


def test_what_reported_counts_with_its_last_error(study):
    end(study, begun(study), reports=(0.5, 0.4))
    (told,) = read(study).observations
    assert (told.status, told.error, dict(told.constraints)) == ("ok", 0.4, {})
    assert begun(study).params == WARM[1]


def test_what_was_pruned_without_a_word_is_a_failure_as_ever(study):
    end(study, begun(study), cut=None)
    assert [told.status for told in read(study).observations] == ["failed"]


def test_what_a_study_without_a_result_has_to_show(capsys):
    def trial(number, status, error, *curve):
        return Trial(number, {"x": 0.1 * number}, error, status, 1.0, 0, curve=curve)

    none = trial(0, TrialStatus.PRUNED, None)
    worse = trial(1, TrialStatus.PRUNED, None, (1.0, 0.2), (2.0, 0.5))
    better = trial(2, TrialStatus.PRUNED, None, (1.0, 0.4))
    found = TuneResult("s", "here", None, None, (none, worse, better))
    assert found.unfinished is better
    assert found.to_dict()["unfinished"] == {
        "config": {"x": 0.2}, "natural": {}, "error": 0.4, "value": 0.4, "step": 1.0, "trial": 2
    }  # fmt: skip
    assert found.unfinished_line.endswith("before it was ended: error 0.4 at step 1, trial 2.")
    done = trial(3, TrialStatus.OK, 0.9)
    _print(Shell("table"), found)
    shown = capsys.readouterr().out
    assert re.search(r"^trial +error .*\n─+\n +2 +0\.4 ", shown, re.MULTILINE)
    assert TuneResult("s", "here", None, done, (better, done)).unfinished is None
    assert "unfinished" not in TuneResult("s", "here", None, None, (none,)).to_dict()
