"""Processes that never outlive their parent, and leave nothing behind."""
