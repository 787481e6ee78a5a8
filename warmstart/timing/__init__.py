"""Time of runs: forecasts of durations, short runs on this machine, and plans within a limit."""
