"""Sources of images: files of manifests, downloads, and the datasets of torchvision."""
