"""CortexMPassManager and the pipeline from a quantized ExportedProgram to the lowered graph."""

from cortado.passes.base import CortexMPass
from cortado.passes.manager import PIPELINE, CortexMPassManager

__all__ = ["PIPELINE", "CortexMPass", "CortexMPassManager"]
