"""Bundles: the content of a history without images, as a set of records that can be shared and merged."""
