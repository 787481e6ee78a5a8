import numpy as np
import pytest

from warmstart.plots.labels import place_labels, spread

AREA = (0.0, 0.0, 600.0, 400.0)


def hidden(centres, sizes):
    """Count pairs of boxes that overlap."""
    half = np.asarray(sizes) / 2
    apart = np.abs(centres[:, None] - centres[None]) - (half[:, None] + half[None])
    return int(np.triu(np.all(apart < 0, axis=2), 1).sum())


def test_labels_of_a_crowd_hide_neither_each_other_nor_the_points():
    points = np.random.default_rng(0).normal([300, 200], [60, 30], (60, 2))
    sizes = np.tile([60.0, 9.0], (60, 1))
    centres = place_labels(points, sizes, area=AREA, mark_size=4)
    assert hidden(centres, sizes) == 0
    assert not np.any(np.all(np.abs(points[:, None] - centres[None]) < [30 + 4, 4.5 + 4], axis=2))
    assert np.all(centres - sizes / 2 >= [0, 0])
    assert np.all(centres + sizes / 2 <= [600, 400])
    assert np.array_equal(centres, place_labels(points, sizes, area=AREA, mark_size=4))


def test_a_label_alone_stands_beside_its_point():
    (centre,) = place_labels([[300.0, 200.0]], [[40.0, 10.0]], area=AREA)
    assert np.linalg.norm(centre - [300, 200]) < 40
    assert not np.all(np.abs(centre - [300, 200]) < [20 + 5, 5 + 5])


def test_nothing_to_place():
    assert place_labels([], [], area=AREA).shape == (0, 2)
    assert spread([], 1.0).shape == (0,)


def test_spread_by_hand():
    assert spread([5.0, 5.0], 2.0) == pytest.approx([4, 6])
    assert spread([0.0, 10.0, 20.0], 2.0) == pytest.approx([0, 10, 20])
    assert spread([3.0, 1.0, 2.0], 4.0) == pytest.approx([6, -2, 2])
    assert spread([1.0, 1.0, 9.0], 2.0, low=1.0, high=9.0) == pytest.approx([1, 3, 9])
    assert spread([9.0, 9.0, 9.0], 2.0, low=0.0, high=9.0) == pytest.approx([5, 7, 9])


def test_spread_moves_least():
    from scipy.optimize import minimize

    wanted, gap = np.array([0.0, 0.5, 0.7, 4.0, 4.1]), 1.0
    rules = [{"type": "ineq", "fun": lambda x, i=i: x[i + 1] - x[i] - gap} for i in range(4)]
    best = minimize(lambda x: np.sum((x - wanted) ** 2), np.arange(5.0), constraints=rules)
    assert spread(wanted, gap) == pytest.approx(best.x, abs=1e-4)
