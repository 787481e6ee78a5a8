"""The old path of saved networks; see `training.workloads.cnn.classifier`."""

from history_store.deprecation import forward

__getattr__ = forward(
    __name__, Networks="training.workloads.cnn.classifier:Networks", Member="training.workloads.base:Member"
)
