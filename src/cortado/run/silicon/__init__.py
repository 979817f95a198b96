"""A chip behind a debug probe: what it is, the firmware for it, a run on it."""
