"""Acquisition functions, pending evaluations, cost, and the search for the point that maximises an acquisition."""
