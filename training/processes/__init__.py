"""Child processes that end with their parent and leave nothing running."""
