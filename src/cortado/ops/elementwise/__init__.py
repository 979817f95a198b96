"""Arithmetic, comparisons and functions, element by element."""
