"""Means, sums, products, the smallest and the largest of numbers, over windows or whole dimensions, in float32.

The numbers are combined in ascending order: found = the first, then found + x, found * x, or the smaller or larger of
the two, which is NaN if x is. A mean is the sum divided by the count, or by a divisor.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.element import FLOAT32, INT32
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir.c_call import Number, Operand, Row
from cortado.ir.facts import is_float32
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, shape
from cortado.ir.kernel import RowRule, Rows
from cortado.ir.kernel_table import WINDOW, only
from cortado.ir.op import Call, Lowering, Operator, Pattern, operator_of
from cortado.ir.roles import Plain, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work, loops
from cortado.ops.float_graph import pair
from cortado.ops.floats import MEAN, NO_BOUNDS, FloatArray, bounded, draw_bounds, quiet, stored
from cortado.ops.integer.calculate import How
from cortado.ops.move.reshape import TRANSPOSE
from cortado.ops.pool.avg_pool2d import pool_fields, pool_window, pooled_size
from cortado.ops.pool.reductions import dims_of

aten = torch.ops.aten


def _joined(found: FloatArray, x: FloatArray, how: int) -> FloatArray:
    if how in (How.SUM, MEAN):
        return found + x
    if how == How.PRODUCT:
        return found * x
    beyond = x < found if how == How.SMALLER else x > found
    return np.where(beyond | np.isnan(x), x, found)


# ---- windows -------------------------------------------------------------------------------------------------


@quiet
def reference(
    *,
    input: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    how: int,
    divisor: int,
    activation_min: float,
    activation_max: float,
) -> Tensor:
    x = input.numpy()
    n, height, width = _pooled(tuple(input.shape), kernel_size, stride, padding, dilation, ceil_mode)[:3]
    found = np.zeros((n, height, width, x.shape[3]), dtype=np.float32)
    count = np.zeros((height, width), dtype=np.float32)
    for ky in range(kernel_size[0]):
        rows = np.arange(height) * stride[0] - padding[0] + ky * dilation[0]
        for kx in range(kernel_size[1]):
            cols = np.arange(width) * stride[1] - padding[1] + kx * dilation[1]
            inside = [np.flatnonzero((at >= 0) & (at < size)) for at, size in ((rows, x.shape[1]), (cols, x.shape[2]))]
            taps = x[:, rows[inside[0]]][:, :, cols[inside[1]]]
            under, places = np.ix_(np.arange(n), *inside), np.ix_(*inside)
            first = (count[places] == 0)[None, :, :, None]
            found[under] = np.where(first, taps, _joined(found[under], taps, how))
            count[places] += 1
    if how == MEAN:
        found = found / (np.float32(divisor) if divisor else count[None, :, :, None])
    return bounded(found, activation_min, activation_max)


def _pooled(
    sizes: tuple[int, ...],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[int, int, int, int]:
    n, h, w, c = sizes
    axes = zip((h, w), kernel, stride, padding, dilation, strict=True)
    high, wide = (pooled_size(size, taps, step, pad, ceil_mode, gap) for size, taps, step, pad, gap in axes)
    return n, high, wide, c


def output_shape(call: Call) -> tuple[int, ...]:
    kernel, stride, padding, dilation = (call[name] for name in ("kernel_size", "stride", "padding", "dilation"))
    return _pooled(call.shape("input"), kernel, stride, padding, dilation, bool(call["ceil_mode"]))


def lower(lowering: Lowering) -> Node:
    bound = lowering.bound
    kernel, mean = pair(bound["kernel_size"]), bound.node.target == aten.avg_pool2d.default
    low, high = lowering.clamp
    made = lowering.call(
        FLOAT_POOL2D,
        input=lowering.transpose(lowering.node("self"), TO_NHWC),
        kernel_size=kernel,
        stride=pair(bound["stride"]) if bound["stride"] else kernel,
        padding=pair(bound["padding"]),
        dilation=[1, 1] if mean else pair(bound["dilation"]),
        ceil_mode=bool(bound["ceil_mode"]),
        how=MEAN if mean else int(How.LARGER),
        divisor=int(bound.get("divisor_override") or 0),
        activation_min=low,
        activation_max=high,
    )
    return lowering.transpose(made, TO_NCHW)


def match(bound: Bound) -> Quantization | Reject:
    if len(shape(bound["self"])) != 4:
        return Reject(f"pools a tensor of {len(shape(bound['self']))} dimensions, expected a batch of images")
    counted = bound.get("count_include_pad") and any(pair(bound["padding"])) and not bound.get("divisor_override")
    return Reject("counts the zeros around an image") if counted else Quantization({}, Plain())


KERNELS = only(
    "pool2d_f32",
    FLOAT32,
    arguments=WINDOW,
    struct="cortado_pool2d_f32_t",
    fields=lambda call: pool_fields(call, call["dilation"][1]),
    work=lambda call: _window_work(call),
)


def _window_work(call: Call) -> Work:
    """Counts the taps of windows, and those inside the image, which a mean adds."""
    seen, mean = pool_window(call, call["dilation"][1]), float(call["how"] == MEAN)
    windows = ("spans*in_c", "spans*in_c*kernel_h", "spans*in_c*taps", "spans*in_c*mean")
    terms = ("calls", *windows, "taps_inside*in_c", "taps_inside*in_c*mean")
    return Work(terms, lambda calls: {**seen.sizes, **seen.columns(calls), "mean": mean})


def rows(call: Call) -> Rows:
    taps, stride, above, dilation = (call[name][0] for name in ("kernel_size", "stride", "padding", "dilation"))
    return Rows((RowRule(taps, stride, above, dilation),))


def samples(draw: CaseDraw) -> dict[str, Any]:
    kernel = [draw.whole(1, 4) for _ in range(2)]
    dilation = [draw.pick([1, 1, 2]) for _ in range(2)]
    padding = [draw.whole(0, size // 2) for size in kernel]
    reach = [gap * (size - 1) + 1 for size, gap in zip(kernel, dilation, strict=True)]
    sizes = [draw.whole(max(1, reach[axis] - padding[axis]), reach[axis] + 6) for axis in range(2)]
    channels, batch = draw.channels(), draw.pick([1, 1, 2])
    return {
        "input": draw.numbers((batch, *sizes, channels)),
        "kernel_size": kernel,
        "stride": [draw.whole(1, 3) for _ in range(2)],
        "padding": padding,
        "dilation": dilation,
        "how": draw.pick([MEAN, int(How.LARGER)]),
        "divisor": draw.pick([0, 0, 7]),
        **draw_bounds(draw),
    }


FLOAT_POOL2D = Operator(
    name="cortado::float_pool2d",
    summary="average and maximum pooling in float32",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    element=FLOAT32,
    samples=samples,
)
FLOAT_POOL2D_PATTERN = Pattern(
    aten=(aten.avg_pool2d.default, aten.max_pool2d.default),
    match=match,
    lower=lower,
    fuses_clamp=True,
    images=True,
    floating=True,
)


def one_window(kernel: Sequence[int], how: int) -> dict[str, Any] | None:
    """Returns the arguments, except the image, of a pool that computes what a reduction does, bit for bit; None if
    there is none."""
    if how not in (MEAN, How.SUM, How.LARGER):
        return None
    low, high = NO_BOUNDS
    return {
        "kernel_size": list(kernel),
        "stride": [1, 1],
        "padding": [0, 0],
        "dilation": [1, 1],
        "ceil_mode": False,
        "how": int(How.LARGER) if how == How.LARGER else MEAN,
        "divisor": int(how == How.SUM),
        "activation_min": low,
        "activation_max": high,
    }


# ---- dimensions ----------------------------------------------------------------------------------------------


@quiet
def reduce_reference(*, input: Tensor, how: int, running: bool) -> Tensor:
    """Reduces the middle dimension of [outer, length, inner]."""
    x = input.numpy()
    found = [x[:, 0]]
    for at in range(1, x.shape[1]):
        found.append(_joined(found[-1], x[:, at], how))
    if running:
        return stored(np.stack(found, axis=1))
    return stored(found[-1] / np.float32(x.shape[1]) if how == MEAN else found[-1])


def reduced_shape(call: Call) -> tuple[int, ...]:
    outer, _, inner = call.shape("input")
    return call.shape("input") if call.arguments.get("running") else (outer, inner)


def _reduce_work(call: Call) -> Work:
    summed, (outer, _, inner) = call["how"] in (How.SUM, MEAN), call.shape("input")
    sums, others = "values*summed values*summed*flat values*running*summed", "values*beyond values*multiplied"
    return loops(
        f"calls calls*outer outputs {sums} {others} values*running outputs*mean",
        values=math.prod(call.shape("input")),
        summed=summed,
        beyond=call["how"] in (How.SMALLER, How.LARGER),
        multiplied=call["how"] == How.PRODUCT,
        running=call["running"],
        mean=call["how"] == MEAN,
        outer=outer,
        flat=inner == 1,
    )


REDUCE_KERNELS = only(
    "reduce_f32",
    FLOAT32,
    arguments=(Row(0), Operand.OUT, *map(Number, range(5))),
    numbers=lambda call: (*call.shape("input"), int(call["how"]), int(call["running"])),
    work=_reduce_work,
)


@quiet
def position_reference(*, input: Tensor, how: int) -> Tensor:
    x = input.numpy()
    at = np.zeros((x.shape[0], x.shape[2]), dtype=np.int32)
    best = x[:, 0]
    for place in range(1, x.shape[1]):
        now = x[:, place]
        beyond = now < best if how == How.SMALLER else now > best
        taken = beyond | (np.isnan(now) & ~np.isnan(best))
        at, best = np.where(taken, np.int32(place), at), np.where(taken, now, best)
    return torch.from_numpy(at)


POSITION_KERNELS = only(
    "position_f32",
    FLOAT32,
    INT32,
    arguments=(Row(0), Operand.OUT, *map(Number, range(4))),
    numbers=lambda call: (*call.shape("input"), int(call["how"])),
    work=lambda call: loops("calls outputs values", values=math.prod(call.shape("input"))),
)


_HOW = {
    aten.sum.default: How.SUM,
    aten.sum.dim_IntList: How.SUM,
    aten.mean.default: MEAN,
    aten.mean.dim: MEAN,
    aten.amax.default: How.LARGER,
    aten.max.default: How.LARGER,
    aten.amin.default: How.SMALLER,
    aten.min.default: How.SMALLER,
    aten.prod.default: How.PRODUCT,
    aten.prod.dim_int: How.PRODUCT,
    aten.cumsum.default: How.SUM,
    aten.cumprod.default: How.PRODUCT,
    aten.argmax.default: How.LARGER,
    aten.argmin.default: How.SMALLER,
}
_RUNNING = (aten.cumsum.default, aten.cumprod.default)
_POSITIONS = (aten.argmax.default, aten.argmin.default)


def match_reduce(bound: Bound) -> Quantization | Reject:
    if not is_float32(bound["self"]):
        return Reject("its operand is not a float32 tensor")
    return Reject("gives an empty tensor") if 0 in shape(bound["self"]) else Quantization({}, Plain())


def _folded(lowering: Lowering, dims: frozenset[int]) -> tuple[Node, tuple[int, ...]]:
    """Returns the operand as [outer, length, inner], and the remaining dimensions in memory order."""
    source = lowering.node("self")
    sizes = shape(source)
    order = TO_NHWC if len(sizes) == 4 and dims <= {2, 3} else tuple(range(len(sizes)))
    if len(sizes) == 3 and dims == {2} and _is_signal(source):
        order = (0, 2, 1)
    places = [place for place, dim in enumerate(order) if dim in dims]
    if places[-1] - places[0] + 1 != len(places):
        order = (*(dim for dim in order if dim not in dims), *(dim for dim in order if dim in dims))
        places = [place for place, dim in enumerate(order) if dim in dims]
    parts = (order[: places[0]], order[places[0] : places[-1] + 1], order[places[-1] + 1 :])
    flat = tuple(math.prod(sizes[dim] for dim in part) for part in parts)
    return lowering.view(lowering.transpose(source, order), flat), (*parts[0], *parts[2])


def _is_signal(node: Node) -> bool:
    """Whether [batch, channels, time] was computed by a layer with channels last, and calls since then kept the
    layout."""
    sizes = shape(node)
    while node.op == "call_function" and len(node.all_input_nodes) == 1:
        source = node.all_input_nodes[0]
        if operator_of(node.target) is TRANSPOSE:
            return shape(source)[-2:] == (sizes[2], sizes[1])
        if math.prod(shape(source)) != math.prod(sizes):
            return False
        node = source
    return False


def lower_reduce(lowering: Lowering) -> Node:
    bound = lowering.bound
    sizes, how = shape(lowering.node("self")), int(_HOW[bound.node.target])  # type: ignore[index]
    if bound.node.target in _RUNNING:
        dim = int(bound["dim"]) % len(sizes)
        flat = (math.prod(sizes[:dim]), sizes[dim], math.prod(sizes[dim + 1 :]))
        made = lowering.call(FLOAT_REDUCE, input=lowering.view(lowering.node("self"), flat), how=how, running=True)
        return lowering.view(made, sizes)
    folded, kept = _folded(lowering, dims_of(bound, len(sizes)))
    if bound.node.target in _POSITIONS:
        made = lowering.call(FLOAT_POSITION, input=folded, how=how)
    elif shape(folded)[1] == 1:  # any reduction of one number is that number
        made = folded
    else:
        made = lowering.call(FLOAT_REDUCE, input=folded, how=how, running=False)
    if not kept or list(kept) == sorted(kept):
        return lowering.view(made, shape(bound.node))
    apart = lowering.view(made, tuple(sizes[dim] for dim in kept))
    natural = tuple(sorted(range(len(kept)), key=lambda place: kept[place]))
    return lowering.view(lowering.transpose(apart, natural), shape(bound.node))


def _draw_folded(draw: CaseDraw) -> Tensor:
    return draw.numbers((draw.whole(1, 4), draw.channels(), draw.whole(1, 5)))


def reduce_samples(draw: CaseDraw) -> dict[str, Any]:
    running = draw.flag()
    kinds = [How.SUM, How.PRODUCT, *([] if running else [MEAN, How.SMALLER, How.LARGER])]
    return {"input": _draw_folded(draw), "how": int(draw.pick(kinds)), "running": running}


def position_samples(draw: CaseDraw) -> dict[str, Any]:
    return {"input": _draw_folded(draw), "how": int(draw.pick([How.SMALLER, How.LARGER]))}


FLOAT_REDUCE = Operator(
    name="cortado::float_reduce",
    summary="sums, products, means, minima and maxima of float32 along dimensions, running or not",
    reference=reduce_reference,
    shape=reduced_shape,
    kernel=REDUCE_KERNELS,
    element=FLOAT32,
    samples=reduce_samples,
)
FLOAT_POSITION = Operator(
    name="cortado::float_position",
    summary="positions of the largest or smallest of float32 numbers along a dimension",
    reference=position_reference,
    shape=reduced_shape,
    kernel=POSITION_KERNELS,
    element=INT32,
    samples=position_samples,
)
FLOAT_REDUCE_PATTERN = Pattern(aten=tuple(_HOW), match=match_reduce, lower=lower_reduce, floating=True)
