"""The collection at own pixels: what is measured, in which order, and the tables made of it."""

import json

import numpy as np
import pytest
from pixels_frozen import HEADS, blocks_of, measure_heads, sizes_for
from pixels_prize import HEAD_KINDS, Table, prize, sizes
from pixels_tuned import CONFIGS, RECIPE, draw_configs, is_flat, runs_of, starting_head

from warmstart.metafeat.pretrained.depths import Features
from warmstart.metafeat.pretrained.heads import head_specs
from warmstart.training.workloads.transfer.frozen import measure_frozen


@pytest.mark.parametrize(
    ("native", "own", "beyond"),
    [
        (32, [64], [96, 128]),
        (64, [64], [96, 128]),
        (100, [64, 96, 128], []),
        (150, [64, 96, 128, 160], []),
        (200, [64, 96, 128, 160, 224], []),
        (256, [64, 96, 128, 160, 224], []),
    ],
)
def test_sizes_go_to_the_pictures_own_and_one_step_beyond(native, own, beyond):
    assert sizes_for(native) == (own, beyond)


def test_blocks_go_breadth_first_and_enlarged_ones_come_last():
    blocks = list(blocks_of(["large", "small"], {"large": 256, "small": 32}))
    assert len(blocks) == len(set(blocks)) == 12 + 3 + 4
    assert [block[0] for block in blocks[-4:]] == ["small"] * 4
    shared = [block[1:] for block in blocks if block[0] == "small" and block[2] == 64]
    assert all(blocks.index(("small", *each)) == blocks.index(("large", *each)) + 1 for each in shared)


def test_what_the_older_heads_have_wrong_is_counted_as_in_the_older_collection():
    rng, labels = np.random.default_rng(0), np.arange(60) % 3
    drawn = [(rng.normal(size=(60, d)) + np.eye(3, d)[labels]).astype(np.float32) for d in (6, 8, 70) * 2]
    features, flipped = Features(*drawn[:3]), Features(*drawn[3:])
    found, probabilities = measure_heads(features, flipped, labels, 3)
    older = measure_frozen(features, flipped, labels, n_classes=3)
    np.testing.assert_array_equal(found["wrong"][..., : len(head_specs()), :], older.wrong)
    np.testing.assert_array_equal(found["totals"], older.totals)
    assert found["wrong"].shape[-2] == len(HEADS)
    losses, counts = found["logistic_losses"][0, 0, 2, 0], found["logistic_wrong"][0, 0, 2, 0]
    best = counts[np.arange(2), losses.argmin(1)]
    np.testing.assert_array_equal(found["wrong"][0, 0, 2, 0, -2:], best)
    assert probabilities["logistic"].shape == (5, 4, 2, 60, 3)
    np.testing.assert_allclose(probabilities["logistic"].astype(float).sum(-1), 1, atol=2e-3)
    misses = (probabilities["logistic"][0, 2, 0].argmax(1) != labels).sum()
    assert misses == best[losses.min(1).argmin()].sum()  # no two classes alike in float16


def test_configurations_are_those_drawn_and_in_the_living_region():
    configs = draw_configs()
    assert configs == json.loads(CONFIGS.read_text())
    assert len(configs) == 24
    assert configs[0] == RECIPE
    highest = {"all": 3e-4, "last2": 1e-3, "last": 3e-3}
    for config in configs:
        assert 5e-5 <= config["body_rate"] <= min(highest[config["tuned_stages"]], config["learning_rate"])
        assert config["steps"] >= 40
        assert config["image_size"] in (96, 128, 160, 224)


def test_runs_go_breadth_first_and_small_pictures_come_last():
    natives = {"a": 256, "b": 32, "c": 150}
    runs = [(number, name) for number, name, _ in runs_of(sorted(natives), natives, draw_configs())]
    assert runs[:3] == [(0, "a"), (1, "a"), (2, "a")]  # at 224 pixels, which c has not
    assert runs[3:5] == [(3, "a"), (3, "c")]
    first = runs.index((3, "b"))
    assert {name for _, name in runs[first:]} == {"b"}
    assert [number for number, name in runs if name == "a"] == list(range(24))


def test_a_curve_is_flat_that_has_moved_by_one_picture_for_four_points():
    points = [(20.0, 9, 9), (40.0, 6, 5), (60.0, 6, 5), (80.0, 5, 5), (100.0, 5, 6)]
    assert is_flat(points, 0.6)
    assert not is_flat(points, 0.4)  # not half of the steps
    assert not is_flat([(each / 2, *missed) for each, *missed in points], 0.6)  # not a minute
    assert not is_flat([*points[:-1], (100.0, 7, 6)], 0.6)


@pytest.mark.parametrize("kind", ["ridge", "logistic", "best"])
def test_a_fine_tuning_starts_from_the_head_that_misses_fewer(kind):
    rng, labels = np.random.default_rng(0), np.arange(40) % 4
    rows = (rng.normal(size=(40, 30)) + 2 * np.eye(4, 30)[labels]).astype(np.float32)
    name, missed, head = starting_head(rows, labels, 4, kind)
    others = [starting_head(rows, labels, 4, each)[1] for each in ("ridge", "logistic")]
    assert missed <= min(others) if kind == "best" else missed in others
    assert name.startswith(("ridge", "logistic") if kind == "best" else kind)
    assert (head.scores(rows).argmax(1) == labels).mean() > 0.9


def test_similarity_is_worth_something_where_kinds_differ_and_missing_sizes_are_not_proposed():
    rng = np.random.default_rng(0)
    m, blocks = 24, (("tf_efficientnet_lite0", 64), ("tf_efficientnet_lite0", 224))
    kinds, native = rng.integers(0, 2, m), np.where(np.arange(m) % 4, 256, 64)
    errors = 0.3 + 0.01 * rng.normal(size=(m, 16))
    errors[np.arange(m), np.where(kinds, 2, 5)] -= 0.2
    halves = np.clip(errors[..., None] + 0.001 * rng.normal(size=(m, 16, 2)), 0, 1)
    halves[native == 64, 8:] = np.nan
    marks = np.column_stack([kinds, rng.random(m)]).astype(float)
    names = tuple(map(str, range(m)))
    by_head = dict.fromkeys(HEAD_KINDS, halves.mean(-1))
    table = Table(names, names, native, blocks, halves, by_head, marks)
    found = prize(table)["after 1"]["all"]
    assert found["gain over portfolio"]["joint"]["mean"] > 2 * found["gain over portfolio"]["joint"]["se"]
    assert found["gain over portfolio"]["joint-shuffled"]["mean"] < found["gain over portfolio"]["joint"]["mean"]
    by_size = sizes(table)
    assert set(by_size["224 and more"]["mean error"]) == {"64", "224"}
    assert set(by_size["below 128"]["mean error"]) == {"64"}
    assert by_size["224 and more"]["best or as good"]["64"] > by_size["224 and more"]["best or as good"]["224"]
