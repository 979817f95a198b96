"""out = clamp((high(d * f) + offset[c]) >> fraction_bits): layer, group, instance and RMS normalization.

The statistics of a group of n codes are exact: its mean is sum / n, n^2 times its variance is n * sum(q^2) - sum^2. The
input's scale cancels except in eps, which becomes the integer `epsilon` added to the variance. The variance is written
as mantissa * 4^x with a mantissa of 32 bits, so that deviations d = (n * q - sum) << (exponent - x) use the same bits
whether the spread of a group is one step of the input or all 255; f = high(scale[c] * 2^45 / sqrt(mantissa)). RMS
normalization takes the mean as 0. high(a * b) is (a * b + 2^30) >> 31. If exponent - x is negative, f is divided by
2^(x - exponent); for int16 codes d is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, INT32, Element, element_of
from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir import sampling
from cortado.ir.c_call import Number
from cortado.ir.facts import USER_INPUT
from cortado.ir.graph import Bound, describe, shape
from cortado.ir.kernel import ONE_ROW, Array, Field, Rows
from cortado.ir.kernel_table import SPAN, KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern
from cortado.ir.roles import Activation, High, InZeroPoint, Low, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Calls, Quantities, Work
from cortado.ops.elementwise.float32_forms import scaled
from cortado.ops.pool import measures

aten = torch.ops.aten

LARGEST_GROUP = 2**22  # n^2 * 255^2 then fits 62 bits, and n * 255 fits 30
LARGEST_WIDE_GROUP = 2**16  # of int16 codes: n^2 * 2^30 then fits 63 bits, and sums fit 32
SQUARE_BITS = {INT8: 16, INT16: 30}  # n^2 times the variance of n codes is at most n^2 * 2^this
VARIANCE_BITS = 62
DEVIATION_BITS = 30
FRACTION_BITS = 30  # at most
FEWEST_FRACTION_BITS = 4

# 1/(2 * sqrt(a)) for a in [1/4, 1) is FIRST - SLOPE * a within 9%; both with 30 fractional bits.
FIRST, SLOPE = round(1.067 * 2**30), round(0.61 * 2**30)


# ---- what it computes ----------------------------------------------------------------------------------------


def _high(a: Tensor, b: Tensor | int) -> Tensor:
    return (a * b + (1 << 30)) >> 31


def inverse_root(a: Tensor) -> Tensor:
    """Returns 1/(2 * sqrt(a)) with 30 fractional bits, for a in [1/4, 1) with 31: each Newton step squares the
    error."""
    root = FIRST - _high(a, SLOPE)
    for _ in range(3):
        root = _high(root, (3 << 29) - (_high(_high(root, root), a) << 2)) << 1
    return root.clamp(max=(1 << 30) - 1)


def _bits(value: Tensor) -> Tensor:
    """Returns the bit length of a number below 2^62; float64 holds each half exactly."""
    high = value >> 31
    long = torch.frexp(high.to(torch.float64)).exponent + 31
    return torch.where(high > 0, long, torch.frexp(value.to(torch.float64)).exponent).to(torch.int64)


def _shifted(value: Tensor, left: Tensor) -> Tensor:
    return torch.where(left >= 0, value << left.clamp(min=0), value >> (-left).clamp(min=0))


def by_group(input: Tensor, dim: int, first: int, groups: int) -> Tensor:
    """Returns the tensor as [samples, groups, channels of a group, pixels]."""
    samples, channels = math.prod(input.shape[:first]), input.shape[dim]
    flat = input.reshape(samples, -1, channels).transpose(1, 2) if dim != first else input
    return flat.reshape(samples, groups, channels // groups, -1)


def reference(
    *,
    input: Tensor,
    dim: int,
    first: int,
    groups: int,
    centered: bool,
    input_zero_point: InZeroPoint,
    epsilon: int,
    variance_shift: int,
    exponent: int,
    scale: Tensor,
    offset: Tensor,
    fraction_bits: int,
    activation_min: Low,
    activation_max: High,
) -> Tensor:
    codes = by_group(input.to(torch.int64), dim, first, groups)
    samples, _, members, pixels = codes.shape
    count = members * pixels
    total, squares = codes.sum((2, 3), keepdim=True), codes.square().sum((2, 3), keepdim=True)
    middle = total if centered else torch.full_like(total, count * input_zero_point)
    variance = count * squares - total.square() + (total - middle).square()
    variance = _shifted(variance, torch.tensor(variance_shift)) + epsilon
    power = (_bits(variance) - 31) >> 1
    root = inverse_root(_shifted(variance, -2 * power) >> 1)
    left = torch.where(variance > 0, (exponent - power).clamp(max=30), 0)
    down = (-left).clamp(0, VARIANCE_BITS)
    wide = element_of(input.dtype).symmetric
    root = torch.where(variance > 0, root >> (0 * down if wide else down), 0)
    deviations = ((count * codes - middle) << left.clamp(min=0)) >> (down if wide else 0 * down)
    factors, offsets = (
        values.to(torch.int64).expand(groups * members).reshape(groups, members, 1) for values in (scale, offset)
    )
    result = (_high(deviations, _high(factors, root)) + offsets) >> fraction_bits
    if dim != first:
        result = result.reshape(samples, -1, pixels).transpose(1, 2)
    bounded = result.reshape(input.shape).clamp(activation_min, activation_max)
    return bounded.to(input.dtype).contiguous()


# ---- from aten -----------------------------------------------------------------------------------------------


def group_size(bound: Bound) -> int:
    """Returns how many values are normalized together."""
    sizes = shape(bound["input"])
    if "normalized_shape" in bound.values:
        return math.prod(bound["normalized_shape"])
    return math.prod(sizes[1:]) // channel_groups(bound)


def channel_groups(bound: Bound) -> int:
    return int(bound.get("num_groups") or shape(bound["input"])[1])


def match(bound: Bound) -> Quantization | Reject:
    for name in ("weight", "bias"):
        operand = bound.get(name)
        if operand is not None and (USER_INPUT.known(operand) or operand.op not in ("get_attr", "placeholder")):
            return Reject(f"needs a constant {name}, got '{operand.name}', which depends on the input")
    if bound.get("use_input_stats") is False:
        return Reject("normalizes with recorded statistics; use batch normalization for that")
    size, kind = group_size(bound), bound.element
    most = LARGEST_WIDE_GROUP if kind.symmetric else LARGEST_GROUP
    if not 0 < size <= most:
        return Reject(f"normalizes groups of {size} values; expected 1 to {most}")
    return Quantization({"input": Activation(kind)}, Activation(kind))


@dataclass(frozen=True)
class AffineSteps:
    """Weight and bias in steps of the output, the bias including its zero point: per channel, or one number for all."""

    weight: Tensor
    bias: Tensor


def constants(count: int, epsilon: float, steps: AffineSteps, kind: Element = INT8) -> dict[str, Any] | None:
    """Returns the kernel's numbers for groups of `count`; `epsilon` is n^2 * eps in steps of the input squared.

    The variance gets all the bits available; a deviation d = n * (q - mean) is at most sqrt(n) standard deviations, and
    at most 255 * n, for int16 codes 65535 * n. None if a step of the output is too small to be computed in 32 bits.
    """
    shift = (VARIANCE_BITS - math.frexp(count**2 * 2.0 ** SQUARE_BITS[kind] + epsilon)[1]) // 2 * 2
    fixed = round(math.ldexp(epsilon, shift))
    least = max(fixed, 1 << max(shift, 0))
    by_spread = DEVIATION_BITS - 16 + shift // 2 - ((count - 1).bit_length() + 1) // 2
    by_range = DEVIATION_BITS - (kind.steps * count).bit_length() + ((least.bit_length() - 31) >> 1)
    exponent = max(by_spread, by_range)
    # out = high(d * f) * 2^-fraction_bits, where f contains weight * 2^power.
    beside = 17 + shift // 2 - exponent  # power - fraction_bits
    powers = [31 - math.frexp(size)[1] for size in (float(steps.weight.abs().max()),) if size > 0]
    largest_bias = float(steps.bias.abs().max()) + 1
    fraction_bits = min(FRACTION_BITS, 30 - math.frexp(largest_bias)[1], *(power - beside for power in powers))
    if fraction_bits < FEWEST_FRACTION_BITS:
        return None
    scale = torch.round(steps.weight * 2.0 ** (fraction_bits + beside)).clamp(-INT32.high, INT32.high)
    offset = torch.round(steps.bias * 2.0**fraction_bits) + 2 ** (fraction_bits - 1)
    return {
        "epsilon": fixed,
        "variance_shift": max(shift, -VARIANCE_BITS),
        "exponent": exponent,
        "scale": scale.to(torch.int32),
        "offset": offset.to(torch.int32),
        "fraction_bits": fraction_bits,
    }


def steps_of(lowering: Lowering) -> AffineSteps:
    """Returns weight and bias in steps of the output."""
    given = {name: lowering.data(name) if lowering.bound.get(name) is not None else None for name in ("weight", "bias")}
    weight, bias = (None if data is None else data.flatten().to(torch.float64) for data in given.values())
    sizes = {len(data) for data in (weight, bias) if data is not None} or {1}
    one = torch.ones(max(sizes), dtype=torch.float64)
    weight, bias = one if weight is None else weight, 0 * one if bias is None else bias
    return AffineSteps(weight / lowering.out.scale, bias / lowering.out.scale + lowering.out.zero_point)


def normalized(lowering: Lowering, source: Node, *, first: int, dim: int, groups: int, centered: bool) -> Node:
    bound, q = lowering.bound, lowering.q("input")
    count, eps = group_size(bound), bound["eps"]
    eps = torch.finfo(torch.float32).eps if eps is None else float(eps)
    found = constants(count, count**2 * eps / q.scale**2, steps_of(lowering), q.element)
    if found is None:
        raise CortadoError(
            f"{describe(bound.node)}: an output scale of {lowering.out.scale:g} is too small for its weight and bias: "
            "the output is almost constant for every calibration input; calibrate with inputs for which it is not"
        )
    low, high = lowering.bounds()
    return lowering.call(
        NORMALIZE,
        input=source,
        dim=dim,
        first=first,
        groups=groups,
        centered=centered,
        input_zero_point=q.zero_point,
        **{**found, **{name: lowering.constant(name, found[name]) for name in ("scale", "offset")}},
        activation_min=low,
        activation_max=high,
    )


def lower_trailing(lowering: Lowering, centered: bool) -> Node:
    """Lowers a norm over the last dimensions, with a weight for each of their elements."""
    source = lowering.node("input")
    sizes = shape(source)
    first = len(sizes) - len(lowering.bound["normalized_shape"])
    rows = lowering.view(source, (*sizes[:first], math.prod(sizes[first:])))
    return lowering.view(normalized(lowering, rows, first=first, dim=first, groups=1, centered=centered), sizes)


def lower_channels(lowering: Lowering) -> Node:
    """Lowers a norm over groups of channels of an image, with a weight for each channel."""
    groups = channel_groups(lowering.bound)
    return normalized(lowering, lowering.node("input"), first=1, dim=1, groups=groups, centered=True)


def rms_norm_in_float(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Writes the norm out. torch's own decomposition has a power, for which ExecuTorch finds no kernel name, and adds a
    number to a tensor, which would become a constant of the program."""
    dims = list(range(-len(normalized_shape), 0))
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    mean = (input * input).mean(dims, keepdim=True)
    result = input * torch.rsqrt(mean + torch.full_like(mean, eps))
    return result if weight is None else result * weight


