"""Meta-features of image datasets: extractors, embedding, the model file, the index of nearest datasets."""
