"""Pretrained networks of timm: their weights, their features, classifiers on these, and what such classifiers tell of a dataset."""