def _unit(input: Tensor, dims: list[int], eps: float) -> Tensor:
    """Returns (x - mean) / deviation as a quotient: both have similar magnitudes, whatever the variance."""
    centered = input - input.mean(dims, keepdim=True)
    return centered / torch.sqrt((centered * centered).mean(dims, keepdim=True) + eps)


def layer_norm_in_pieces(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float, **_: Any
) -> Tensor:
    return scaled(_unit(input, list(range(-len(normalized_shape), 0)), eps), weight, bias)


def group_norm_in_pieces(
    input: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float, **_: Any
) -> Tensor:
    unit = _unit(input.reshape(input.shape[0], num_groups, -1), [-1], eps).reshape(input.shape)
    column = (-1, *[1] * (input.dim() - 2))
    return scaled(unit, *(None if one is None else one.reshape(column) for one in (weight, bias)))


def instance_norm_in_pieces(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, **_: Any) -> Tensor:
    return group_norm_in_pieces(input, input.shape[1], weight, bias, eps)


# ---- the C kernel --------------------------------------------------------------------------------------------


def relayout(arguments: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any] | None:
    """Permutes dimensions, if the samples stay in front and the channels become a sample's first or last dimension."""
    first, dim = arguments["first"], perm[arguments["dim"]]
    if set(perm[:first]) != set(range(first)) or dim not in (first, len(perm) - 1):
        return None
    return {**arguments, "dim": dim}


