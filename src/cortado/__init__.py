"""Cortado compiles PyTorch models ahead of time for Arm Cortex-M microcontrollers."""

import importlib
from typing import Any

__version__ = "0.1.0"

__all__ = ["Compiled", "CortadoError", "Options", "__version__", "compile"]

_HOMES = {"compile": "api", "Compiled": "api", "Options": "options", "CortadoError": "errors"}


def __getattr__(name: str) -> Any:
    """`cortado.compile` and its like, imported on first use: torch takes seconds."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"cortado.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'cortado' has no attribute '{name}'")
