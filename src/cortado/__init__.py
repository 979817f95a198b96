"""Cortado compiles PyTorch models ahead of time for Arm Cortex-M microcontrollers."""

import importlib
from typing import Any

__version__ = "0.1.0"

__all__ = ["Compiled", "CortadoError", "Model", "Options", "__version__", "compile", "prepare", "prepare_qat"]

_HOMES = {
    **dict.fromkeys(("compile", "prepare", "prepare_qat", "Compiled", "Model"), "api"),
    "Options": "options",
    "CortadoError": "base.errors",
}
_MODULES = frozenset({"api", "options"})  # that a user is told of


def __getattr__(name: str) -> Any:
    """`cortado.compile`, `cortado.api` and their like, imported on first use: torch takes seconds."""
    if name in _MODULES:
        return importlib.import_module(f"cortado.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"cortado.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'cortado' has no attribute '{name}'")
