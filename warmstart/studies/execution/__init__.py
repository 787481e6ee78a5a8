"""Who runs trials: workers, the processes of trials."""
