"""Which networks of a study are trained again, in the time that is left."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from warmstart.studies.execution import last_training
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.results import saved_networks
from warmstart.studies.results.saved_networks import save_best, seconds_of_best, train_best
from warmstart.studies.results.trial import Trial
from warmstart.training.workloads.base import TrainingResult

PLAN = SimpleNamespace(
    fingerprint="listing:0",
    dataset="d",
    workload="transfer",
    objective={"target_budget": None},
    budget=None,
    device="cpu",
    skip_broken=False,
)


class Fake:
    """A prepared dataset whose trainings take the seconds of a clock that they tell; configurations of `heads` cost nothing."""

    def __init__(self, clock, heads=()):
        self.clock, self.heads = clock, heads

    def seconds_again(self, config, duration):
        return 0.0 if config["n"] in self.heads else duration

    def train(self, config, **_):
        self.clock.now += self.seconds_again(config, config["takes"])
        return TrainingResult(0.1, "ok", 1.0, (), model=f"model {config['n']}")

    def refit(self, member, model, **_):
        self.clock.now += self.seconds_again(member.config, member.config["takes"])
        return f"{model} of all images"

    def combine(self, members, models, *, error=0.1, **votes):
        return SimpleNamespace(members=members, models=list(models), error=error, votes=votes)


def play(monkeypatch, fake, **of_workload):
    """Let a prepared dataset be that of a workload, which trains nothing longer in the end unless it is told so."""
    workload = {"budget": lambda *_, **__: None, "steps_again": lambda *_: 0, "seconds_again": fake.seconds_again}
    workload |= of_workload
    monkeypatch.setattr(saved_networks, "prepare", lambda *_, **__: fake)
    monkeypatch.setattr(last_training, "get_workload", lambda _: SimpleNamespace(**workload))


@pytest.mark.parametrize(
    ("seconds", "heads", "judged", "final"),
    [
        (math.inf, (), [0, 1, 2], [0, 1, 2]),
        (100.0, (), [0, 2, 3], [0, 2, 3]),
        (36.0, (), [0, 2, 3], [0, 2]),
        (30.0, (), [0, 2], [0]),
        (25.0, (), [0], [0]),
        (15.0, (), [0], []),
        (0.0, (), [0], []),
        (0.0, (2, 3), [0, 2, 3], [2, 3]),
        (25.0, (3,), [0, 3], [0, 3]),
    ],
)
def test_the_best_one_is_always_trained_and_others_as_they_fit(monkeypatch, seconds, heads, judged, final):
    clock = SimpleNamespace(now=0.0)
    fake = Fake(clock, heads)
    play(monkeypatch, fake)
    takes = [10.0, 60.0, 5.0, 5.0]
    trials = [Trial(n, {"n": n, "takes": t}, 0.1 + n / 100, TrialStatus.OK, t, seed=n) for n, t in enumerate(takes)]
    before, after = train_best(PLAN, trials, k=3, remaining=lambda: seconds - clock.now)
    assert [member.trial for member in before.members] == judged
    assert before.models == [f"model {n}" for n in judged]
    assert [int(model.split()[1]) for model in after.models if "all images" in model] == final
    assert after.error == before.error
    if seconds >= 25:
        assert clock.now <= seconds


def test_one_that_is_expected_to_be_better_after_the_last_training_is_saved_too(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    play(
        monkeypatch,
        Fake(clock, heads=(0, 1, 2)),
        steps_again=lambda config, _: 100 * (config["n"] == 3),
        error_again=lambda config, error, *, budget, steps, longer: error * steps / 100 if longer > 2 else error,
    )
    trials = [Trial(n, {"n": n, "takes": 10.0}, 0.1 + n / 100, TrialStatus.OK, 10.0, seed=n) for n in range(3)]
    tuned = Trial(3, {"n": 3, "takes": 10.0}, 0.2, TrialStatus.OK, 10.0, 3, curve=((0, 0.3), (50, 0.2)))
    for seconds, chosen in ((60.0, [0, 1, 3]), (15.0, [0, 1, 2]), (math.inf, [0, 1, 2])):  # at 15 s it is no longer run
        clock.now = 0.0
        before, after = train_best(PLAN, [*trials, tuned], k=3, remaining=lambda end=seconds: end - clock.now)
        assert [member.trial for member in before.members] == chosen
        assert after.models[-1] == f"model {chosen[-1]} of all images"
        assert before.votes == after.votes == ({"leading": 2} if chosen[-1] == 3 else {})


@pytest.mark.parametrize(("done", "leads"), [(50, True), (100, False)])
def test_what_runs_no_longer_than_its_trial_does_not_lead(monkeypatch, done, leads):
    play(
        monkeypatch,
        Fake(SimpleNamespace(now=0.0), heads=(0,)),
        steps_again=lambda config, _: 100 * (config["n"] == 1),
        error_again=lambda config, error, *, budget, steps, longer: error * steps / 100,
    )
    trials = [
        Trial(n, {"n": n, "takes": 10.0}, 0.1, TrialStatus.OK, 10.0, seed=n, curve=((done, 0.1),)) for n in range(2)
    ]
    judged, _ = train_best(PLAN, trials, k=2, remaining=lambda: 60.0)
    assert judged.votes == ({"leading": 1} if leads else {})


def test_the_best_of_earlier_calls_take_what_their_trials_took():
    def trial(number, error, seconds, status=TrialStatus.OK, *, feasible=True):
        return Trial(number, {"n": number}, error, status, seconds, 0, feasible=feasible)

    trials = [
        trial(0, 0.3, 7.0),
        trial(1, 0.1, 2.0),
        trial(2, 0.0, 50.0, feasible=False),
        trial(3, None, 40.0, TrialStatus.PRUNED),
        trial(4, 0.2, 1.0),
    ]
    alike = Fake(None)
    assert [seconds_of_best(alike, trials, k) for k in (1, 2, 3, 5)] == [2.0, 3.0, 10.0, 10.0]
    assert seconds_of_best(alike, [], 5) == 0.0
    assert seconds_of_best(Fake(None, heads=(1, 4)), trials, 3) == 7.0, "heads take next to no time"


def test_networks_that_cannot_be_trained_again_are_told(monkeypatch, tmp_path):
    fake = Fake(SimpleNamespace(now=0.0))
    fake.train = lambda *_, **__: TrainingResult(0.9, "diverged", 1.0, (), model=None)
    play(monkeypatch, fake)
    trials = [Trial(n, {"n": n, "takes": 1.0}, 0.1, TrialStatus.OK, 1.0, seed=n) for n in range(2)]
    lines = []
    assert save_best(tmp_path / "n.safetensors", PLAN, trials, 1, lines.append) is None
    (line,) = lines
    assert line.startswith(f"{tmp_path}/n.safetensors: not written: of 2 trials that ended well none gave a network")


@pytest.mark.parametrize(("validated", "said"), [(np.zeros((12, 2)), "0.1 of 12 images"), (None, "0.1")])
def test_the_validation_error_says_of_how_many_images_it_is(monkeypatch, tmp_path, validated, said):
    """It is another number than the error of a trial, which may count training images too."""
    judged = SimpleNamespace(members=[0], error=0.1, first_error=0.1, validated=validated, save=lambda path: None)
    monkeypatch.setattr(saved_networks, "train_best", lambda *_, **__: (judged, judged))
    lines = []
    trial = Trial(0, {}, 0.05, TrialStatus.OK, 1.0, seed=0)
    save_best(tmp_path / "clf.safetensors", PLAN, [trial], 1, lines.append)
    assert lines == [f"{tmp_path / 'clf.safetensors'}: 1 network, validation error {said}."]


@pytest.mark.parametrize(
    ("n", "k", "left", "said"),
    [
        (1, 1, math.inf, ""),
        (3, 3, math.inf, ""),
        (3, 4, math.inf, " 4 were asked for, but no more trials ended well."),
        (2, 3, 9.0, " 3 were asked for, but no time was left to train the others again."),
        (2, 3, math.inf, " 3 were asked for, but the others failed when they were trained again."),
    ],
)
def test_fewer_networks_than_asked_for_are_told_with_the_reason(monkeypatch, tmp_path, n, k, left, said):
    line = saved_line(monkeypatch, tmp_path, n, k=k, remaining=lambda: left, first_error=0.1)
    assert line.partition("validation error 0.1")[2].removeprefix(" together") == f".{said}"


def test_a_best_network_that_is_better_alone_is_told(monkeypatch, tmp_path):
    line = saved_line(monkeypatch, tmp_path, 3, k=3, first_error=0.05)
    assert line.endswith("0.1 together. The best one alone has an error of 0.05: leave out `ensemble` to save that.")
    for first_error in (0.1, 0.2, None):
        assert saved_line(monkeypatch, tmp_path, 3, k=3, first_error=first_error).endswith("0.1 together.")


def saved_line(monkeypatch, tmp_path, n, *, k, first_error, **options):
    """Save n networks of three trials, and return what is said."""
    judged = SimpleNamespace(members=range(n), error=0.1, first_error=first_error, validated=None, save=lambda _: None)
    monkeypatch.setattr(saved_networks, "train_best", lambda *_, **__: (judged, judged))
    trials = [Trial(number, {}, 0.05, TrialStatus.OK, 1.0, seed=0) for number in range(3)]
    trials.append(Trial(3, {}, None, TrialStatus.CRASHED, 1.0, seed=0))
    lines = []
    saved = save_best(tmp_path / "clf.safetensors", PLAN, trials, k, lines.append, **options)
    assert saved.judged is judged
    assert not saved.is_retrained
    (line,) = lines
    return line
