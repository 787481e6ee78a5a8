"""A folder of pictures in, a classifier out."""
