"""The kernels of convolutions and linear layers with 4-bit weights."""

import math
from typing import Any

import numpy as np

from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.kernel import Array, Kernel
from cortado.ir.op import Call
from cortado.ir.work import loops
from cortado.ops import _narrow_packing as packing
from cortado.ops._convolution import Variant, common_fields, window_fields
from cortado.ops._narrow import StoredWeights
from cortado.ops.conv2d import is_pointwise

STRUCT = "cortado_narrow_t"


def kernel(call: Call, core: Core) -> Kernel:
    return _pixels_kernel(call, core) if is_pointwise(call) else _window_kernel(call, core)


def _common(call: Call) -> dict[str, Any]:
    """Offset, clamp, and per channel bias, multiplier and shift. The input's zero point is part of the bias: what a
    sum can reach, and so what it is without any input, fits 32 bits."""
    weights = call.array("weight")
    found = common_fields(call, weights.reshape(len(weights), -1).sum(axis=1, dtype=np.int64))
    assert found.pop("in_offset") == 0
    return found


def _portable(call: Call, common: dict[str, Any], stored: StoredWeights) -> dict[str, Any]:
    """The portable kernels' descriptor."""
    _, kernel_h, kernel_w, _ = call.shape("weight")
    return {
        **window_fields(call, (kernel_h, kernel_w)),
        **common,
        "weights": Array(packing.pack_pairs(stored.codes), packed=stored.codes.shape),
        "factors": None if stored.factors is None else Array(stored.factors),
    }


def _pixels_kernel(call: Call, core: Core) -> Kernel:
    """1x1: over spans of pixels."""
    pixels = math.prod(call.out_shape[:3])
    common, stored = _common(call), StoredWeights.of(call.array("weight"), call["run"])
    portable = _portable(call, common, stored)
    chosen = Variant("conv1x1_narrow_s8", ("conv2d_narrow_s8.c",), portable, packed=False)
    return Kernel(
        call=CCall(f"cortado_{chosen.symbol}", (Operand.LAYER, Row(0), Operand.OUT, Operand.N, Operand.SCRATCH)),
        sources=chosen.sources,
        struct=chosen.struct("conv1x1") if chosen.packed else STRUCT,
        fields=chosen.fields,
        scratch=chosen.scratch,
        scratch_check=chosen.scratch_check(Operand.LAYER, pixels),
        tile=chosen.tile,
        work=loops("calls outputs macs"),
    )


def _window_kernel(call: Call, core: Core) -> Kernel:
    """Any window: one output row from the rows under it."""
    common, stored = _common(call), StoredWeights.of(call.array("weight"), call["run"])
    portable = _portable(call, common, stored)
    chosen = Variant("conv2d_narrow_s8", ("conv2d_narrow_s8.c",), portable, packed=False)
    return Kernel(
        call=CCall(f"cortado_{chosen.symbol}", (Operand.LAYER, Operand.ROWS, Operand.OUT, Operand.SCRATCH)),
        sources=chosen.sources,
        struct=chosen.struct("conv2d") if chosen.packed else STRUCT,
        fields=chosen.fields,
        scratch=chosen.scratch,
        scratch_check=chosen.scratch_check(Operand.LAYER),
        work=loops("calls outputs outputs*rows macs", rows=call.shape("weight")[1]),
    )
