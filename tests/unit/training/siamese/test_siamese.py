import dataclasses
import itertools

import numpy as np
import pytest
import torch

from warmstart.history_store.errors import DataError, LabelError, ModelError, ModelMismatchError, UsageError
from warmstart.metafeat.feature_names import FEATURES
from warmstart.metafeat.spec import ModelSpec
from warmstart.training.siamese.from_history import choose_held_out
from warmstart.training.siamese.labelled_images import LabelledImages
from warmstart.training.siamese.settings import SiameseSettings
from warmstart.training.siamese.train import (
    SiameseRun,
    compare,
    pair_loss,
    train_siamese,
)

SPEC = ModelSpec(image_size=8, tau=12)
SMALL = SiameseSettings(
    SPEC,
    steps=8,
    sampling="all_pairs",
    batch=4,
    loss="squared",
    learning_rate=1e-3,
    schedule="cosine",
    validate_every=3,
    keep="best",
)


def toy(n_sets=6, size=8, seed=0):
    """Datasets of different brightness and number of classes; the target distance follows both."""
    rng = np.random.default_rng(seed)
    traits = np.linspace(0.1, 0.9, n_sets)
    data = {}
    for i, level in enumerate(traits):
        images = (255 * (level + 0.1 * rng.normal(size=(40, size, size, 3)))).clip(0, 255).astype(np.uint8)
        data[f"d{i}"] = LabelledImages(images, rng.integers(0, 2 + i, 40))
    return data, np.abs(traits[:, None] - traits[None])


def weights(trained):
    return {name: tensor.numpy().tobytes() for name, tensor in trained.model.network.state_dict().items()}


def test_same_seed_same_model_bit_for_bit_and_another_seed_another():
    data, target = toy()
    a, b = (train_siamese(data, target, settings=SMALL, seed=4, held_out=["d2"]) for _ in range(2))
    assert a.model.hash == b.model.hash
    assert a.curves == b.curves
    assert train_siamese(data, target, settings=SMALL, seed=5).model.hash != a.model.hash


@pytest.mark.parametrize(
    ("change", "sampling"),
    [
        ({"extractor": "adf"}, "pairs"),
        ({"extractor": "bilstm"}, "all_pairs"),
        ({"extractor": "attention", "backbone": "residual"}, "pairs"),
        ({"extractor": "handcrafted", "handcrafted": True}, "all_pairs"),
    ],
    ids=str,
)
def test_resumed_run_equals_the_uninterrupted_one_bit_for_bit(tmp_path, change, sampling):
    data, target = toy()
    if change.get("handcrafted"):
        features = np.random.default_rng(3).normal(size=(6, 2, len(FEATURES)))
        data = {n: dataclasses.replace(d, handcrafted=f) for (n, d), f in zip(data.items(), features, strict=True)}
    settings = dataclasses.replace(SMALL, spec=dataclasses.replace(SPEC, **change), sampling=sampling)
    whole = train_siamese(data, target, settings=settings, held_out=["d1", "d4"])

    class KilledError(Exception):
        pass

    def kill(progress):
        if progress.step == 6:
            raise KilledError

    path = tmp_path / "run.ckpt"
    keep = {"settings": settings, "held_out": ["d1", "d4"], "checkpoint": path, "checkpoint_every": 4}
    with pytest.raises(KilledError):
        train_siamese(data, target, progress=kill, **keep)
    steps = []
    resumed = train_siamese(data, target, progress=lambda p: steps.append(p.step), **keep)
    assert steps == [5, 6, 7, 8]
    assert weights(resumed) == weights(whole)
    assert resumed.curves == whole.curves
    assert resumed.quality == whole.quality
    again = train_siamese(data, target, progress=lambda p: pytest.fail("nothing is left to do"), **keep)
    assert again.model.hash == whole.model.hash


def test_deadline_stops_and_a_later_call_goes_on(tmp_path):
    data, target = toy()
    keep = {"settings": SMALL, "checkpoint": tmp_path / "c"}
    first = train_siamese(data, target, deadline_s=0, **keep)
    assert (first.curves.stopped, len(first.curves.loss)) == ("deadline", 1)
    whole = train_siamese(data, target, settings=SMALL)
    rest = train_siamese(data, target, **keep)
    assert rest.curves.stopped == "done"
    assert weights(rest) == weights(whole)


