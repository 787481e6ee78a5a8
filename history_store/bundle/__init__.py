"""Bundles: what a history knows, images apart, as a set of records that can be shared and merged."""
