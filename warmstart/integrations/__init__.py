"""Adapters to other libraries, one file a library; each needs that library, and nothing else loads them."""