def test_checkpoint_of_another_run_is_refused(tmp_path):
    data, target = toy()
    path = tmp_path / "c"
    train_siamese(data, target, settings=SMALL, checkpoint=path)
    with pytest.raises(UsageError, match="got one with another seed"):
        train_siamese(data, target, settings=SMALL, checkpoint=path, seed=1)
    with pytest.raises(UsageError, match="got one with another settings"):
        train_siamese(data, target, settings=dataclasses.replace(SMALL, steps=9), checkpoint=path)
    with pytest.raises(UsageError, match="got one with another data"):
        train_siamese(data, target * 2, settings=SMALL, checkpoint=path)


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: dataclasses.replace(entry, images=255 - entry.images),
        lambda entry: dataclasses.replace(entry, labels=entry.labels[::-1]),
        lambda entry: dataclasses.replace(entry, handcrafted=np.zeros((4, len(FEATURES)))),
    ],
    ids=["images", "labels", "handcrafted"],
)
def test_checkpoint_of_other_data_of_the_same_names_and_sizes_is_refused(tmp_path, change):
    data, target = toy()
    train_siamese(data, target, settings=SMALL, checkpoint=tmp_path / "c")
    with pytest.raises(UsageError, match="another data"):
        train_siamese({**data, "d1": change(data["d1"])}, target, settings=SMALL, checkpoint=tmp_path / "c")


@pytest.mark.parametrize("content", [b"no checkpoint", None])
def test_damaged_checkpoint(tmp_path, content):
    data, target = toy()
    path = tmp_path / "c"
    train_siamese(data, target, settings=SMALL, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    with pytest.raises(ModelError, match="Delete it to start anew"):
        train_siamese(data, target, settings=SMALL, checkpoint=path)


def test_best_weights_are_those_of_the_best_validation():
    data, target = toy()
    run = train_siamese(data, target, settings=SMALL, held_out=["d1", "d4"])
    scores = [v.spearman for v in run.curves.validations]
    assert [v.step for v in run.curves.validations] == [3, 6, 8]
    assert run.quality.spearman == max(scores)
    last = train_siamese(data, target, settings=dataclasses.replace(SMALL, keep="last"), held_out=["d1", "d4"])
    assert last.quality == last.curves.validations[-1]


class TestHandcrafted:
    settings = dataclasses.replace(SMALL, spec=dataclasses.replace(SPEC, handcrafted=True), keep="last")

    def test_units_come_from_the_training_datasets_alone(self):
        data, target = toy()
        features = np.random.default_rng(3).normal(size=(6, 2, len(FEATURES)))
        given = {n: dataclasses.replace(d, handcrafted=f) for (n, d), f in zip(data.items(), features, strict=True)}
        a = train_siamese(given, target, settings=self.settings, held_out=["d2"])
        network = a.model.network
        rows = np.concatenate(features[[0, 1, 3, 4, 5]])
        np.testing.assert_allclose(network.handcrafted_centre.numpy(), np.median(rows, axis=0))
        given["d2"] = dataclasses.replace(given["d2"], handcrafted=features[2] * 50)
        assert weights(train_siamese(given, target, settings=self.settings, held_out=["d2"])) == weights(a)


def test_held_out_datasets_are_never_trained_on():
    data, target = toy()
    held = np.array([1, 4])
    target = target.copy()
    a = train_siamese(data, target, settings=dataclasses.replace(SMALL, keep="last"), held_out=["d1", "d4"])
    target[held] = target[:, held] = 0.77
    data["d1"].images[:] = 3
    b = train_siamese(data, target, settings=dataclasses.replace(SMALL, keep="last"), held_out=["d1", "d4"])
    assert a.model.hash == b.model.hash


def test_unknown_pairs_are_never_trained_on():
    data, target = toy(3)
    target[0, 1] = target[1, 0] = np.nan
    for sampling in ("pairs", "all_pairs"):
        run = SiameseRun(data, target, dataclasses.replace(SMALL, sampling=sampling), seed=0, held_out=(), device="cpu")
        for seed in range(30):
            networks, pairs = run.plan(np.random.default_rng(seed))
            assert not {(0, 1), (1, 0)} & {tuple(networks[pair]) for pair in pairs}
            assert all(networks[i] != networks[j] for i, j in pairs)


def test_a_step_uses_all_pairs_of_its_datasets_each_embedded_once():
    data, target = toy(10)
    run = SiameseRun(data, target, dataclasses.replace(SMALL, batch=8), seed=0, held_out=(), device="cpu")
    networks, pairs = run.plan(np.random.default_rng(0))
    assert len(set(networks.tolist())) == 8
    assert sorted(map(tuple, pairs.tolist())) == list(itertools.combinations(range(8), 2))


def test_loss_of_pairs_by_hand():
    points = torch.tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0]])
    pairs, wanted = torch.tensor([[0, 1], [1, 2]]), torch.tensor([4.0, 6.0])
    assert pair_loss(points, pairs, wanted, kind="absolute").item() == pytest.approx(5**0.5)
    assert pair_loss(points, pairs, wanted, kind="squared").item() == pytest.approx(2.5)
    assert pair_loss(points, pairs[:1], wanted[:1], kind="absolute").item() == pytest.approx(1)


