"""The Siamese network on datasets that it has never seen: parts of the digits, decision trees as the target model."""

import numpy as np
import pytest

from warmstart.history_store.error_tables import target_distance
from warmstart.metafeat.model import MetaFeatureModel
from warmstart.metafeat.spec import ModelSpec
from warmstart.training.siamese.labelled_images import LabelledImages
from warmstart.training.siamese.settings import SiameseSettings
from warmstart.training.siamese.train import compare, train_siamese

pytestmark = pytest.mark.slow

N_SETS, N_TRAIN = 70, 50
GRID = [(depth, leaf) for depth in (1, 2, 4, 12) for leaf in (1, 4, 16, 48)]
SETTINGS = SiameseSettings(
    ModelSpec(image_size=8, tau=64),
    steps=300,
    sampling="all_pairs",
    batch=8,
    loss="squared",
    learning_rate=1e-3,
    schedule="cosine",
)


@pytest.fixture(scope="module")
def toys():
    """Datasets of 2 to 10 digits with label noise, pixel noise and imbalance, and the errors of sixteen trees on each."""
    from sklearn.datasets import load_digits
    from sklearn.tree import DecisionTreeClassifier

    pixels, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    data, errors = {}, np.zeros((N_SETS, len(GRID)))
    for i in range(N_SETS):
        classes = rng.choice(10, size=rng.integers(2, 11), replace=False)
        rows = rng.permutation(np.flatnonzero(np.isin(digits, classes)))[:300]
        labels = np.searchsorted(np.sort(classes), digits[rows])
        wrong = rng.random(len(rows)) < rng.uniform(0, 0.4)
        labels = np.where(wrong, rng.integers(0, len(classes), len(rows)), labels)
        images = (pixels[rows] * 15 + rng.normal(0, rng.uniform(0, 80), (len(rows), 64))).clip(0, 255).astype(np.uint8)
        half = len(rows) // 2
        for j, (depth, leaf) in enumerate(GRID):
            tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=leaf, random_state=0)
            tree.fit(images[:half], labels[:half])
            errors[i, j] = np.mean(tree.predict(images[half:]) != labels[half:])
        data[f"toy{i}"] = LabelledImages(images.reshape(-1, 8, 8, 1), labels)
    return data, errors


@pytest.fixture(scope="module")
def points(toys):
    """Embed all toys with networks trained on the first fifty, and with random ones: three seeds each."""
    data, errors = toys
    names, target = list(data), target_distance(errors)
    found = []
    for seed in range(3):
        trained = train_siamese(data, target, settings=SETTINGS, seed=seed, held_out=names[N_TRAIN:]).model
        models = (trained, MetaFeatureModel.random(SETTINGS.spec, seed=seed))
        found.append(
            [
                np.stack([m.embed(d.images, d.labels, rng=np.random.default_rng(seed)) for d in data.values()])
                for m in models
            ]
        )
    return found, target


def test_distances_to_unseen_datasets_rank_as_the_target_does(points):
    found, target = points
    held, others = np.arange(N_TRAIN, N_SETS), np.arange(N_TRAIN)
    trained, random = (
        np.mean([compare(seed[k][held], seed[k][others], target[np.ix_(held, others)]).spearman for seed in found])
        for k in (0, 1)
    )
    assert trained >= 0.6
    assert trained > random


def test_best_of_three_neighbours_halves_the_regret_of_random_starts(toys, points):
    errors = toys[1]
    rng = np.random.default_rng(1)
    ours, theirs = [], []
    for seed in points[0]:
        for i in range(N_TRAIN, N_SETS):
            near = np.argsort(np.linalg.norm(seed[0][:N_TRAIN] - seed[0][i], axis=1))[:3]
            ours.append(errors[i, errors[near].argmin(1)].min() - errors[i].min())
            theirs.append(errors[i, rng.choice(len(GRID), (50, 3))].min(1).mean() - errors[i].min())
    assert np.mean(ours) <= 0.5 * np.mean(theirs)
