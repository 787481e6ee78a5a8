"""Pictures, one module each, in one style. matplotlib (the extra ``plots``) is imported only to draw."""
