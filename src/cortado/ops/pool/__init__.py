"""Pools, reductions, norms: how windows and rows become one number."""
