"""The Siamese network: its training, settings, checkpoints and curves."""

from history_store.deprecation import forward

__getattr__ = forward(__name__, train_from_history="training.siamese.from_history:train_from_history")
