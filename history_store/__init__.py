"""The record: datasets, configurations, evaluations. No torch."""
