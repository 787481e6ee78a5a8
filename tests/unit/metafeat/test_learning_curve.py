import numpy as np
import pytest

from warmstart.metafeat.pretrained.logistic import CurvePoint, forecast_error, learning_curve


def test_errors_fall_with_more_images_and_the_first_fold_is_always_measured():
    rng = np.random.default_rng(0)
    labels = np.arange(240) % 4
    rows = (np.eye(4)[labels] @ rng.normal(size=(4, 60)) + 4 * rng.normal(size=(240, 60))).astype(np.float32)
    curve = learning_curve(rows, labels, n_classes=4, rng=rng)
    assert [point.n for point in curve] == [64, 128, 192]
    assert curve[0].error > curve[1].error > curve[2].error > 0
    assert {point.judged_by for point in curve} == {240}
    short = learning_curve(rows, labels, n_classes=4, rng=rng, seconds=0)
    assert [(point.n, point.judged_by) for point in short] == [(64, 48), (128, 48), (192, 48)]
    assert learning_curve(rows[:4], labels[:4], n_classes=4, rng=rng) == []


@pytest.mark.parametrize(("last", "low", "high"), [(0.05, 0.033, 0.045), (0.10, 0.043, 0.05), (0.2, 0.05, 0.05)])
def test_a_forecast_follows_the_curve(last, low, high):
    curve = [CurvePoint(100, 0.10, 1000), CurvePoint(200, (0.10 + last) / 2, 1000), CurvePoint(300, last, 1000)]
    assert low <= forecast_error(curve, 0.05) <= high
