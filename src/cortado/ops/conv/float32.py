"""sum = bias, then + x * w for one tap after the other; out = clamp(sum): convolutions and linear layers.

With weights of int8, w is a code: sum = 0, then + x * w; out = clamp(sum * scale + bias).

Every product and every sum is rounded to float32, in the order of the window's rows, columns and channels; taps outside
the image add nothing. NHWC input, OHWI weights; the convolution is grouped if the weight has fewer input channels than
the input. A matrix product is the same sum over the common dimension, beginning with 0.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base import float32
from cortado.base.element import FLOAT32, INT8
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir.c_call import Operand, Row
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, shape
from cortado.ir.kernel_table import Several, only
from cortado.ir.op import Call, Lowering, Operator, Pattern
from cortado.ir.roles import Plain, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work, loops, nested
from cortado.ops.conv import conv2d, kernels
from cortado.ops.conv.convolution import check_constants, draw_window, macs, window
from cortado.ops.conv.kernels import ConvForm
from cortado.ops.float_graph import pair
from cortado.ops.floats import FloatArray, as_it_is, bounded, draw_bounds, quiet
from cortado.ops.move.pad import surround
from cortado.ops.move.slice import take

aten = torch.ops.aten
SCALE_BYTES = 4


@quiet
def reference(
    *,
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    scale: Tensor | None = None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    activation_min: float,
    activation_max: float,
) -> Tensor:
    x, w = input.numpy(), weight.numpy().astype(np.float32)
    out_c, kernel_h, kernel_w, depth = w.shape
    groups, sizes = x.shape[3] // depth, [input.shape[0], *_sizes(input.shape, weight.shape, stride, padding, dilation)]
    start = bias.numpy() if scale is None else np.zeros(out_c, np.float32)
    sums = np.broadcast_to(start, (*sizes, out_c)).copy()
    columns = np.arange(out_c) // (out_c // groups) * depth
    for ky in range(kernel_h):
        rows = np.arange(sizes[1]) * stride[0] - padding[0] + ky * dilation[0]
        for kx in range(kernel_w):
            cols = np.arange(sizes[2]) * stride[1] - padding[1] + kx * dilation[1]
            inside_y, inside_x = ((at >= 0) & (at < size) for at, size in ((rows, x.shape[1]), (cols, x.shape[2])))
            if not inside_y.any() or not inside_x.any():
                continue
            taps, under = x[:, rows[inside_y]][:, :, cols[inside_x]], np.ix_(range(sizes[0]), inside_y, inside_x)
            sums[under] = _added(sums[under], taps, w[:, ky, kx], columns)
    if scale is not None:
        sums = sums * scale.numpy() + bias.numpy()
    return bounded(sums, activation_min, activation_max)


def _added(sums: FloatArray, taps: FloatArray, w: FloatArray, columns: FloatArray) -> FloatArray:
    """Adds the products of one tap, channel after channel."""
    for channel in range(w.shape[1]):
        seen = taps[..., columns + channel] if columns.any() else taps[..., channel : channel + 1]
        sums = sums + seen * w[:, channel]
    return sums


def _sizes(image: Any, weight: Any, stride: list[int], padding: list[int], dilation: list[int]) -> list[int]:
    """Returns height and width of a convolution's result."""
    axes = zip(image[1:3], weight[1:3], stride, padding, dilation, strict=True)
    return [(size + 2 * pad - gap * (taps - 1) - 1) // step + 1 for size, taps, step, pad, gap in axes]


# ---- from aten -----------------------------------------------------------------------------------------------


def match(bound: Bound) -> Quantization | Reject:
    return check_constants(bound) or Quantization({}, Plain())


def _layer(lowering: Lowering, weight: Tensor) -> dict[str, Any]:
    """Adds the constants of a layer and returns its arguments; weight is [out_c, kernel_h, kernel_w, in_c]."""
    bias = lowering.data("bias")
    given = torch.zeros(len(weight)) if bias is None else bias
    low, high = lowering.clamp
    stored, scale = _codes(weight) if lowering.codes else (weight.to(torch.float32), None)
    return {
        "weight": lowering.constant("weight", stored),
        "bias": lowering.constant("bias", given.to(torch.float32)),
        "scale": None if scale is None else lowering.constant("scale", scale),
        "activation_min": low,
        "activation_max": high,
    }


def _codes(weight: Tensor) -> tuple[Tensor, Tensor | None]:
    """Quantizes weights to int8 and returns them with a scale per channel; returns them unchanged if that saves
    nothing."""
    return quantized(weight) if saves([weight]) else (weight.to(torch.float32), None)


def saves(weights: Sequence[Tensor]) -> bool:
    """Whether weights take fewer bytes as int8 codes with a scale per channel; infinities and NaN have no codes."""
    codes, channels = (sum(count) for count in zip(*((one.numel(), len(one)) for one in weights), strict=True))
    return codes + SCALE_BYTES * channels < 4 * codes and all(bool(torch.isfinite(one).all()) for one in weights)


def quantized(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantizes weights to int8, with a scale for each of the first dimension's channels."""
    real = weight.to(torch.float64)
    by_channel = real.reshape(len(real), -1)
    scale = (by_channel.abs().amax(1) / INT8.high).to(torch.float32)
    scale[scale == 0] = 1.0
    codes = torch.round(by_channel / scale.to(torch.float64)[:, None]).clamp(-INT8.high, INT8.high)
    return codes.reshape(weight.shape).to(torch.int8), scale


def lower(lowering: Lowering) -> Node:
    weight = lowering.data("weight")
    assert weight is not None
    source = lowering.transpose(lowering.node("input"), TO_NHWC)
    made = lowering.call(
        FLOAT_CONV2D, input=source, **_layer(lowering, weight.permute(TO_NHWC)), **window(lowering.bound)
    )
    return lowering.transpose(made, TO_NCHW)


def lower_linear(lowering: Lowering) -> Node:
    weight = lowering.data("weight")
    assert weight is not None
    source = lowering.node("input")
    *leading, in_c = shape(source)
    layer = _layer(lowering, weight.reshape(-1, 1, 1, in_c))
    plain = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1]}
    pixels = lowering.view(source, (1, 1, math.prod(leading), in_c))
    return lowering.view(lowering.call(FLOAT_CONV2D, input=pixels, **layer, **plain), shape(lowering.bound.node))


