"""Cortado compiles PyTorch models ahead of time for Arm Cortex-M microcontrollers."""

import importlib
from typing import Any

__version__ = "0.1.0"

__all__ = ["Compiled", "__version__", "compile"]


def __getattr__(name: str) -> Any:
    """`cortado.compile` and `cortado.Compiled`, imported on first use: torch takes seconds."""
    if name in ("compile", "Compiled"):
        return getattr(importlib.import_module("cortado.api"), name)
    raise AttributeError(f"module 'cortado' has no attribute '{name}'")
