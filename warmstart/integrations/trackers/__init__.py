"""Live trackers: what becomes of a study's trials in other programs, while they run."""
