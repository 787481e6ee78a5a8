"""A configuration of the target network: six numbers of a history, cast to what is trained. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from history_store.errors import DataError
from history_store.records import Config


@dataclass(frozen=True, slots=True)
class TargetConfig:
    """A configuration of the target network, cast to what is trained.

    Attributes:
        learning_rate: of Adam at step 0.
        decay_rate: of the exponential decay, per update.
        batch_size: images an update, ≥ 1.
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
        """Read a configuration of the history; reals become integers by cutting off.

        Raises:
            DataError: when a hyperparameter is missing or not a number in its range.
        """
        names = (
            "log10_learning_rate",
            "log10_decay_rate",
            "batch_size",
            "num_layers_conv",
            "num_layers_fc",
            "dropout_rate",
        )
        try:
            rate, decay, batch, n_conv, n_fc, dropout = (float(config[name]) for name in names)
        except (KeyError, TypeError, ValueError) as error:
            msg = f"target network: expected numbers for {', '.join(names)}, got {dict(config)}. The space must be the target network's."
            raise DataError(msg) from error
        cast = cls(10.0**rate, 10.0**decay, int(batch), int(n_conv), int(n_fc), dropout)
        if not (cast.batch_size >= 1 and 1 <= cast.n_conv <= 16 and 1 <= cast.n_fc <= 16 and 0 <= dropout < 1):
            msg = f"target network: expected batch_size ≥ 1, 1 to 16 layers and 0 ≤ dropout_rate < 1, got {dict(config)}. Correct the configuration."
            raise DataError(msg)
        return cast
