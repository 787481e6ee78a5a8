import math

import numpy as np
import pytest
import torch

from warmstart.history_store.errors import LabelError
from warmstart.history_store.records import Status
from warmstart.history_store.splits import TRAIN, VAL
from warmstart.training.workloads.cnn.budget import Budget
from warmstart.training.workloads.cnn.train import TargetData, train_target

TINY = Budget("tiny", updates=6, decay_updates=1_000, curve_points=3)
CONFIG = {
    "log10_learning_rate": -3.0,
    "log10_decay_rate": -4.0,
    "batch_size": 8,
    "num_layers_conv": 1,
    "num_layers_fc": 1,
    "dropout_rate": 0.5,
}


def tiny_data(n: int = 40, size: int = 8, classes: int = 3, channels: int = 1) -> TargetData:
    rng = np.random.default_rng(0)
    labels = (np.arange(n) % classes).astype(np.int64)
    images = rng.integers(0, 60, (n, size, size, channels))
    images[np.arange(n), 0, labels * 2] += 180
    split = np.where(np.arange(n) % 4 == 3, VAL, TRAIN).astype(np.int8)
    return TargetData.of(images.astype(np.uint8), labels, split, n_classes=classes)


def test_the_validation_part_does_not_touch_the_scale() -> None:
    images = np.zeros((4, 8, 8, 1), np.uint8)
    images[1] = 200
    images[3] = 255
    split = np.array([TRAIN, TRAIN, TRAIN, VAL], np.int8)
    data = TargetData.of(images, np.array([0, 1, 0, 1]), split, n_classes=2)
    mean, std = 200 / 255 / 3, torch.tensor([0.0] * 128 + [200 / 255] * 64).std()
    assert data.val_images.unique().item() == pytest.approx(float((1 - mean) / std), rel=1e-5)


@pytest.mark.parametrize("split", [[TRAIN, TRAIN, TRAIN, 2], [TRAIN, VAL, VAL, VAL]])
def test_refuses_parts_that_are_too_small(split: list[int]) -> None:
    with pytest.raises(LabelError, match="expected at least 2 training images and 1 validation image"):
        TargetData.of(np.zeros((4, 8, 8, 1), np.uint8), np.zeros(4, np.int64), np.array(split, np.int8), n_classes=2)


def test_constant_error_by_hand() -> None:
    labels = np.array([0, 0, 1, 0, 1, 1, 1])
    split = np.array([0, 0, 0, 1, 1, 1, 1], np.int8)
    data = TargetData.of(np.zeros((7, 8, 8, 1), np.uint8), labels, split, n_classes=2)
    assert data.constant_error() == 0.75


def test_a_run_learns_and_tells_its_curve() -> None:
    result = train_target(tiny_data(), {**CONFIG, "dropout_rate": 0.0}, Budget("b", updates=60, curve_points=4), seed=0)
    assert result.status is Status.OK
    assert [step for step, _ in result.curve] == [15, 30, 45, 60]
    assert result.curve[-1][1] == result.error < tiny_data().constant_error()
    assert result.duration > 0
    assert result.images_per_s > 0


def test_learning_rate_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """lr_t = 10^l0 exp(-10^η t), with t on the budget's clock."""
    from warmstart.training.workloads.cnn.train import _Run

    rates = []
    update = _Run.update
    monkeypatch.setattr(_Run, "update", lambda self, rows, rate: (rates.append(rate), update(self, rows, rate))[1])
    train_target(tiny_data(), CONFIG, Budget("b", updates=4, decay_updates=40_000), seed=0)
    assert rates == pytest.approx([1e-3, 1e-3 * math.exp(-1), 1e-3 * math.exp(-2), 1e-3 * math.exp(-3)])
    rates.clear()
    train_target(tiny_data(), CONFIG, Budget("b", updates=3), seed=0)
    assert rates == pytest.approx([1e-3 * math.exp(-1e-4 * t) for t in range(3)])


def test_an_epoch_is_every_image_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from warmstart.training.workloads.cnn.train import _Run

    rows = []
    update = _Run.update
    monkeypatch.setattr(
        _Run, "update", lambda self, batch, rate: (rows.append(batch.tolist()), update(self, batch, rate))[1]
    )
    train_target(tiny_data(), {**CONFIG, "batch_size": 15}, Budget("b", updates=4), seed=0)
    assert sorted(rows[0] + rows[1]) == sorted(rows[2] + rows[3]) == list(range(30))
    assert rows[:2] != rows[2:], "the order is new in every epoch"


def test_divergence_has_the_error_of_a_constant_prediction() -> None:
    data = tiny_data()
    result = train_target(data, {**CONFIG, "log10_learning_rate": 30.0, "dropout_rate": 0.0}, TINY, seed=0)
    assert result.status is Status.DIVERGED
    assert result.error == data.constant_error()
    assert all(math.isfinite(error) for _, error in result.curve)


def test_seed_decides() -> None:
    first, again, other = (train_target(tiny_data(200), CONFIG, TINY, seed=seed) for seed in (1, 1, 2))
    assert first.curve == again.curve
    assert first.error == again.error
    assert other.curve != first.curve


def test_fast_and_eager_routes_start_alike() -> None:
    """Same weights, order and dropout: only the arithmetic differs, by bfloat16's rounding."""
    budget = Budget("b", updates=1, curve_points=1)
    fast = train_target(tiny_data(400), {**CONFIG, "dropout_rate": 0.0}, budget, seed=0)
    eager = train_target(tiny_data(400), {**CONFIG, "dropout_rate": 0.0}, budget, seed=0, route="eager")
    assert fast.error == pytest.approx(eager.error, abs=0.1)


@pytest.mark.gpu
def test_gpu_trains() -> None:
    data = tiny_data(200)
    on_gpu = TargetData(
        *(x.cuda() for x in (data.images, data.labels, data.val_images, data.val_labels)), data.n_classes
    )
    assert train_target(on_gpu, CONFIG, TINY, seed=0).status is Status.OK
