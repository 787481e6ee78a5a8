"""The old path of `bo.transfer.strategies`; it goes with the next release."""

from history_store.moved import forward

__getattr__ = forward(
    __name__,
    STRATEGIES="bo.transfer.strategies:STRATEGIES",
)
