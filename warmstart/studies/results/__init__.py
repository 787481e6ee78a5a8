"""Results of a study: trials, summary, comparison, report, progress."""
