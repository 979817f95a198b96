"""Kernels for int16 codes: what they can take, and their weights in the order they read them (as packing.py for int8).

The C kernels of layers of int16 codes and int8 weights, by core.
"""

import math
from typing import Any

import numpy as np

from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.kernel import Array, Kernel
from cortado.ir.op import Call
from cortado.ir.work import Work, loops
from cortado.ops.conv.convolution import Numbers, Variant, packed, window_fits, window_of
from cortado.ops.conv.convolution_work import Codes, pixels_work, window_work
from cortado.ops.conv.packing import Int8, Int32, as_bytes, factor_words, joined, pack_conv_tile, pad_to
from cortado.ops.loops import sliding_fields
from cortado.ops.reach import sum_shift

# ---- wide packing ----------------------------------------------------------------------------------------


def fits(multiplier: Int32, shift: Int32) -> bool:
    """Whether any kernel with packed weights takes a layer whose sums fit 32 bits."""
    return bool(np.all(multiplier >= 1 << 30) and np.all(shift < 0))


def pack_conv_tile_dsp(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, groups: int = 1) -> Int8:
    """The stream of conv_tile_s16__dsp.S: [out_c, ...] weights, four channels each."""
    flat = pad_to(pad_to(weights.reshape(groups, len(weights) // groups, -1), 2, 2), 1, 4)
    pairs = flat.reshape(-1, 2, 2, flat.shape[2] // 2, 2)  # [four, pair, channel of the pair, k // 2, k % 2]
    words = np.stack([bias, 2 * multiplier.astype(np.int64), -shift], axis=1).reshape(groups, -1, 3)
    tables = pad_to(words, 1, 4).reshape(-1, 4, 3)
    return joined(as_bytes(tables[..., 0]), pairs.transpose(0, 3, 1, 4, 2), as_bytes(tables[..., 1:]))


def scratch_conv1x1_dsp(in_c: int, pixels: int) -> int:
    """Bytes of scratch for conv1x1 `__dsp`, at most `pixels` at a time."""
    return 4 * (in_c + 1 & ~1) if pixels > 1 else 0


def scratch_conv2d_dsp(taps: int, depth: int) -> int:
    """Bytes of scratch for conv2d `__dsp`; depth = in_c / groups."""
    return (6 if depth % 2 else 4) * (taps * depth + 1 & ~1)


def pack_conv_tile_mve(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, groups: int = 1) -> Int8:
    """The stream of conv_tile_s16__mve.S: [out_c, ...] weights, four channels each."""
    flat = pad_to(pad_to(weights.reshape(groups, len(weights) // groups, -1), 2, 8), 1, 4)
    blocks = flat.reshape(-1, 4, flat.shape[2] // 8, 8).transpose(0, 2, 1, 3)
    tables = [pad_to(table.reshape(groups, -1), 1, 4).reshape(-1, 4) for table in (bias, multiplier, shift)]
    return joined(as_bytes(tables[0]), blocks, as_bytes(tables[1]), as_bytes(tables[2]))


def scratch_conv2d_mve(products: int, out_w: int) -> int:
    """Bytes of scratch for conv2d `__mve`: two windows, or one."""
    return (4 if out_w > 1 else 2) * products


def _overlapping(channels: int, together: int) -> list[slice]:
    """Slices of `together` channels each; the last may repeat some of those before."""
    rest = [channels - together] if channels % together else []
    return [slice(first, first + together) for first in [*range(0, channels - together + 1, together), *rest]]


def pack_depthwise_dsp(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of depthwise_s16__dsp.c: [taps, channels] weights, at least four channels."""
    words = np.stack([2 * multiplier.astype(np.int64), -shift], axis=1)
    parts = []
    for four in _overlapping(weights.shape[1], 4):
        parts += [
            as_bytes(bias[four]).ravel(),
            weights[:, four].astype("<i2").reshape(-1, 1).view(np.int8).ravel(),
            as_bytes(words[four]).ravel(),
        ]
    return np.concatenate(parts)


def pack_depthwise_mve(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of depthwise_pixel_s16__mve.S: [taps, channels] weights, at least eight channels."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    parts = []
    for eight in _overlapping(weights.shape[1], 8):
        factors = np.concatenate([multiplier[eight][order], shift[eight][order]])
        parts += [as_bytes(bias[eight][order]).ravel(), weights[:, eight].ravel(), as_bytes(factors).ravel()]
    return np.concatenate(parts)


# ---- small cores -----------------------------------------------------------------------------------------------------


def pack_conv_tile_small(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, groups: int = 1) -> Int8:
    """The stream of conv_tile_s16__scalar.S: that of int8 codes, with the bias in front of the weights."""
    stream = pack_conv_tile(weights, bias, multiplier, shift, Core.SMALL, groups).reshape(len(weights), -1)
    return np.concatenate([stream[:, -12:-8], stream[:, :-12], stream[:, -8:]], axis=1).ravel()


def pack_linear_small(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of cortado_linear_s16__scalar: six channels each, of which the first and the fourth lie in turns."""
    six = pad_to(weights, 0, 6).reshape(-1, 2, 3, weights.shape[1])
    rows = pad_to(six.transpose(0, 2, 3, 1).reshape(len(six), -1), 1, 4)
    words = pad_to(np.stack([bias, multiplier, shift], axis=1), 0, 6).reshape(len(six), -1)
    return np.concatenate([rows, as_bytes(words).reshape(len(six), -1)], axis=1).ravel()


def pack_depthwise_small(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of depthwise_s16__scalar.c: [taps, channels] weights, at least four channels."""
    words = factor_words(bias, multiplier, shift, Core.SMALL)[:, 1:]
    parts = []
    for four in _overlapping(weights.shape[1], 4):
        parts += [as_bytes(bias[four]).ravel(), weights[:, four].ravel(), as_bytes(words[four]).ravel()]
    return np.concatenate(parts)


def scratch_conv_small(products: int) -> int:
    """Bytes of scratch for conv1x1 and conv2d `__scalar`: four windows, a word for each product."""
    return 16 * (products + 3 & ~3)


# ---- wide kernels ----------------------------------------------------------------------------------------

_Sizes = tuple[int, int]


def _fields(call: Call, kernel: _Sizes, weights: Numbers, by_channel: Tensor) -> dict[str, Any]:
    """A portable layer's descriptor; `by_channel` are its weights as [out_c, ...]."""
    bias = call["bias"]
    return {
        **sliding_fields(call, kernel),
        "groups": call.shape("input")[3] // by_channel.shape[-1],
        "sum_shift": sum_shift(by_channel, bias),
        "act_min": call["activation_min"],
        "act_max": call["activation_max"],
        "weights": Array(weights),
        "bias": None if bias is None else Array(call.array("bias")),
        "multiplier": Array(call.array("requantize_multipliers")),
        "shift": Array(call.array("requantize_shifts")),
    }


def _parameters(call: Call) -> tuple[Numbers, Numbers, Numbers]:
    """Bias, multiplier and shift per output channel."""
    multiplier, shift = call.array("requantize_multipliers"), call.array("requantize_shifts")
    return np.zeros_like(shift) if call["bias"] is None else call.array("bias"), multiplier, shift


def _is_packed(fields: dict[str, Any], core: Core) -> bool:
    """Whether a core's own kernels take a layer: elsewhere sums are of 64 bits, and so is the portable kernel."""
    fit = fields["sum_shift"] == 0 and fits(fields["multiplier"].data, fields["shift"].data)
    return core not in (Core.PORTABLE, Core.LONG) and fit and window_fits(fields, np.int16)


def _packed(fields: dict[str, Any], stream: Numbers, zeros: int = 0) -> dict[str, Any]:
    """The descriptor of a variant; zeros: how many it reads outside of the image."""
    zero = Array(np.zeros(zeros, np.int16)) if zeros else None
    kept = {name: value for name, value in fields.items() if name != "sum_shift"}
    return {**packed(kept, stream), "zero": zero}


def _kernel(chosen: Variant, reads: tuple[Any, ...], checked: tuple[Any, ...], work: Work) -> Kernel:
    return Kernel(
        call=CCall(f"cortado_{chosen.symbol}", (Operand.LAYER, *reads, Operand.SCRATCH)),
        struct=f"cortado_layer_s16{'_packed' if chosen.packed else ''}_t",
        fields=chosen.fields,
        scratch=chosen.scratch,
        scratch_check=chosen.scratch_check(Operand.LAYER, *checked),
        tile=chosen.tile,
        work=work,
    )


def _codes(call: Call) -> Codes:
    return Codes(call["activation_min"], call["output_offset"])


# ---- ordinary and grouped convolutions -------------------------------------------------------------------------------


def pixels_kernel(call: Call, core: Core) -> Kernel:
    """1x1: over spans of pixels."""
    out_c, _, _, in_c = call.shape("weight")
    weights, pixels = call.array("weight").reshape(out_c, in_c), math.prod(call.out_shape[:3])
    fields, reads = _fields(call, (1, 1), weights, call["weight"]), (Row(0), Operand.OUT, Operand.N)
    if not _is_packed(fields, core):
        portable = Variant("conv1x1_s16", fields, packed=False)
        return _kernel(portable, reads, (), loops("calls outputs outputs*taps macs", taps=1))
    chosen = _pixels_variant(call, fields, core, pixels)
    return _kernel(chosen, reads, (pixels,), pixels_work(chosen.symbol, in_c, out_c, _codes(call)))


def _pixels_variant(call: Call, fields: dict[str, Any], core: Core, pixels: int) -> Variant:
    weights, parameters = fields["weights"].data, _parameters(call)
    if core is Core.MVE:
        fields = _packed(fields, pack_conv_tile_mve(weights, *parameters))
        return Variant("conv1x1_s16__mve", fields, tile=2)
    if core is Core.SMALL and pixels == 1:
        fields = _packed(fields, pack_linear_small(weights, *parameters))
        return Variant("linear_s16__scalar", fields)
    if core is Core.SMALL:
        fields = _packed(fields, pack_conv_tile_small(weights, *parameters))
        scratch = scratch_conv_small(weights.shape[1])
        return Variant("conv1x1_s16__scalar", fields, scratch, tile=4)
    fields = _packed(fields, pack_conv_tile_dsp(weights, *parameters))
    scratch = scratch_conv1x1_dsp(weights.shape[1], pixels)
    return Variant("conv1x1_s16__dsp", fields, scratch, tile=2)


def window_kernel(call: Call, core: Core) -> Kernel:
    """Any window: one output row from the rows under it."""
    _, kh, kw, depth = call.shape("weight")
    weights = call.array("weight")
    fields = _fields(call, (kh, kw), weights.reshape(len(weights), -1), call["weight"])
    reads = (Operand.ROWS, Operand.OUT)
    if not _is_packed(fields, core):
        portable = Variant("conv2d_s16", fields, packed=False)
        return _kernel(portable, reads, (), loops("calls outputs outputs*taps macs", taps=kh * kw))
    chosen = _window_variant(call, fields, core, (kh * kw, depth))
    return _kernel(chosen, reads, (), window_work(chosen.symbol, _window(call, (kh, kw), fields), _codes(call)))


def _window(call: Call, kernel: _Sizes, fields: dict[str, Any]) -> Any:
    return window_of(call, kernel, fields["groups"])


def _window_variant(call: Call, fields: dict[str, Any], core: Core, sizes: _Sizes) -> Variant:
    """sizes: taps, and the channels of one."""
    weights, parameters, groups = fields["weights"].data, _parameters(call), fields["groups"]
    if core is Core.MVE:
        fields = _packed(fields, pack_conv_tile_mve(weights, *parameters, groups), fields["in_c"])
        return Variant("conv2d_s16__mve", fields, scratch_conv2d_mve(math.prod(sizes), fields["out_w"]))
    if core is Core.SMALL:
        fields = _packed(fields, pack_conv_tile_small(weights, *parameters, groups), fields["in_c"])
        return Variant("conv2d_s16__scalar", fields, scratch_conv_small(math.prod(sizes)))
    fields = _packed(fields, pack_conv_tile_dsp(weights, *parameters, groups), fields["in_c"])
    scratch = scratch_conv2d_dsp(*sizes)
    return Variant("conv2d_s16__dsp", fields, scratch)


# ---- depthwise convolutions ------------------------------------------------------------------------------------------


def depthwise_kernel(call: Call, core: Core) -> Kernel:
    """Weights are [1, kernel_h, kernel_w, out_c]."""
    weights = call.array("weight")
    _, kh, kw, out_c = weights.shape
    fields = _fields(call, (kh, kw), weights.reshape(kh * kw, out_c), call["weight"].permute(3, 1, 2, 0))
    reads, window = (Operand.ROWS, Operand.OUT), window_of(call, (kh, kw))
    chosen = _depthwise_variant(call, fields, core) if _is_packed(fields, core) else None
    if chosen is None:
        chosen = Variant("depthwise_s16", fields, packed=False)
    return _kernel(chosen, reads, (), window_work(chosen.symbol, window, _codes(call)))


def _depthwise_variant(call: Call, fields: dict[str, Any], core: Core) -> Variant | None:
    """None for depth multipliers and for layers of few channels."""
    weights, channels, parameters = fields["weights"].data, fields["in_c"], _parameters(call)
    scratch = 4 * len(weights)
    if channels != fields["out_c"] or channels < 4:
        return None
    if core is Core.MVE and channels >= 8:
        fields = _packed(fields, pack_depthwise_mve(weights, *parameters), channels)
        return Variant("depthwise_s16__mve", fields, scratch)
    if core is Core.SMALL:
        fields = _packed(fields, pack_depthwise_small(weights, *parameters), channels)
        return Variant("depthwise_s16__scalar", fields, scratch)
    fields = _packed(fields, pack_depthwise_dsp(weights, *parameters), channels)
    return Variant("depthwise_s16__dsp", fields, scratch)
