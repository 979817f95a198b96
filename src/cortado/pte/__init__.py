"""Reads a .pte without torch, bounds-checked."""
