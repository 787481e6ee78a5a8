"""The old path of `bo.space.papers`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(
    __name__,
    cnn_space="bo.space.papers:cnn_space",
    layered_space="bo.space.papers:layered_space",
    lbl_space="bo.space.papers:lbl_space",
    natural="bo.space.papers:natural",
)
