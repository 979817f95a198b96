"""Pools, reductions, norms: operators that reduce windows and rows to one number."""
