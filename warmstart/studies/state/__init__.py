"""What a study keeps: its specification, its trials, its locks, its storage."""
