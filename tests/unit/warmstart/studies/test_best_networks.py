"""Networks of the best trials are kept until a call ends, and none of them is trained again."""

from types import SimpleNamespace

import pytest

import warmstart
from warmstart.history_store.space import dump_space
from warmstart.studies.history.warm_start import _unmeasured
from warmstart.studies.objectives import best_networks
from warmstart.studies.objectives.best_networks import BestNetworks
from warmstart.training.workloads import Member, get_workload
from warmstart.training.workloads.cnn.classifier import Networks
from warmstart.training.workloads.cnn.workload import PreparedCNN
from warmstart.training.workloads.transfer.space import transfer_space


class Fake:
    """A prepared dataset whose models are bytes."""

    def combine(self, members, models, *, error):
        assert error == members[0].error, "it is known, and need not be computed"
        return SimpleNamespace(save=lambda path: path.write_bytes(models[0]))


@pytest.fixture
def networks(tmp_path, monkeypatch):
    def load(path):
        return SimpleNamespace(models=[path.read_bytes()])

    monkeypatch.setattr(best_networks, "load_classifier", load)
    return BestNetworks(str(tmp_path), 2)


def test_the_best_are_kept(networks, tmp_path):
    for n, error in enumerate((0.3, 0.25, 1e-05, 0.125)):
        assert networks.is_among_best(error)
        networks.save(Fake(), Member(0, {"n": n, "x": 0.5}, 7, error), b"%d" % n)
    assert len(list(tmp_path.iterdir())) == 2
    assert [networks.load({"x": 0.5, "n": n}, 7) for n in range(4)] == [None, None, b"2", b"3"]
    assert networks.load({"n": 2, "x": 0.5}, 8) is None, "a trial of another seed"
    assert not networks.is_among_best(0.125)
    assert networks.is_among_best(0.124)


def test_what_was_cut_off_counts_as_none(tmp_path):
    networks = BestNetworks(str(tmp_path), 2)
    networks.save(Fake(), Member(0, {"n": 1}, 7, 0.5), b"half of a file")
    assert networks.load({"n": 1}, 7) is None


def test_nothing_is_trained_again_in_the_end(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        PreparedCNN, "train", lambda *_, **__: pytest.fail("trained in the end")
    )  # trials have a process of their own
    settings = {"space": "compact", "warm": "none", "budget": 12, "device": "cpu", "trials": 2}
    found = warmstart.tune(f"{tiny.history}::stripes0", **settings, save_model="n.safetensors")
    (member,) = Networks.load("n.safetensors").members
    assert (member.trial, member.error) == (found.best.number, found.best.error)


def plan_of(workload, space="{}"):
    return SimpleNamespace(workload=workload, space=space, seed=0)


def test_a_study_begins_with_the_kinds_that_the_history_never_measured_too():
    plan = plan_of("transfer", dump_space(get_workload("transfer").space("full")))
    frozen = {"backbone": "b", "image_size": 32, "depth": "full", "flip_copies": False, "steps": 0}
    both = _unmeasured(plan, None, [frozen])
    assert [each.config["image_size"] for each in both] == [128, 64]
    for tuned in both:
        assert tuned.config["steps"] > 0
        assert not tuned.measured
        assert _unmeasured(plan, None, [frozen, dict(tuned.config)]) == ()
    assert _unmeasured(plan_of("cnn", dump_space(get_workload("cnn").space())), {"x": 1}, [{"x": 1}]) == ()
    assert _unmeasured(plan_of(None), {"x": 1}, [{"x": 1}]) == ()


@pytest.mark.parametrize(
    ("space", "changed"),
    [
        (transfer_space(image_sizes=[32, 48]), {"image_size": 48}),
        (transfer_space(steps=[0, 50]), {"steps": 50}),
    ],
)
def test_the_usual_kinds_are_put_into_a_space_of_other_values(space, changed):
    frozen = {"backbone": "b", "image_size": 32, "depth": "full", "flip_copies": False, "steps": 0}
    found = [each.config for each in _unmeasured(plan_of("transfer", dump_space(space)), None, [frozen])]
    usual = [dict(config) | changed for config in get_workload("transfer").usual_configs() if config["steps"]]
    assert found == [config for place, config in enumerate(usual) if config not in usual[:place]]


@pytest.mark.parametrize(("sizes", "tried"), [((32, 64, 96, 128), [224]), ((32, 64, 160, 224), [])])
def test_a_study_over_larger_images_begins_with_the_best_at_the_largest(sizes, tried):
    plan = plan_of("transfer", dump_space(transfer_space("large")))
    best = {
        "backbone": "tf_efficientnet_lite1",
        "image_size": sizes[-2],
        "depth": "s16+full",
        "flip_copies": True,
        "steps": 0,
    }
    measured = [{**best, "image_size": size} for size in sizes]
    found = [each for each in _unmeasured(plan, best, measured) if each.config["steps"] == 0]
    assert [each.config for each in found] == [{**best, "image_size": size} for size in tried]
    assert not any(each.measured for each in found)
