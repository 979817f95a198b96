"""A chip behind a debug probe: its identification, its firmware, and runs on it."""