def test_compare_by_hand():
    points = np.array([[0.0], [1.0], [3.0], [7.0], [2.0]], dtype=np.float32)
    target = np.abs(points - points.T).astype(np.float64)
    others = np.array([1, 2, 4])
    perfect = compare(points[[0, 3]], points[others], target[np.ix_([0, 3], others)])
    assert (perfect.loss, perfect.spearman, perfect.per_query) == (0, pytest.approx(1), pytest.approx(1))
    target[0, 1] = np.nan
    few = compare(points[:1], points[1:3], target[:1, 1:3])
    assert few.loss == 0
    assert np.isnan(few.spearman)
    others = np.array([0, 1, 2, 4])
    assert compare(points[3:4], points[others], -target[3:4, others]).per_query == pytest.approx(-1)


def test_whole_groups_are_held_out():
    names, groups = [f"n{i}" for i in range(10)], ["a", "a", "b", "b", "b", "c", "d", "e", "f", "g"]
    chosen = choose_held_out(names, groups, 0.3, seed=1)
    by_name = dict(zip(names, groups, strict=True))
    inside = {by_name[name] for name in chosen}
    assert {name for name in names if by_name[name] in inside} == set(chosen)
    assert 3 <= len(chosen) <= 5
    assert choose_held_out(names, groups, 0.3, seed=1) == chosen
    assert choose_held_out(names, groups, 0, seed=1) == ()


def test_gradient_of_a_step_equals_the_plain_one():
    data, target = toy(4)
    settings = dataclasses.replace(SMALL, precision="float32")
    run, other = (SiameseRun(data, target, settings, seed=3, held_out=(), device="cpu") for _ in range(2))
    run.advance()
    rng = np.random.default_rng([3, 0, 0])
    networks, pairs = other.plan(rng)
    points = other.embed_samples([other.sets[i].sample(rng, 12) for i in networks])
    losses = [(torch.dist(points[i], points[j]) - target[networks[i], networks[j]]).square() for i, j in pairs]
    torch.stack(losses).mean().backward()
    for a, b in zip(run.network.parameters(), other.network.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad, rtol=1e-3, atol=1e-6)


def test_a_loss_that_explodes_is_named():
    data, target = toy()
    with pytest.raises(UsageError, match=r"expected a finite loss, got .* Lower the learning rate"):
        train_siamese(data, target, settings=dataclasses.replace(SMALL, learning_rate=1e30, steps=50))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda d, t: (d, t[:3]), UsageError, r"expected `m x m` target distances, got shape \(3, 6\)"),
        (lambda d, t: (d, t * np.nan), UsageError, "expected a pair of training datasets"),
        (lambda d, t: (d | {"d1": LabelledImages(d["d1"].images, np.zeros(3, int))}, t), LabelError, "expected 40 integers"),
        (lambda d, t: (d | {"d1": LabelledImages(d["d1"].images / 255, d["d1"].labels)}, t), DataError, "d1: expected uint8"),
        (
            lambda d, t: (d | {"d1": LabelledImages(d["d1"].images, d["d1"].labels, np.array([], int))}, t),
            DataError,
            "d1: expected at least one image",
        ),
        (
            lambda d, t: (d | {"d1": LabelledImages(np.zeros((40, 9, 9, 3), np.uint8), d["d1"].labels)}, t),
            ModelMismatchError,
            "d1: expected images of 8 x 8",
        ),
    ],
)  # fmt: skip
def test_wrong_data_are_refused(change, error, message):
    data, target = change(*toy())
    with pytest.raises(error, match=message):
        train_siamese(data, target, settings=SMALL)


def test_unknown_held_out_name():
    data, target = toy()
    with pytest.raises(UsageError, match=r"expected held-out names among the 6 datasets, got \['x'\]"):
        train_siamese(data, target, settings=SMALL, held_out=["x"])
