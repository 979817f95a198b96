"""out = (sum over the four neighbours of weight * code + 2^21) >> 22: bilinear resizing, the codes keep their scale.

NHWC. `rows` gives for every output row its position in the input, in steps of 2^-11, and `columns` for every column.
Position p reads floor(p) and the next one, except at the far end, where there is no next one and its weight is 0.

Images that are resized by weights along each axis: bicubic, with anti-aliasing, and volumes. Every output pixel is a
sum of input pixels whose weights are products of one weight per axis. So each axis is a linear layer along its
dimension; its weights are the results of the call itself on unit vectors.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT8, INT16
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.c_call import Operand, Row
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, add_call, shape
from cortado.ir.kernel import Field, RowRule, Rows
from cortado.ir.kernel_table import WINDOW, KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import Activation, Quantization, SharedWith
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work, loops
from cortado.ops.float_graph import add_constant, add_permute

# ---- upsample bilinear -----------------------------------------------------------------------------------

aten = torch.ops.aten
FRACTION_BITS = 11  # of a position: the product of two weights and a code then fits 32 bits
ONE = 1 << FRACTION_BITS


def reference(*, input: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Interpolates rows, then columns, exactly; only the final result is rounded."""
    x = _between(input.to(torch.int64), rows, 1)
    x = _between(x, columns, 2)
    half = 1 << (2 * FRACTION_BITS - 1)
    return ((x + half) >> (2 * FRACTION_BITS)).to(input.dtype).contiguous()


def _between(x: Tensor, positions: Tensor, dim: int) -> Tensor:
    """Returns the weighted sums of each position's two neighbours along a dimension."""
    first = positions.to(torch.int64) >> FRACTION_BITS
    second = (first + 1).clamp(max=x.shape[dim] - 1)
    weights = (positions & (ONE - 1)).to(torch.int64).reshape(-1, *[1] * (x.dim() - dim - 1))
    return x.index_select(dim, first) * (ONE - weights) + x.index_select(dim, second) * weights


def output_shape(call: Call) -> tuple[int, ...]:
    images, _, _, channels = call.shape("input")
    return images, *call.shape("rows"), *call.shape("columns"), channels


# ---- from aten -----------------------------------------------------------------------------------------------


def _source(bound: Bound) -> str:
    return "input" if "input" in bound.values else "self"


def match(bound: Bound) -> Quantization | Reject:
    source = _source(bound)
    return Quantization({source: Activation(bound.wanted)}, SharedWith(source))


_FACTORS = {1: ("scales",), 2: ("scales_h", "scales_w")}  # of a signal, of an image


def positions(bound: Bound) -> list[Tensor]:
    """Returns the positions of the outputs along each spatial dimension: PyTorch's own result for a ramp."""
    sizes, out_sizes = shape(bound[_source(bound)])[2:], shape(bound.node)[2:]
    factors = bound.get("scale_factors") or [bound.get(name) for name in _FACTORS[len(sizes)]]
    found = []
    for size, out_size, factor in zip(sizes, out_sizes, factors, strict=True):
        ramp = torch.arange(size, dtype=torch.float32).reshape(1, 1, size)
        places = aten.upsample_linear1d.default(ramp, [out_size], bound["align_corners"], factor)
        found.append(torch.round(places.reshape(-1) * ONE).to(torch.int32))
    return found


def lower(lowering: Lowering) -> Node:
    """Lowers a resizing; a signal is an image of height 1."""
    bound = lowering.bound
    source = lowering.node(_source(bound))
    batch, channels, *sizes = shape(source)
    places = positions(bound)
    if len(sizes) == 1:
        sizes, places = [1, *sizes], [torch.zeros(1, dtype=torch.int32), *places]
    image = lowering.transpose(lowering.view(source, (batch, channels, *sizes)), TO_NHWC)
    rows, columns = (lowering.constant(name, data) for name, data in zip(("rows", "columns"), places, strict=True))
    result = lowering.call(UPSAMPLE_BILINEAR, input=image, rows=rows, columns=columns)
    return lowering.view(lowering.transpose(result, TO_NCHW), shape(bound.node))


# ---- the C kernel --------------------------------------------------------------------------------------------


def _factor(call: Call) -> int | None:
    """Returns f if output row y reads only rows next to row y // f and f is a power of two, by which the row loop can
    repeat."""
    height, places = call.shape("input")[1], call.array("rows")
    factor = len(places) // height
    beside = (places >> FRACTION_BITS) - np.arange(len(places)) // max(factor, 1)
    return factor if factor.bit_count() == 1 and set(beside.tolist()) <= {-1, 0} else None


def rows(call: Call) -> Rows | None:
    factor = _factor(call)
    return None if factor is None else Rows((RowRule(taps=3, pad=1, repeat=factor),))


def _fields(call: Call) -> dict[str, Field]:
    images, height, width, channels = call.shape("input")
    return {
        "images": images,
        "in_h": height,
        "in_w": width,
        "channels": channels,
        "out_h": call.out_shape[1],
        "out_w": call.out_shape[2],
        "shift_h": (_factor(call) or 1).bit_length() - 1,
    }


