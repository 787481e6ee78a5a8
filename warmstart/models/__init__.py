"""Meta-feature models: train and evaluate them."""
