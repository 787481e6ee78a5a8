"""What a study came to: trials, summary, comparison, report, progress."""
