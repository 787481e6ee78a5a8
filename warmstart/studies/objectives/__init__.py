"""Objectives: how one trial is evaluated, and its outcome."""
