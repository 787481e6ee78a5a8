"""Training of the Siamese network: settings, checkpoints and curves."""
