"""The papers' spaces: how many hyperparameters, which are conditional, what stands behind the names."""

import numpy as np
import pytest

from warmstart.bo.space.encoding import Encoding
from warmstart.bo.space.papers import LAYERS, cnn_space, layered_space, lbl_space, natural
from warmstart.history_store.space import dump_space, load_space
from warmstart.training.workloads.cnn.space import target_space

SPACES = {
    "cnn": (cnn_space, 14, 0),
    "lbl": (lbl_space, 11, 1),
    "layered": (layered_space, 23, 20),
    "kim": (target_space, 6, 0),
}


@pytest.mark.parametrize(("build", "p", "conditional"), SPACES.values(), ids=SPACES)
def test_sizes_and_round_trips(build, p, conditional):
    encoding = Encoding(build())
    assert (encoding.p, encoding.d, len(encoding.conditional)) == (p, p, conditional)
    configs = encoding.decode(encoding.sample(100, rng=np.random.default_rng(0)))
    assert encoding.decode(encoding.encode(configs)) == configs
    assert Encoding(load_space(dump_space(build()))).encode(configs).shape == (100, p)


def test_ranges_as_printed():
    space = lbl_space()
    assert (space["learning_rate"].lower, space["learning_rate"].upper) == (1e-3, 10.0)
    assert space["embedding_size"].sequence == (50, 100, 200)
    assert (cnn_space()["input_init_sd"].lower, cnn_space()["hue_shift"].upper) == (0.01, 45.0)


def test_factors_exist_only_in_the_multiplicative_model():
    encoding = Encoding(lbl_space())
    for config in encoding.decode(encoding.sample(50, rng=np.random.default_rng(0))):
        assert ("factors" in config) == (config["model"] == "multiplicative")


def test_a_layer_has_its_hyperparameters_or_none_of_them():
    encoding = Encoding(layered_space())
    configs = encoding.decode(encoding.sample(200, rng=np.random.default_rng(0)))
    assert {config["num_layers"] for config in configs} == set(range(LAYERS + 1))
    for config in configs:
        assert len(config) == 3 + 4 * config["num_layers"]
        assert all(f"units_{i + 1}" in config for i in range(config["num_layers"]))


def test_natural_values():
    config = {
        "minus_log10_one_minus_momentum": 1.0,
        "minus_log10_learning_rate": 3,
        "log10_decay": -2.0,
        "hue_shift": 7.0,
    }
    found = natural(config)
    assert found == {"momentum": pytest.approx(0.9), "learning_rate": pytest.approx(1e-3), "decay": pytest.approx(0.01)}
