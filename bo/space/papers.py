"""Search spaces of the papers; the one of [Kim2017warmstart] lies with its workload.

Their parameterisations are part of a hyperparameter's name: `log10_x` stands for x = 10^v, `minus_log10_x` for x =
0.1^v, `minus_log10_one_minus_x` for x = 1 - 0.1^v. `natural` returns x.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warmstart.history_store import space as record
from warmstart.history_store.records import Config

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

LAYERS = 5
"""Most hidden layers of `layered_space`."""


def cnn_space() -> ConfigurationSpace:
    """Return the 14 hyperparameters of the convolutional network of [Snoek2015scalable], Table 6, ranges as printed."""
    from ConfigSpace import ConfigurationSpace, Float

    space = ConfigurationSpace(name="cnn-14")
    space.add(
        Float("minus_log10_one_minus_momentum", (0.5, 2.0)),
        Float("minus_log10_learning_rate", (1.0, 4.0)),
        Float("minus_log10_weight_decay", (2.0, 5.0)),
        Float("init_sd", (0.5, 1.5)),
        Float("input_init_sd", (0.01, 1.0)),
        Float("hue_shift", (0.0, 45.0)),
        Float("saturation_scale", (0.0, 0.5)),
        Float("saturation_shift", (0.0, 0.5)),
        Float("value_scale", (0.0, 0.5)),
        Float("value_shift", (0.0, 0.5)),
        Float("pixel_dropout", (0.0, 0.3)),
        Float("scaling", (0.0, 0.3)),
        Float("dropout_1", (0.0, 0.7)),
        Float("dropout_2", (0.0, 0.7)),
    )
    return space


def lbl_space() -> ConfigurationSpace:
    """Return the 11 hyperparameters of the log-bilinear captioning model of [Snoek2015scalable].

    The number of factors exists only in the multiplicative model.
    """
    from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

    space = ConfigurationSpace(name="lbl-11")
    model, factors = Categorical("model", ["additive", "multiplicative"]), Integer("factors", (50, 200))
    space.add(
        model,
        factors,
        Integer("context_size", (3, 25)),
        Float("learning_rate", (1e-3, 10.0), log=True),
        Float("momentum", (0.0, 0.9)),
        Integer("batch_size", (20, 200)),
        Integer("hidden_size", (100, 2000)),
        Categorical("embedding_size", [50, 100, 200], ordered=True),
        Float("dropout", (0.0, 0.7)),
        Float("word_decay", (1e-9, 1e-3), log=True),
        Float("context_decay", (1e-9, 1e-3), log=True),
        EqualsCondition(factors, model, "multiplicative"),
    )
    return space


def layered_space() -> ConfigurationSpace:
    """Return a space of networks with 0 to 5 hidden layers and up to 23 hyperparameters, as in [Swersky2013raiders].

    The paper prints these two numbers and no list. This list: layers, learning rate and momentum, and for each active
    layer its units, dropout, weight decay and initial standard deviation.
    """
    from ConfigSpace import ConfigurationSpace, Float, GreaterThanCondition, Integer

    space = ConfigurationSpace(name="layered-23")
    layers = Integer("num_layers", (0, LAYERS))
    space.add(layers, Float("learning_rate", (1e-4, 1.0), log=True), Float("momentum", (0.0, 0.99)))
    for i in range(LAYERS):
        layer = [
            Integer(f"units_{i + 1}", (16, 2048), log=True),
            Float(f"dropout_{i + 1}", (0.0, 0.8)),
            Float(f"weight_decay_{i + 1}", (1e-8, 1e-1), log=True),
            Float(f"init_sd_{i + 1}", (1e-3, 1.0), log=True),
        ]
        space.add(*layer)
        space.add(*(GreaterThanCondition(child, layers, i) for child in layer))
    return space


def natural(config: Config) -> dict[str, float]:
    """Return a configuration without logarithms: `minus_log10_one_minus_momentum` 1 becomes `momentum` 0.9."""
    values = record.natural(config)
    for name, value in config.items():
        if name.startswith("minus_log10_") and isinstance(value, int | float):
            power, behind = 10.0 ** -float(value), name.removeprefix("minus_log10_")
            is_complement = behind.startswith("one_minus_")
            values[behind.removeprefix("one_minus_")] = 1.0 - power if is_complement else power
    return values
