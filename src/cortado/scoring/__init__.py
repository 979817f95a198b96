"""Scores of a compiled model: on datasets, in several places side by side, and against the float model."""
