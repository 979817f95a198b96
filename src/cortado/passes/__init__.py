"""CortexMPassManager and the pipeline from a quantized ExportedProgram to the lowered graph."""

from cortado.passes.base import ContextPass, CortexMPass, PassContext
from cortado.passes.manager import PIPELINE, TRIED, CortexMPassManager

__all__ = ["PIPELINE", "TRIED", "ContextPass", "CortexMPass", "CortexMPassManager", "PassContext"]
