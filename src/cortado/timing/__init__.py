"""Cycles: models of the cores' timing, over what the emulator counts exactly."""
