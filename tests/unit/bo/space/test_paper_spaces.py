"""The papers' spaces: how many hyperparameters, which are conditional, what stands behind the names."""

import numpy as np
import pytest

from warmstart.bo.space.encoding import Encoding
from warmstart.bo.space.papers import cnn_space, layered_space, lbl_space, natural
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


def test_natural_values():
    config = {
        "minus_log10_one_minus_momentum": 1.0,
        "minus_log10_learning_rate": 3,
        "log10_decay": -2.0,
        "hue_shift": 7.0,
    }
    found = natural(config)
    assert found == {"momentum": pytest.approx(0.9), "learning_rate": pytest.approx(1e-3), "decay": pytest.approx(0.01)}
