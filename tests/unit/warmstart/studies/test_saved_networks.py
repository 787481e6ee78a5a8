"""Which networks of a study are trained again, in the time that is left."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

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
    """A prepared dataset whose trainings take the seconds of a clock; configurations of `heads` cost nothing."""

    def __init__(self, clock, heads=()):
        self.clock, self.heads = clock, heads

    def seconds_again(self, config, duration):
        return 0.0 if config["n"] in self.heads else duration

    def train(self, config, **_):
        self.clock.now += self.seconds_again(config, config["takes"])
        return TrainingResult(0.1, "ok", 1.0, (), model=config["n"])

    def select(self, models, most):
        return sorted(range(len(models)), key=lambda index: -models[index])[:most]

    def combine(self, members, models):
        return SimpleNamespace(members=members, models=list(models), error=0.1)

    def examine(self, models, members, n, *, seconds):
        return None


def play(monkeypatch, fake):
    """Let a prepared dataset be that of a workload."""
    workload = {"budget": lambda *_, **__: None, "seconds_again": fake.seconds_again}
    monkeypatch.setattr(saved_networks, "prepare", lambda *_, **__: fake)
    monkeypatch.setattr(saved_networks, "get_workload", lambda _: SimpleNamespace(**workload))


@pytest.mark.parametrize(
    ("seconds", "heads", "saved"),
    [
        (math.inf, (), [2, 1, 0]),
        (100.0, (), [2, 1, 0]),
        (36.0, (), [3, 2, 0]),
        (12.0, (), [0]),
        (0.0, (2, 3), [3, 2, 0]),
    ],
)
def test_the_best_one_is_always_trained_and_others_as_they_fit(monkeypatch, seconds, heads, saved):
    clock = SimpleNamespace(now=0.0)
    play(monkeypatch, fake := Fake(clock, heads))
    takes = [10.0, 60.0, 5.0, 5.0]
    trials = [Trial(n, {"n": n, "takes": t}, 0.1 + n / 100, TrialStatus.OK, t, seed=n) for n, t in enumerate(takes)]
    made = train_best(PLAN, trials, k=3, remaining=lambda: seconds - clock.now)
    assert made.models == [member.trial for member in made.members] == saved, "as the dataset chooses them"
    assert fake.seconds_again({"n": 0}, 3.0) == 3.0


def test_those_to_save_are_chosen_among_all_that_were_kept(monkeypatch):
    play(monkeypatch, Fake(SimpleNamespace(now=0.0)))
    trials = [Trial(n, {"n": n, "takes": 1.0}, 0.1 + n / 100, TrialStatus.OK, 1.0, seed=n) for n in range(12)]
    kept = SimpleNamespace(load=lambda config, seed: config["n"])
    assert train_best(PLAN, trials, k=2, networks=kept).models == [7, 6], "of the eight best"


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


def saved_line(monkeypatch, tmp_path, n, *, k, **about):
    """Save n networks of three trials, and return what is said."""
    fields = {"first_error": 0.1, "validated": None, "interval": None} | about
    remaining = fields.pop("remaining", lambda: math.inf)
    made = SimpleNamespace(members=range(n), error=0.1, save=lambda _: None, **fields)
    monkeypatch.setattr(saved_networks, "train_best", lambda *_, **__: made)
    trials = [Trial(number, {}, 0.05, TrialStatus.OK, 1.0, seed=0) for number in range(3)]
    trials.append(Trial(3, {}, None, TrialStatus.CRASHED, 1.0, seed=0))
    lines = []
    assert save_best(tmp_path / "clf.safetensors", PLAN, trials, k, lines.append, remaining=remaining) is made
    (line,) = lines
    return line.removeprefix(f"{tmp_path / 'clf.safetensors'}: ")


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({}, "1 network: 90 of 100 right."),
        ({"validated": np.zeros((12, 2))}, "1 network: 90 of 100 right, by 12 pictures not trained on."),
        (
            {"validated": np.zeros((12, 2)), "interval": (0.0512, 0.2)},
            "1 network: 90 of 100 right (80 to 95), by 12 pictures not trained on.",
        ),
    ],
)
def test_the_error_says_of_how_many_images_it_is_and_how_sure(monkeypatch, tmp_path, about, said):
    assert saved_line(monkeypatch, tmp_path, 1, k=1, **about) == said


@pytest.mark.parametrize(
    ("n", "k", "about", "said"),
    [
        (3, 3, {}, ""),
        (3, 4, {}, " 4 were asked for, but no more trials ended well."),
        (2, 3, {"remaining": lambda: 9.0}, " 3 were asked for, but no time was left to train the others again."),
        (2, 3, {}, " 3 were asked for, but the others failed when they were trained again."),
        (2, 3, {"interval": (0.0, 0.2)}, " Up to 3 were asked for; more would not answer better."),
    ],
)
def test_fewer_networks_than_asked_for_are_told_with_the_reason(monkeypatch, tmp_path, n, k, about, said):
    line = saved_line(monkeypatch, tmp_path, n, k=k, **about)
    assert line.rpartition(" together.")[2] == said


def test_a_best_network_that_is_better_alone_is_told(monkeypatch, tmp_path):
    line = saved_line(monkeypatch, tmp_path, 3, k=3, first_error=0.05)
    assert line.endswith(
        "together: 90 of 100 right. The best one alone has 95 of 100 right: leave out `ensemble` to save that."
    )
    for first_error in (0.1, 0.2, None):
        assert saved_line(monkeypatch, tmp_path, 3, k=3, first_error=first_error).endswith("0.1 together.")
