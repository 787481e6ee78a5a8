"""The record: spaces, image datasets and their readers, configurations, evaluations. No torch."""
