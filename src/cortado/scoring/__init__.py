"""Scores of a compiled model: on datasets, across the places where it runs, and against the float model."""
