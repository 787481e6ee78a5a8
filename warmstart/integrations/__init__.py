"""Adapters to other libraries, each imported only at use."""
