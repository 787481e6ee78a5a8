"""Sources of images: what a manifest names, downloaded, and the datasets of torchvision."""
