"""Space of the target network [Kim2017warmstart], with the published batch sizes and with small ones.

ConfigSpace is imported on use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from warmstart.history_store.errors import UsageError

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

SpaceName = Literal["compact", "paper"]
SPACES: tuple[SpaceName, ...] = get_args(SpaceName)
HYPERPARAMETERS = (
    "log10_learning_rate",
    "log10_decay_rate",
    "batch_size",
    "num_layers_conv",
    "num_layers_fc",
    "dropout_rate",
)
"""Names of the six hyperparameters."""


def target_space(name: SpaceName = "compact") -> ConfigurationSpace:
    """Build the six-dimensional space of the target network [Kim2017warmstart].

    `paper` has the published ranges, whose batches of 100 to 400 suit tens of thousands of images. `compact`
    differs in the batch size alone (8 to 32), so that a batch stays below the training part of a few hundred images.

    Raises:
        UsageError: when the name is neither of the two.
    """
    from ConfigSpace import ConfigurationSpace, Float, Integer

    batches = {"compact": (8, 32), "paper": (100, 400)}
    if name not in batches:
        msg = f"target_space: expected 'compact' or 'paper', got {name!r}. Give a ConfigSpace JSON file for another space."
        raise UsageError(msg)
    space = ConfigurationSpace(name=f"target-cnn-{name}")
    space.add(
        Float("log10_learning_rate", (-5.0, 0.0)),
        Float("log10_decay_rate", (-8.0, -4.0)),
        Integer("batch_size", batches[name]),
        Integer("num_layers_conv", (1, 9)),
        Integer("num_layers_fc", (1, 3)),
        Float("dropout_rate", (0.0, 0.9)),
    )
    return space