_ALL = KernelRow(
    "upsample_bilinear_all_s8",
    INT8,
    fits=lambda call: _factor(call) is None,
    arguments=(Operand.LAYER, Row(0), Operand.OUT),
    struct="cortado_bilinear_t",
    fields=_fields,
    work=lambda call: _work(call),
)
_BY_ROW = replace(
    _ALL,
    symbol="upsample_bilinear_s8",
    fits=None,
    arguments=(*WINDOW, Operand.Y),
    work=loops("calls spans outputs"),
)


def _all_vectors(call: Call) -> Work:
    """Counts up to four channels of a pixel at a time."""
    images, height, width, channels = call.out_shape
    sizes = {"rows": images * height, "pixels": images * height * width}
    return loops("calls rows pixels pixels*channels/4", channels=channels, **sizes)


def _row_vectors(call: Call) -> Work:
    return loops("calls spans spans*channels/4", channels=call.out_shape[-1])


KERNELS = KernelTable(
    (
        replace(_ALL, symbol="upsample_bilinear_all_s8__mve", cores=(Core.MVE,), work=_all_vectors),
        _ALL,
        replace(_BY_ROW, symbol="upsample_bilinear_s8__mve", cores=(Core.MVE,), work=_row_vectors),
        _BY_ROW,
        *(replace(row, symbol=row.symbol.replace("s8", "s16"), reads=INT16) for row in (_ALL, _BY_ROW)),
    )
)


def _work(call: Call) -> Work:
    images, height, width, _ = call.out_shape
    return loops("calls rows pixels outputs", rows=images * height, pixels=images * height * width)


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws positions as factors and sizes give them, and any other increasing ones."""
    sizes = [draw.whole(1, 6) for _ in range(2)]
    image = (draw.whole(1, 2), *sizes, draw.channels())
    places = []
    for size in sizes:
        factor, align = draw.pick([1, 2, 2, 4, 3, 0.5, 1.7]), draw.flag()
        ramp = torch.arange(size, dtype=torch.float32).reshape(1, 1, size)
        line = aten.upsample_linear1d.default(ramp, [max(1, int(size * factor))], align, None)
        places.append(torch.round(line.reshape(-1) * ONE).to(torch.int32))
    codes = draw.codes(image, draw.element())
    return {"input": codes, "rows": places[0], "columns": places[1]}


UPSAMPLE_BILINEAR = Operator(
    name="cortado::upsample_bilinear_nhwc",
    summary="bilinear resizing to any size",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    macs=lambda call: 4 * int(np.prod(call.out_shape)),
    element=ElementOf(("input",)),
    no_pte="ExecuTorch has no integer kernel for it",
    by_channel=True,
    samples=samples,
)

UPSAMPLE_BILINEAR_PATTERN = Pattern(
    aten=(
        aten.upsample_bilinear2d.vec,
        aten.upsample_bilinear2d.default,
        aten.upsample_linear1d.vec,
        aten.upsample_linear1d.default,
    ),
    match=match,
    lower=lower,
    images=True,
)


# ---- resizing forms --------------------------------------------------------------------------------------


def _weights(bound: Bound, axis: int, spatial: int) -> Tensor:
    """Returns [out, in]: the weights of every output pixel along one axis."""
    target: Any = bound.node.target
    assert isinstance(target, OpOverload)
    size, out = shape(bound["input"])[2 + axis], shape(bound.node)[2 + axis]
    others: dict[str, Any] = {name: value for name, value in bound.values.items() if name != "input"}
    if others.get("output_size") is not None:
        others["output_size"] = [out if one == axis else STILL for one in range(spatial)]
    factors = others.get("scale_factors")
    if factors is not None:
        others["scale_factors"] = [float(one) if place == axis else 1.0 for place, one in enumerate(factors)]
    single = torch.eye(size).reshape(1, size, *(size if one == axis else 1 for one in range(spatial)))
    image = single.expand(1, size, *(size if one == axis else STILL for one in range(spatial)))
    made: Tensor = target(image.contiguous(), **others)
    return made.movedim(2 + axis, 2).reshape(size, out, -1)[..., 0].T


STILL = 2  # size of the other axes, which stay as they are: torch makes mistakes for a size of 1


def resized(bound: Bound) -> Node | None:
    like, result = bound.node, bound["input"]
    rank = len(shape(result))
    for axis in range(rank - 2):
        weights = _weights(bound, axis, rank - 2)
        if torch.equal(weights, torch.eye(*weights.shape)):
            continue
        last = [*(dim for dim in range(rank) if dim != 2 + axis), 2 + axis]
        rows = add_permute(like, result, last)
        made = add_call(like, aten.linear.default, rows, add_constant(like, "weight", weights))
        result = add_permute(like, made, [last.index(dim) for dim in range(rank)])
    return result


RESIZED_REWRITE = Rewrite(
    aten=(
        aten.upsample_bicubic2d.vec,
        aten._upsample_bilinear2d_aa.vec,
        aten._upsample_bicubic2d_aa.vec,
        aten.upsample_trilinear3d.vec,
    ),
    rewrite=resized,
    any_element=True,
)
