"""out = x XOR 0x80, byte by byte: an input of uint8 as codes, 0 becoming -128 and 255 becoming 127.

An 8-bit input holds codes already: u = code + 128 for uint8, u = code for int8. `x.float()` is then a tensor with scale
1 and zero point -128, `x.float() / 255` one with scale 1/255, `(x.float() - 128) / 64` one with scale 1/64 and zero
point 0: an affine function of it with an int8 zero point only changes the scale and moves nothing. Any other function
is a table of 256 entries, over all values of the input, so nothing saturates.
"""

import math

import torch

from cortado.base.element import INT8
from cortado.base.numerics import QParams, Tensor
from cortado.ir.c_call import Operand, Row
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.kernel_table import only
from cortado.ir.op import Operator
from cortado.ops.loops import FOURS

SMALLEST = 2.0**-60  # the smallest scale
STRAIGHT = 1e-3  # steps that an affine function can differ from its codes: float32 rounds

_NO_PTE = "a .pte takes real numbers"


def flipped(codes: Tensor) -> Tensor:
    return codes ^ torch.tensor(INT8.low, dtype=torch.int8)


def reference(*, input: Tensor) -> Tensor:
    return flipped(input).contiguous()


# ---- the meaning of 8 bits --------------------------------------------------------------------------------------


def byte_values(kind: torch.dtype) -> Tensor:
    """Returns the value of each of the bytes -128 ... 127 in an input of this type."""
    found = torch.arange(INT8.low, INT8.high + 1, dtype=torch.int32).to(torch.int8)
    return found if kind == torch.int8 else found.view(torch.uint8).to(kind)


def byte_qparams(values: Tensor, kind: torch.dtype) -> QParams:
    """Returns the scale and zero point for a function's values at all bytes: those for which an affine function yields
    the codes themselves, or else the finest that cover all values."""
    finite = values[values.isfinite()].to(torch.float64)
    if finite.numel() == 0:
        return QParams(1.0, 0, INT8)
    low, high = min(0.0, float(finite.min())), max(0.0, float(finite.max()))
    if kind == torch.bool:
        return QParams(high, 0, INT8) if low == 0.0 < high else _covering(low, high)
    line = _line(values.to(torch.float64))
    return _covering(low, high) if line is None else line


def _line(values: Tensor) -> QParams | None:
    """Returns parameters such that the values, in the order of the bytes' meaning, are (code - zero point) * scale;
    None otherwise."""
    first, last = float(values.min()), float(values.max())
    scale = (last - first) / INT8.steps
    if not (math.isfinite(scale) and scale >= SMALLEST):
        return None
    zero = INT8.low - first / scale
    if abs(zero - round(zero)) > STRAIGHT or not INT8.holds(round(zero)):
        return None
    codes = values / scale + round(zero)
    return QParams(scale, round(zero), INT8) if float((codes - codes.round()).abs().max()) <= STRAIGHT else None


def _covering(low: float, high: float) -> QParams:
    scale = max((high - low) / INT8.steps, SMALLEST)
    if high == low:
        return QParams(1.0, 0, INT8)
    return QParams(scale, INT8.clamped(round(INT8.low - low / scale)), INT8)


# ---- the C kernel --------------------------------------------------------------------------------------------


KERNELS = only("flip_u8", None, arguments=(Row(0), Operand.OUT, Operand.N), work=FOURS)


FLIP = Operator(
    name="cortado::from_uint8",
    summary="a uint8 input as codes: every byte with its highest bit flipped",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    element=INT8,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True, elementwise=True),
    relayout=lambda arguments, perm: arguments,
    samples=lambda draw: {"input": draw.codes(draw.rows(), INT8)},
    no_pte=_NO_PTE,
)


def raw_reference(*, input: Tensor) -> Tensor:
    return input.contiguous().view(torch.int8)


RAW = Operator(
    name="cortado::raw_bytes",
    summary="an 8-bit input, used as it is: no kernel, no copy",
    reference=raw_reference,
    shape=lambda call: call.shape("input"),
    kernel=None,
    element=INT8,
    view=True,
    relayout=lambda arguments, perm: arguments,
    samples=lambda draw: {"input": draw.codes(draw.rows(), INT8)},
    no_pte=_NO_PTE,
)
