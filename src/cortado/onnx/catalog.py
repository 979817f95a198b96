"""The operators of ONNX that can be read: all builders, from the files in which they stand."""

from collections.abc import Mapping

from cortado.onnx import elementwise, layers, movement, pools, quantized, recurrent, reductions
from cortado.onnx.node import REGISTRY, Registered

FAMILIES = (elementwise, layers, movement, pools, quantized, recurrent, reductions)


def registered() -> Mapping[str, Registered]:
    """By their names in ONNX."""
    return REGISTRY
