"""Search spaces of other tools keep their scales."""

import math

import pytest

from warmstart.history_store.errors import DataError
from warmstart.history_store.space_yaml import parse_space
from warmstart.spaces import read_space

WANDB = """
program: train.py
method: bayes
metric: {goal: maximize, name: val_acc}
parameters:
  lr: {distribution: log_uniform_values, min: 1e-5, max: 1e-1}
  wd: {distribution: log_uniform, min: -9.210340371976182, max: -2.302585092994046}
  dropout: {min: 0.0, max: 0.5}
  layers: {min: 1, max: 8}
  units: {distribution: q_log_uniform_values, min: 16, max: 512, q: 1}
  batch_size: {values: [16, 32, 64]}
  sizes: {distribution: q_uniform, min: 8, max: 32, q: 8}
  epochs: {value: 10}
  optimizer:
    parameters:
      name: {values: [sgd, adam]}
      momentum: {distribution: uniform, min: 0, max: 1}
"""
NNI = """{
  "lr": {"_type": "loguniform", "_value": [1e-5, 0.1]},
  "layers": {"_type": "randint", "_value": [1, 9]},
  "units": {"_type": "qloguniform", "_value": [16, 512, 1]},
  "size": {"_type": "quniform", "_value": [8, 32, 8]},
  "name": {"_type": "choice", "_value": ["sgd", "adam"]}
}"""
HYDRA = """
defaults: [{override hydra/sweeper: optuna}]
hydra:
  sweeper:
    n_trials: 20
    params:
      lr: tag(log, interval(1e-5, 0.1))
      model.layers: int(interval(1, 8))
      units: tag(log, int(interval(16, 512)))
      size: range(8, 40, step=8)
      depth: range(1, 9)
      name: choice(sgd, "adam, amsgrad")
      batch_size: 16,32,64
      epochs: 10
"""
OPTUNA = """{
  "lr": "{\\"name\\": \\"FloatDistribution\\", \\"attributes\\": {\\"step\\": null, \\"low\\": 1e-05, \\"high\\": 0.1, \\"log\\": true}}",
  "layers": {"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 1, "high": 8}},
  "name": {"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam"]}}
}"""


def described(space):
    """Return each hyperparameter as (bounds, whether logarithmic, whether whole) or its values."""
    return {
        name: (item.lower, item.upper, item.log, isinstance(item.lower, int))
        if hasattr(item, "lower")
        else tuple(getattr(item, "choices", None) or getattr(item, "sequence", None) or [item.value])
        for name, item in space.items()
    }


LR, LAYERS, NAME = (1e-5, 0.1, True, False), (1, 8, False, True), ("sgd", "adam")
UNITS, SIZE = (16, 512, True, True), (8, 16, 24, 32)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WANDB, {"lr": LR, "dropout": (0.0, 0.5, False, False), "layers": LAYERS, "units": UNITS, "batch_size": (16, 32, 64), "sizes": SIZE, "epochs": (10,), "optimizer.name": NAME, "optimizer.momentum": (0.0, 1.0, False, False)}),
        (NNI, {"lr": LR, "layers": LAYERS, "units": UNITS, "size": SIZE, "name": NAME}),
        (HYDRA, {"lr": LR, "model.layers": LAYERS, "units": UNITS, "size": SIZE, "depth": LAYERS, "name": ("sgd", "adam, amsgrad"), "batch_size": (16, 32, 64), "epochs": (10,)}),
        (OPTUNA, {"lr": LR, "layers": LAYERS, "name": NAME}),
    ],
)  # fmt: skip
def test_a_space_keeps_its_scales(text, expected):
    found = described(parse_space(text))
    if "wd" in found:
        low, high, *scale = found.pop("wd")
        assert (math.isclose(low, 1e-4), math.isclose(high, 0.1), scale) == (True, True, [True, False])
    assert found == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method: grid\nparameters:\n  lr: {distribution: normal, mu: 0, sigma: 1}\n", r"^w, line 3: parameters lr: expected values, min and max, or a distribution that is uniform or log_uniform, got 'normal'\. Write it in the short form"),
        ("parameters:\n  lr: {distribution: q_log_uniform_values, min: 1, max: 9, q: 2}\n", r"line 2: parameters lr: expected no step on a logarithmic scale"),
        ("parameters:\n  a: {value: 1}\n  lr: {min: 0.2, max: 0.1}\n", r"^w, line 3: lr float: expected two numbers, the lower one first"),
        ('{"lr": {"_type": "normal", "_value": [0, 1]}}', r"lr: expected choice, uniform, quniform, loguniform, qloguniform or randint, got 'normal'"),
        ("hydra: {sweeper: {params: {lr: 'glob(*)'}}}", r"hydra sweeper params lr: expected choice\(\.\.\.\), interval"),
    ],
)  # fmt: skip
def test_what_has_no_short_form_is_refused(text, message):
    with pytest.raises(DataError, match=message):
        parse_space(text, "w")


class Domain:
    """A stand-in for a domain of Ray Tune, with its attributes."""

    def __init__(self, sampler, **attributes):
        self.__dict__ |= attributes
        self._sampler = sampler

    def get_sampler(self):
        return self._sampler


def ray(kind, sampler, *, q=None, **attributes):
    made = type(sampler, (), {})()
    if q is not None:
        made = type("Quantized", (), {"sampler": made, "q": q})()
    return type(kind, (Domain,), {"__module__": "ray.tune.search.sample"})(made, **attributes)


def test_a_dict_of_ray_tune_keeps_its_scales():
    space = {
        "lr": ray("Float", "_LogUniform", lower=1e-5, upper=0.1),
        "model": {"layers": ray("Integer", "_Uniform", lower=1, upper=9)},
        "size": ray("Integer", "_Uniform", lower=8, upper=32, q=8),
        "name": ray("Categorical", "_Uniform", categories=["sgd", "adam"]),
        "batch_size": {"grid_search": [16, 32, 64]},
        "epochs": 10,
    }
    expected = {
        "lr": LR,
        "model.layers": LAYERS,
        "size": SIZE,
        "name": NAME,
        "batch_size": (16, 32, 64),
        "epochs": (10,),
    }
    assert described(read_space(space)) == expected
    with pytest.raises(DataError, match=r"space: lr: expected uniform, loguniform, .*, got 'Normal'"):
        read_space({"lr": ray("Float", "_Normal", lower=None, upper=None)})
