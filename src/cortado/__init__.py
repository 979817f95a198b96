"""Cortado compiles PyTorch models ahead of time for Arm Cortex-M microcontrollers."""

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.2.0.dev0"

__all__ = [
    "Artifact",
    "Checked",
    "Compiled",
    "CompiledMethods",
    "CortadoError",
    "CortadoWarning",
    "Estimate",
    "Evaluation",
    "Model",
    "Options",
    "__version__",
    "compile",
    "compile_methods",
    "estimate",
    "evaluate",
    "load",
    "load_onnx",
    "prepare",
    "prepare_qat",
    "save_together",
]

_HOMES = {
    **dict.fromkeys(("compile", "prepare", "prepare_qat", "Model"), "api"),
    **dict.fromkeys(("Compiled", "evaluate"), "compiled"),
    **dict.fromkeys(("estimate", "Estimate"), "exploring"),
    **dict.fromkeys(("Artifact", "load"), "artifact.opened"),
    "Checked": "artifact.checked",
    "Evaluation": "scoring.scores",
    "save_together": "together",
    **dict.fromkeys(("compile_methods", "CompiledMethods"), "methods"),
    "load_onnx": "onnx.model",
    "Options": "options",
    "CortadoWarning": "base.errors",
    "CortadoError": "base.errors",
}
_MODULES = frozenset({"api", "options"})  # modules of the public interface


def quiet_libraries() -> None:
    """Silences torch's libraries, which on import log deprecations and missing GPU code that a user can't act on."""
    import logging

    for library in ("torch.utils._pytree", "torchao"):
        logging.getLogger(library).setLevel(logging.ERROR)


def __getattr__(name: str) -> "Any":
    """Imports `cortado.compile`, `cortado.api` and the like on first use: torch takes seconds."""
    quiet_libraries()
    if name in _MODULES:
        return importlib.import_module(f"cortado.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"cortado.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'cortado' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Returns the names that a prompt completes."""
    return sorted({*__all__, *_MODULES})
