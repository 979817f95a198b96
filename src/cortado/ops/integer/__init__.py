"""Integers and truth values: arithmetic, reductions, logic."""
