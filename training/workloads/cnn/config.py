"""Configuration of the target network: six numbers, cast to the types of the training. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from warmstart.history_store.errors import DataError
from warmstart.history_store.records import Config
from warmstart.training.workloads.cnn.space import HYPERPARAMETERS

FC_WIDTH = 256
BASE_FILTERS = 32


@dataclass(frozen=True, slots=True)
class TargetConfig:
    """Configuration of the target network, cast to the types of the training.

    Attributes:
        learning_rate: of Adam at step 0.
        decay_rate: of the exponential decay, per update.
        batch_size: images of an update, ≥ 1.
        n_conv: convolutional layers, 1 .. 9.
        n_fc: hidden fully connected layers, 1 .. 3; the classifier follows them.
        dropout: rate after each hidden fully connected layer, in [0, 1).
    """

    learning_rate: float
    decay_rate: float
    batch_size: int
    n_conv: int
    n_fc: int
    dropout: float

    @classmethod
    def of(cls, config: Config) -> TargetConfig:
        """Cast a configuration of the history; reals become integers by truncation.

        Raises:
            DataError: when a hyperparameter is missing or not a number in its range.
        """
        try:
            rate, decay, batch, n_conv, n_fc, dropout = (float(config[name]) for name in HYPERPARAMETERS)
            cast = cls(10.0**rate, 10.0**decay, int(batch), int(n_conv), int(n_fc), dropout)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            msg = f"target network: expected numbers for {', '.join(HYPERPARAMETERS)}, got {dict(config)}. The space must be the target network's."
            raise DataError(msg) from error
        if not (cast.batch_size >= 1 and 1 <= cast.n_conv <= 16 and 1 <= cast.n_fc <= 16 and 0 <= dropout < 1):
            msg = f"target network: expected batch_size ≥ 1, 1 to 16 layers and 0 ≤ dropout_rate < 1, got {dict(config)}. Correct the configuration."
            raise DataError(msg)
        return cast


def filters(n_conv: int) -> list[int]:
    """Return the filters of each layer, doubling to the middle and back: 5 layers have 32, 64, 128, 64, 32."""
    return [BASE_FILTERS * 2 ** min(i, n_conv - 1 - i) for i in range(n_conv)]


def multiply_adds(config: TargetConfig, *, channels: int, size: int) -> int:
    """Count the multiply-adds of the network for one image, without the classifier."""
    width, side, total = channels, size, 0
    for n_filters in filters(config.n_conv):
        total += 9 * width * n_filters * side * side
        width = n_filters
        if side >= 2:
            side //= 2
    width *= side * side
    for _ in range(config.n_fc):
        total += width * FC_WIDTH
        width = FC_WIDTH
    return total
