"""Pretrained networks of timm: weights, features, classifiers on the features, and landmark features of datasets."""