def rows(call: Call) -> Rows | None:
    """Runs pixel by pixel if a sample is a single pixel."""
    alone = call["first"] == len(call.shape("input")) - 1
    return Rows((ONE_ROW,), pixelwise=True) if alone else None


def _sizes(call: Call) -> tuple[int, int]:
    """Returns the number of channels, and of pixels in a sample."""
    sizes, channels = call.shape("input"), call.shape("input")[call["dim"]]
    return channels, math.prod(sizes[call["first"] :]) // channels


def _fields(call: Call) -> dict[str, Field]:
    first, dim, (channels, pixels) = call["first"], call["dim"], _sizes(call)
    factors = {name: call.array(name) for name in ("scale", "offset")}
    return {
        "channels": channels // call["groups"],
        "pixels": pixels,
        "channel_stride": 1 if dim != first else pixels,
        "pixel_stride": channels if dim != first else 1,
        "epsilon_high": call["epsilon"] >> 31,
        "epsilon_low": call["epsilon"] & INT32.high,
        "by_channel": int(len(factors["scale"]) > 1),
        **{name: Array(np.ascontiguousarray(data)) for name, data in factors.items()},
    }


def _samples_of(call: Call) -> int:
    return math.prod(call.shape("input")[: call["first"]])


def _call_work(call: Call) -> Work:
    channels, pixels = _sizes(call)
    return _work(call["groups"], channels // call["groups"], pixels, None if rows(call) else _samples_of(call))


def _row(symbol: str, kind: Element) -> tuple[KernelRow, KernelRow]:
    """Returns the rows that run pixel by pixel, and on whole samples."""
    by_pixel = KernelRow(
        symbol,
        kind,
        fits=lambda call: rows(call) is not None,
        struct="cortado_normalize_t",
        fields=_fields,
        work=_call_work,
    )
    whole = (*SPAN[:-1], Number(0))
    return by_pixel, replace(by_pixel, fits=None, arguments=whole, numbers=lambda call: (_samples_of(call),))


_FEWEST_IN_RUN = 8  # channels of a pixel for which a run of vector instructions pays


def _has_runs(call: Call) -> bool:
    """Whether groups are runs of bytes: a pixel's channels, or planes behind each other."""
    channels, pixels = _sizes(call)
    return pixels == 1 or call["dim"] == call["first"] or channels // call["groups"] >= _FEWEST_IN_RUN


def _vector_work(call: Call) -> Work:
    """Counts groups, runs of their sums and of their outputs, sixteen and four elements at a time."""
    (all_channels, pixels), groups = _sizes(call), call["groups"]
    channels, samples = all_channels // groups, None if rows(call) else _samples_of(call)
    apart = pixels > 1 and call["dim"] != call["first"]
    runs, length = (pixels, channels) if apart else (1, channels * pixels)
    planes = channels if pixels > 1 and not apart and len(call.array("scale")) > 1 else 1

    def quantities(calls: Calls) -> Quantities:
        number = (calls.spans if samples is None else calls.calls * samples) * groups
        outputs = number * runs * planes
        return {
            "groups": number,
            "sum_runs": number * runs,
            "sum_vectors": number * runs * math.ceil(length / 16),
            "output_runs": outputs,
            "output_vectors": outputs * math.ceil(length / planes / 4),
            "several": float(planes == 1 and len(call.array("scale")) > 1),
        }

    terms = "calls groups sum_runs sum_vectors output_runs output_vectors output_vectors*several"
    return Work(tuple(terms.split()), quantities)


def _vectors(row: KernelRow) -> KernelRow:
    fits = row.fits
    return replace(
        row,
        symbol="normalize_s8__mve",
        cores=(Core.MVE,),
        fits=lambda call: _has_runs(call) and (fits is None or fits(call)),
        work=_vector_work,
    )


_BYTES = _row("normalize_s8", INT8)
KERNELS = KernelTable((*map(_vectors, _BYTES), *_BYTES, *_row("normalize_s16", INT16)))


_LOOPS = ("pixel_groups", "pixel_elements", "image_groups", "image_lines", "image_elements")


def _work(groups: int, channels: int, pixels: int, samples: int | None) -> Work:
    """Counts groups that are the channels of one pixel, and other groups, which have loops of their own."""

    def quantities(calls: Calls) -> Quantities:
        every = calls.spans if samples is None else calls.calls * samples
        if groups == pixels == 1:
            numbers = (every, every * channels, 0.0, 0.0, 0.0)
        else:
            lines = every * groups * channels
            numbers = (0.0, 0.0, every * groups, lines, lines * pixels)
        return dict(zip(_LOOPS, numbers, strict=True))

    return Work(("calls", *_LOOPS), quantities)


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws trailing dimensions, or groups of channels before or after the pixels; any spread, any eps."""
    seed, kind = draw.seed(), draw.element()
    trailing = draw.flag()
    leading = draw.sizes(6, 1, 3 if trailing else 1)
    pixels = [] if trailing else draw.sizes(9, 0, 3)
    members, groups = draw.channels(), 1 if trailing else draw.whole(1, 4)
    behind = draw.flag()
    channels = [members * groups]
    sizes = (*leading, *pixels, *channels) if behind else (*leading, *channels, *pixels)
    count, centered = members * math.prod(pixels), draw.flag()
    eps = draw.pick([0.0, 2.0 ** draw.real(-30, 140)])
    rng, length = sampling.generator(seed + 1), draw.pick([1, channels[0]])
    weight, bias = torch.randn(2, length, generator=rng, dtype=torch.float64)
    # The output's step as calibration would find it: for normalized values, or for those that eps makes small.
    step = 2.0 ** draw.pick([draw.real(4, 6), draw.real(0, 9)]) * math.sqrt(1 + eps / 2**12)
    steps = AffineSteps(weight * step, bias * draw.pick([0.0, 0.0, 40.0, 500.0]))
    given = constants(count, count**2 * eps, steps, kind)
    assert given is not None
    return {
        "input": sampling.codes(seed, sizes, *measures.draw_ends(draw, kind), kind.torch_dtype),
        "dim": len(sizes) - 1 if behind else len(leading),
        "first": len(leading),
        "groups": groups,
        "centered": centered,
        **given,
    }


# ---- the records ---------------------------------------------------------------------------------------------

NORMALIZE = Operator(
    name="cortado::normalize",
    summary="layer, group, instance and RMS normalization",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    rows=rows,
    relayout=relayout,
    element=ElementOf(("input",)),
    in_pieces=True,
    constraints=f"constant weight and bias, groups of at most {LARGEST_GROUP} values, {LARGEST_WIDE_GROUP} in int16",
    no_pte="a .pte computes it in several calls, which lose more in groups of small variance",
    samples=samples,
)

LAYER_NORM_PATTERN = Pattern(
    aten=(aten.layer_norm.default,),
    match=match,
    lower=lambda lowering: lower_trailing(lowering, centered=True),
    fuses_clamp=True,
    in_pieces=layer_norm_in_pieces,
)
RMS_NORM_PATTERN = Pattern(
    aten=(aten.rms_norm.default,),
    match=match,
    lower=lambda lowering: lower_trailing(lowering, centered=False),
    fuses_clamp=True,
    in_float=rms_norm_in_float,
    in_pieces=rms_norm_in_float,
)
GROUP_NORM_PATTERN = Pattern(
    aten=(aten.group_norm.default,),
    match=match,
    lower=lower_channels,
    fuses_clamp=True,
    in_pieces=group_norm_in_pieces,
)
INSTANCE_NORM_PATTERN = replace(
    GROUP_NORM_PATTERN, aten=(aten.instance_norm.default,), in_pieces=instance_norm_in_pieces
)
