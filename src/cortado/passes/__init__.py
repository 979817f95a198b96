"""CortexMPassManager and the pipeline from a quantized ExportedProgram to the lowered graph."""

from cortado.passes.base import ContextPass, CortexMPass, PassContext
from cortado.passes.manager import PIPELINE, CortexMPassManager

__all__ = ["PIPELINE", "ContextPass", "CortexMPass", "CortexMPassManager", "PassContext"]
