"""The old path of `bo.transfer.calibration`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(__name__, calibrate="bo.transfer.calibration:calibrate")
