"""What commands do with a history: add to it, import into it, list it, measure it."""
