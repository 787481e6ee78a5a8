"""The old path of `history_store.external_import`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(
    __name__,
    carry_out="history_store.external_import:carry_out",
    plan_import="history_store.external_import:plan_import",
)
