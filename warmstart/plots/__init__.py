"""Pictures, one file a picture, in one style. Only what draws imports matplotlib (the extra ``plots``)."""
