"""Objectives: what one trial evaluates, and what came out."""
