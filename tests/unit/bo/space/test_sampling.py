"""Designs of the unit cube."""

import itertools
from typing import get_args

import numpy as np
import pytest

from bo.space.sampling import Design, unit_points
from history_store.errors import UsageError


def draw(design, p, n, *, batches=1, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate(list(itertools.islice(unit_points(design, p, n=n, rng=rng), batches)))


@pytest.mark.parametrize("design", get_args(Design))
@pytest.mark.parametrize("n", [1, 5, 16])
def test_batches_double_and_repeat_under_a_seed(design, n):
    points = draw(design, 3, n, batches=4)
    first = len(draw(design, 3, n))
    assert first >= n
    assert points.shape == (8 * first, 3)
    assert np.all((points >= 0) & (points < 1))
    assert len(np.unique(points, axis=0)) == len(points)
    assert np.array_equal(points, draw(design, 3, n, batches=4))
    assert not np.array_equal(points, draw(design, 3, n, batches=4, seed=1))


def test_a_latin_hypercube_has_one_point_a_row_and_column():
    cells = np.sort((draw("latin", 4, 10)[:10] * 10).astype(int), axis=0)
    assert np.array_equal(cells, np.repeat(np.arange(10)[:, None], 4, axis=1))


@pytest.mark.parametrize(("design", "base"), [("sobol", (2, 2)), ("halton", (2, 3))])
def test_sequences_fill_the_elementary_cells(design, base):
    points = draw(design, 2, 36 if design == "halton" else 16, batches=1)[: 36 if design == "halton" else 16]
    for column, b in enumerate(base):
        counts = np.bincount((points[:, column] * b).astype(int))
        assert len(set(counts)) == 1


def test_no_dimensions_no_points():
    for design in get_args(Design):
        assert draw(design, 0, 3).shape[1] == 0
    assert len(draw("latin", 2, 0)) == 1


def test_no_such_design():
    with pytest.raises(UsageError, match=r"^design: expected one of uniform, latin, halton, sobol, got 'grid'\. Use"):
        draw("grid", 2, 3)
