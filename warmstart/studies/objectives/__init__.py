"""Objectives: functions, commands and workloads to evaluate, and the outcome of a trial."""
