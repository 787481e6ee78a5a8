"""Pictures, one file a picture, in one style. matplotlib (the extra ``plots``) is imported where a figure is made."""