# ---- the C kernel --------------------------------------------------------------------------------------------


KERNELS = Several(
    lambda call, core: kernels.kernel(call, core, ConvForm.PIXELS if conv2d.is_pointwise(call) else ConvForm.WINDOW),
    kernels.DENSE,
)


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws any window that fits, groups, bounds, numbers of any magnitude."""
    groups = draw.pick([1, 1, 1, 2, 3])
    in_c, out_c = (draw.channels() for _ in range(2))
    kernel = draw.pick([(1, 1), (1, 1), (3, 3), (3, 3), (2, 5), (1, 3)])
    window = draw_window(draw, kernel)
    sizes = [draw.whole(max(1, d * (k - 1) + 1 - 2 * p), d * (k - 1) + 7) for k, p, d in window.pop("fits")]
    batch, weights, codes = draw.pick([1, 1, 1, 2]), (out_c * groups, *kernel, in_c), draw.flag()
    return {
        "input": draw.numbers((batch, *sizes, in_c * groups)),
        "weight": draw.codes(weights, INT8) if codes else draw.numbers(weights),
        "bias": draw.numbers((out_c * groups,)),
        "scale": draw.numbers((out_c * groups,)) if codes else None,
        **window,
        **draw_bounds(draw),
    }


FLOAT_CONV2D = Operator(
    name="cortado::float_conv2d",
    summary="2-D convolution or linear layer in float32, grouped or not, with bias and clamp",
    reference=reference,
    shape=conv2d.output_shape,
    kernel=KERNELS,
    rows=conv2d.rows,
    macs=macs,
    element=FLOAT32,
    channel_constants=("weight", "bias", "scale"),
    constraints="constant weights, float32 or int8 with a scale per channel, and bias",
    samples=samples,
)

FLOAT_CONV2D_PATTERN = Pattern(
    aten=(aten.conv2d.default,), match=match, lower=lower, fuses_clamp=True, images=True, floating=True
)
FLOAT_LINEAR_PATTERN = Pattern(
    aten=(aten.linear.default,), match=match, lower=lower_linear, fuses_clamp=True, floating=True
)


# ---- transposed ----------------------------------------------------------------------------------------------


def lower_transposed(lowering: Lowering) -> Node:
    """Lowers to a convolution: zeros are inserted between the pixels and around them, and the weights are flipped."""
    bound, weight = lowering.bound, lowering.data("weight")
    assert weight is not None
    stride, padding, dilation, rest = (
        pair(bound[name]) for name in ("stride", "padding", "dilation", "output_padding")
    )
    groups, (in_c, made, *kernel) = int(bound["groups"]), weight.shape
    wider = _with_zeros(lowering, lowering.transpose(lowering.node("input"), TO_NHWC), stride)
    borders = [(0, 0)]
    for axis in range(2):
        before = dilation[axis] * (kernel[axis] - 1) - padding[axis]
        borders.append((before, before + rest[axis] - (stride[axis] - 1)))
    for dim, (before, behind) in enumerate(borders):
        wider = take(lowering, wider, dim, max(0, -before), shape(wider)[dim] + min(0, behind))
    wider = surround(lowering, wider, [(max(0, one), max(0, two)) for one, two in (*borders, (0, 0))], 0)
    turned = weight.flip(2, 3).reshape(groups, in_c // groups, made, *kernel).transpose(1, 2)
    layer = _layer(lowering, turned.reshape(groups * made, in_c // groups, *kernel).permute(TO_NHWC))
    plain = {"stride": [1, 1], "padding": [0, 0], "dilation": dilation}
    return lowering.transpose(lowering.call(FLOAT_CONV2D, input=wider, **layer, **plain), TO_NCHW)


def _with_zeros(lowering: Lowering, image: Node, stride: list[int]) -> Node:
    """Inserts stride - 1 zeros after every pixel and row."""
    n, h, w, c = shape(image)
    made = lowering.view(image, (n * h, w, 1, c))
    made = surround(lowering, made, [(0, 0), (0, 0), (0, stride[1] - 1), (0, 0)], 0)
    made = lowering.view(made, (n, h, 1, w * stride[1] * c))
    made = surround(lowering, made, [(0, 0), (0, 0), (0, stride[0] - 1), (0, 0)], 0)
    return lowering.view(made, (n, h * stride[0], w * stride[1], c))


FLOAT_TRANSPOSED_PATTERN = Pattern(
    aten=(aten.conv_transpose2d.input,),
    match=match,
    lower=lower_transposed,
    fuses_clamp=True,
    images=True,
    floating=True,
)


# ---- products of matrices ------------------------------------------------------------------------------------


def product_reference(*, self: Tensor, mat2: Tensor) -> Tensor:
    a, b = self.numpy(), mat2.numpy()
    return torch.from_numpy(float32.dot(a[:, :, None], np.swapaxes(b, 1, 2)[:, None]))


def lower_product(lowering: Lowering) -> Node:
    return lowering.call(FLOAT_MATMUL, self=lowering.node("self"), mat2=lowering.node("mat2"))


def product_shape(call: Call) -> tuple[int, ...]:
    return (*call.shape("self")[:2], call.shape("mat2")[2])


def product_macs(call: Call) -> int:
    return math.prod(call.shape("self")) * call.shape("mat2")[2]


def _product_fields(call: Call) -> dict[str, int]:
    batches, rows, depth = call.shape("self")
    return {"batches": batches, "rows": rows, "depth": depth, "columns": call.shape("mat2")[2]}


def _product_work(call: Call) -> Work:
    """Outputs by how their sums are made: four rows that meet one column, four sums side by side, one sum of two runs,
    one of a row and a column."""
    batches, rows, depth = call.shape("self")
    columns = call.shape("mat2")[2]
    fours, rest = divmod(rows if columns == 1 else columns, 4)
    whole = columns == 1 and depth % 4 == 0
    several = batches if columns == 1 else batches * rows
    alone = several * rest if batches * rows * columns > 1 else 1
    sizes = {
        "several": several,
        "row_fours": several * fours * whole,
        "fours": several * fours * (not whole),
        "runs": alone * (columns == 1),
        "alone": alone * (columns != 1),
        "depth": depth,
    }
    each = nested({"calls*" + name: "depth" for name in ("row_fours", "fours", "runs", "alone")})
    return loops(" ".join(("calls", "calls*several", *each)), **sizes)


PRODUCT_KERNELS = only(
    "matmul_f32",
    FLOAT32,
    arguments=(Operand.LAYER, Row(0), Row(1), Operand.OUT),
    struct="cortado_matmul_f32_t",
    fields=_product_fields,
    work=_product_work,
)


def product_samples(draw: CaseDraw) -> dict[str, Any]:
    batches, rows, depth, columns = draw.whole(1, 3), *(draw.channels() for _ in range(3))
    return {
        "self": draw.numbers((batches, rows, depth)),
        "mat2": draw.numbers((batches, depth, columns)),
    }


FLOAT_MATMUL = Operator(
    name="cortado::float_matmul",
    summary="products of computed matrices in float32",
    reference=product_reference,
    shape=product_shape,
    kernel=PRODUCT_KERNELS,
    macs=product_macs,
    element=FLOAT32,
    tensors=("self", "mat2"),
    samples=product_samples,
)
FLOAT_BMM_PATTERN = Pattern(aten=(aten.bmm.default,), match=as_it_is, lower=lower_product, floating=True)
