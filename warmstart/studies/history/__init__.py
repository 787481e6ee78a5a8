"""What a study takes from a history, and gives back to it."""
