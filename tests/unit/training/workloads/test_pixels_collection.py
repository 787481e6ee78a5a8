"""The collection at own pixels: what is measured, in which order, and the tables made of it."""

import numpy as np
from pixels_frozen import HEADS, measure_heads

from warmstart.metafeat.pretrained.depths import Features
from warmstart.metafeat.pretrained.heads import head_specs
from warmstart.training.workloads.transfer.frozen import measure_frozen


def test_what_the_older_heads_have_wrong_is_counted_as_in_the_older_collection():
    rng, labels = np.random.default_rng(0), np.arange(30) % 3
    drawn = [(rng.normal(size=(30, d)) + np.eye(3, d)[labels]).astype(np.float32) for d in (6, 8, 70) * 2]
    features, flipped = Features(*drawn[:3]), Features(*drawn[3:])
    found, probabilities = measure_heads(features, flipped, labels, 3)
    older = measure_frozen(features, flipped, labels, n_classes=3)
    np.testing.assert_array_equal(found["wrong"][..., : len(head_specs()), :], older.wrong)
    np.testing.assert_array_equal(found["totals"], older.totals)
    assert found["wrong"].shape[-2] == len(HEADS)
    losses, counts = found["logistic_losses"][0, 0, 2, 0], found["logistic_wrong"][0, 0, 2, 0]
    best = counts[np.arange(2), losses.argmin(1)]
    np.testing.assert_array_equal(found["wrong"][0, 0, 2, 0, -2:], best)
    assert probabilities["logistic"].shape == (5, 4, 2, 30, 3)
    np.testing.assert_allclose(probabilities["logistic"].astype(float).sum(-1), 1, atol=2e-3)
    misses = (probabilities["logistic"][0, 2, 0].argmax(1) != labels).sum()
    assert misses == best[losses.min(1).argmin()].sum()  # no two classes alike in float16
