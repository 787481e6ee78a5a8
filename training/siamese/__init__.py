"""The Siamese network: its training, settings, checkpoints and curves."""
