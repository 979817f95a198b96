"""out = x XOR 0x80, byte by byte: an input of uint8 as codes, 0 becoming -128 and 255 becoming 127.

An input of 8 bits holds codes already: u = code + 128 for uint8, u = code for int8. `x.float()` is then a tensor of
scale 1 and zero point -128, `x.float() / 255` one of scale 1/255, `(x.float() - 128) / 64` one of scale 1/64 and zero
point 0: what is computed of it, as far as it is a straight line through an int8 zero point, changes the scale and moves
nothing. Anything else is a table of 256 entries, over all that the input can be, so nothing saturates.
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

SMALLEST = 2.0**-60  # scale there is
STRAIGHT = 1e-3  # steps that a straight line may be off its codes: float32 rounds

_NO_PTE = "a .pte takes real numbers"


def flipped(codes: Tensor) -> Tensor:
    return codes ^ torch.tensor(INT8.low, dtype=torch.int8)


def reference(*, input: Tensor) -> Tensor:
    return flipped(input).contiguous()


# ---- what 8 bits stand for -----------------------------------------------------------------------------------


def byte_values(kind: torch.dtype) -> Tensor:
    """The value of each of the bytes -128 ... 127 in an input of this type."""
    found = torch.arange(INT8.low, INT8.high + 1, dtype=torch.int32).to(torch.int8)
    return found if kind == torch.int8 else found.view(torch.uint8).to(kind)


def byte_qparams(values: Tensor, kind: torch.dtype) -> QParams:
    """The scale and zero point of a function's values for all bytes: those that make it a straight line of codes, or
    else the finest that hold all of them."""
    finite = values[values.isfinite()].to(torch.float64)
    if finite.numel() == 0:
        return QParams(1.0, 0, INT8)
    low, high = min(0.0, float(finite.min())), max(0.0, float(finite.max()))
    if kind == torch.bool:
        return QParams(high, 0, INT8) if low == 0.0 < high else _covering(low, high)
    line = _line(values.to(torch.float64))
    return _covering(low, high) if line is None else line


def _line(values: Tensor) -> QParams | None:
    """In the order of what the bytes mean, the values are (code - zero point) * scale, up or down; None otherwise."""
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
    summary="an input of uint8 as codes: every byte with its highest bit flipped",
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
    summary="an input of 8 bits as the bytes that it is: no kernel, no copy",
    reference=raw_reference,
    shape=lambda call: call.shape("input"),
    kernel=None,
    element=INT8,
    view=True,
    relayout=lambda arguments, perm: arguments,
    samples=lambda draw: {"input": draw.codes(draw.rows(), INT8)},
    no_pte=_NO_PTE,
)
