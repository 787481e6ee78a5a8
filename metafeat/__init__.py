"""Meta-features of image datasets: extractors, the model file, the index."""
