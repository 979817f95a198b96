"""What a bundle is fed for an input of the model, without torch: a firmware box need not have it.

The exact reference says the same, and where there is torch it is asked; the tests hold one to the other.
"""

import numpy as np

from cortado.artifact.report import TensorReport
from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError

_LOWEST, _HIGHEST = -128, 127


def fed(tensor: TensorReport, value: ArrayType) -> ArrayType:
    """One input, checked already, as the bundle holds it: its codes, in its order of dimensions."""
    found = _coded(tensor, value) if tensor.scale is not None else value.astype(tensor.dtype.value)
    if len(tensor.layout) == found.ndim:
        found = found.transpose(tensor.layout)
    if found.shape != tensor.shape:
        raise CortadoError(
            f"input '{tensor.name}' lies in the bundle as {list(tensor.shape)}, made of {list(value.shape)} in a way "
            "that only the reference knows, which needs torch: pip install torch"
        )
    return np.ascontiguousarray(found)


def _coded(tensor: TensorReport, value: ArrayType) -> ArrayType:
    """Rounded to nearest, ties to even, as MODEL_quantize does."""
    if value.dtype == np.int8:
        return value
    with np.errstate(over="ignore"):  # infinity is the last code, as any large number
        steps = value.astype(np.float32) * (np.float32(1) / np.float32(tensor.scale))
    steps = np.rint(np.clip(steps, -512, 512)) + np.float32(tensor.zero_point or 0)
    return np.asarray(np.clip(steps, _LOWEST, _HIGHEST).astype(np.int8))
