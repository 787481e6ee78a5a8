"""The readers, one a layout; `history_store.images` is the door to them."""
