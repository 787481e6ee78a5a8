"""Adapters to other libraries. Each is imported only where it is used, and then needs its library."""
