"""The old path of `bo.transfer.strategies`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(
    __name__,
    STRATEGIES="bo.transfer.strategies:STRATEGIES",
)
