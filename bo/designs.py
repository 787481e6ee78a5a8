"""The old path of `bo.transfer.designs`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(__name__, initial_designs="bo.transfer.designs:initial_designs")
