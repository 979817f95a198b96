"""The kernels of convolutions and linear layers, as tables: the first row that takes a layer is used.

A row names a C function, the elements of the activations and weights that it reads, the cores that have it, which
layers fit, how it wants their weights packed and how much scratch it needs. The last row of each pair of elements is
portable: every core has it, it takes any layer and reads unpacked weights.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from cortado.base.element import FLOAT32, INT4, INT8, INT16, Element, element_of
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.kernel import Array, Kernel
from cortado.ir.op import Call
from cortado.ir.work import Work, loops
from cortado.ops.conv import floats, int4, int16, packing
from cortado.ops.conv.convolution import Numbers, common_fields, packed, window_fields, window_fits, window_of
from cortado.ops.conv.convolution_work import TERMS, Codes, pixels_work, window_work
from cortado.ops.conv.float32_work import FloatLayer, float_work
from cortado.ops.loops import sliding_fields
from cortado.ops.reach import sum_shift


class ConvForm(Enum):
    """The span that one call of a kernel computes; the value is its name in C."""

    PIXELS = "conv1x1"  # any span of pixels
    WINDOW = "conv2d"  # one output row from the rows under the window
    DEPTHWISE = "depthwise"  # the same, channel by channel


_Tables = tuple[Numbers, Numbers, Numbers]


@dataclass(frozen=True)
class ConvLayer:
    """A call as its kernels see it: the portable descriptor, and the data that packing reads."""

    call: Call
    form: ConvForm
    fields: dict[str, Any]
    weights: Numbers
    tables: _Tables  # bias, multiplier and shift of each output channel
    packs: bool  # some kernel with packed weights can take it
    stored: int4.StoredWeights | None = None  # 4-bit weights

    @property
    def elements(self) -> tuple[Element, Element]:
        if self.call.element.floating:
            return A32W32 if self.call["scale"] is None else A32W8
        return element_of(self.call.element.name), INT8 if self.stored is None else INT4

    @property
    def all(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        return (self.weights, *self.tables)

    @property
    def shift(self) -> Numbers:
        return self.tables[2]

    @property
    def groups(self) -> int:
        return int(self.fields.get("groups", 1)) if self.form is ConvForm.WINDOW else 1

    @property
    def pixels(self) -> int:
        return math.prod(self.call.out_shape[:3])

    @property
    def window(self) -> tuple[int, int]:
        return self.call.shape("weight")[1:3]  # type: ignore[return-value]

    @property
    def taps(self) -> int:
        return math.prod(self.window)

    @property
    def depth(self) -> int:
        """The number of products of one tap."""
        return self.call.shape("weight")[3]

    @property
    def runs(self) -> int:
        """The number of runs of 4-bit weights that have a factor of their own."""
        return 0 if self.stored is None or self.stored.factors is None else self.stored.factors.shape[1]

    def stream(self, narrow: Callable[..., Numbers], runs: Callable[..., Numbers]) -> Numbers:
        """Packs 4-bit weights with one of two functions; the second takes factors."""
        assert self.stored is not None
        given = [self.stored.codes] if self.stored.factors is None else [self.stored.codes, self.stored.factors]
        return (narrow if self.stored.factors is None else runs)(*given, *self.tables)


# ---- layers by the elements they are of ------------------------------------------------------------------------------


def _tables(call: Call, bias: Array | None) -> _Tables:
    multiplier, shift = call.array("requantize_multipliers"), call.array("requantize_shifts")
    return np.zeros_like(shift) if bias is None else bias.data, multiplier, shift


def _int8_layer(call: Call, form: ConvForm) -> ConvLayer:
    weights = call.array("weight")
    out_c, in_c = call.out_shape[3], call.shape("input")[3]
    axis = 3 if form is ConvForm.DEPTHWISE else 0
    common = common_fields(call, np.moveaxis(weights, axis, 0).reshape(out_c, -1).sum(axis=1, dtype=np.int64))
    folded = common["in_offset"] == 0
    if form is ConvForm.PIXELS:
        shaped, own, fits = weights.reshape(out_c, in_c), {"in_c": in_c, "out_c": out_c}, True
    else:
        own = window_fields(call, weights.shape[1:3])
        depthwise = form is ConvForm.DEPTHWISE
        own |= {"depth_multiplier": call["depth_multiplier"]} if depthwise else {"groups": in_c // weights.shape[3]}
        shaped = weights[0] if depthwise else weights
        fits = window_fits(own, np.uint8 if depthwise else np.int16)
    fields = {**own, "weights": Array(shaped), **common}
    return ConvLayer(call, form, fields, shaped, _tables(call, common["bias"]), packs=folded and fits)


def _int16_layer(call: Call, form: ConvForm) -> ConvLayer:
    weights, bias = call.array("weight"), call["bias"]
    by_channel = call["weight"].permute(3, 1, 2, 0) if form is ConvForm.DEPTHWISE else call["weight"]
    shaped = weights.reshape(-1, weights.shape[3]) if form is ConvForm.DEPTHWISE else weights.reshape(len(weights), -1)
    multiplier, shift = call.array("requantize_multipliers"), call.array("requantize_shifts")
    fields = {
        **sliding_fields(call, weights.shape[1:3]),
        "groups": call.shape("input")[3] // by_channel.shape[-1],
        "sum_shift": sum_shift(by_channel, bias),
        "act_min": call["activation_min"],
        "act_max": call["activation_max"],
        "weights": Array(shaped),
        "bias": None if bias is None else Array(call.array("bias")),
        "multiplier": Array(multiplier),
        "shift": Array(shift),
    }
    # Other layers have 64-bit sums, which only the portable kernel has.
    fits = fields["sum_shift"] == 0 and int16.fits(multiplier, shift) and window_fits(fields, np.int16)
    return ConvLayer(call, form, fields, shaped, _tables(call, fields["bias"]), packs=fits)


def _int4_layer(call: Call, form: ConvForm) -> ConvLayer:
    weights = call.array("weight")
    flat = weights.reshape(len(weights), -1)
    stored, common = int4.StoredWeights.of(weights, call["run"]), common_fields(call, flat.sum(axis=1, dtype=np.int64))
    # The input offset is always folded into the bias: that is the sum for codes of 0, which fits 32 bits.
    assert common.pop("in_offset") == 0
    fields = {
        **window_fields(call, weights.shape[1:3]),
        **common,
        "weights": Array(int4.pack_pairs(stored.codes), packed=stored.codes.shape),
        "factors": None if stored.factors is None else Array(stored.factors),
    }
    tables = _tables(call, common["bias"])
    fits = window_fits(fields, np.int16) and int4.fits(flat, *tables)
    return ConvLayer(call, form, fields, flat, tables, packs=fits, stored=stored)


def _float_layer(call: Call, form: ConvForm) -> ConvLayer:
    weights, bias = call.array("weight"), call.array("bias")
    fields = {
        **sliding_fields(call, weights.shape[1:3]),
        "groups": call.shape("input")[3] // weights.shape[3],
        "act_min": float(call["activation_min"]),
        "act_max": float(call["activation_max"]),
        "weights": Array(weights),
        "bias": Array(bias),
    }
    unscaled = np.zeros_like(bias, np.int32)
    if call["scale"] is not None:
        scale = call.array("scale")
        fields["scale"] = Array(scale)
        return ConvLayer(call, form, fields, weights, (bias, scale, unscaled), packs=floats.fits_codes(fields))
    return ConvLayer(call, form, fields, weights, (bias, unscaled, unscaled), packs=floats.fits(weights, bias, fields))


def _layer(call: Call, form: ConvForm) -> ConvLayer:
    if call.element.floating:
        return _float_layer(call, form)
    if call.arguments.get("run") is not None:
        return _int4_layer(call, form)
    return _int8_layer(call, form) if call.element.affine else _int16_layer(call, form)


_INT4_FIELDS = {
    ConvForm.PIXELS: ("in_c", "out_c"),
    ConvForm.WINDOW: (
        *("in_w", "in_c", "out_w", "out_c", "groups"),
        *("kernel_h", "kernel_w", "stride_w", "pad_left", "dilation_w", "zero"),
    ),
}


def _packed_fields(layer: ConvLayer, stream: Numbers, grouped: bool) -> dict[str, Any]:
    """Returns the descriptor of a row with packed weights."""
    if grouped:
        kept = {name: value for name, value in layer.fields.items() if name != "depth_multiplier"}
        return packed({**kept, "groups": kept["in_c"]}, stream)
    if layer.stored is not None:
        kept = packed({**layer.fields, "weights": Array(layer.stored.codes), "groups": 1}, stream)
        return {name: kept[name] for name in (*_INT4_FIELDS[layer.form], "out_offset", "act_min", "act_max", "weights")}
    if layer.call.element.floating:
        return packed({name: value for name, value in layer.fields.items() if name != "groups"}, stream)
    # With a depth multiplier of 1, which all other rows need, it is redundant, and so are the output channels.
    unused = {"depth_multiplier", "out_c"} if "depth_multiplier" in layer.fields else {"sum_shift"}
    found = packed({name: value for name, value in layer.fields.items() if name not in unused}, stream)
    if layer.elements == A16W8:  # no zero point: zeros are read outside the image
        found["zero"] = None if layer.form is ConvForm.PIXELS else Array(np.zeros(layer.fields["in_c"], np.int16))
    return found


# ---- rows ------------------------------------------------------------------------------------------------------------

_EVERY = (Core.PORTABLE, Core.SMALL, Core.LONG, Core.DSP, Core.MVE)
_WITH_DSP = (Core.DSP, Core.MVE)  # also MVE: layers that the rows for vectors don't take


A8W8, A16W8, A8W4 = (INT8, INT8), (INT16, INT8), (INT8, INT4)
A32W32, A32W8 = (FLOAT32, FLOAT32), (FLOAT32, INT8)


@dataclass(frozen=True)
class ConvKernel:
    """A kernel, and which layers it takes. Its functions get a layer and the first of its cores."""

    symbol: str
    elements: tuple[Element, Element]  # of activations and weights
    cores: tuple[Core, ...] = _EVERY
    fits: Callable[[ConvLayer, Core], bool] = lambda layer, core: True
    pack: Callable[[ConvLayer, Core], Numbers] | None = None  # None: portable
    scratch: Callable[[ConvLayer, Core], int] = lambda layer, core: 0
    lean: Callable[[ConvLayer, Core], int] | None = None  # scratch of a variant with fewer pixels at a time
    tile: int = 1
    grouped: bool = False  # takes a depthwise layer as a grouped convolution: depth multipliers too

    def takes(self, layer: ConvLayer, core: Core) -> bool:
        if core not in self.cores or layer.elements != self.elements:
            return False
        single = self.grouped or layer.fields.get("depth_multiplier", 1) == 1
        return self.pack is None or (layer.packs and single and self.fits(layer, self.cores[0]))


def _one_pixel(fits: Callable[[ConvLayer, Core], bool]) -> Callable[[ConvLayer, Core], bool]:
    """Restricts a row to single pixels: linear layers, which have kernels of their own."""
    return lambda layer, core: layer.pixels == 1 and fits(layer, core)


def _fits_mve(layer: ConvLayer, core: Core) -> bool:
    return packing.fits_conv_tile_mve(layer.shift)


def _fits_shallow(layer: ConvLayer, core: Core) -> bool:
    return layer.pixels > 1 and packing.fits_conv_shallow_mve(layer.weights, layer.shift)


def _fits_tile(layer: ConvLayer, core: Core) -> bool:
    return packing.fits_conv_tile(layer.weights, layer.tables[0], layer.shift, core)


def _fits_lanes(layer: ConvLayer, core: Core) -> bool:
    return packing.fits_conv_lanes(layer.weights, layer.tables[0], layer.shift)


def _fits_group(layer: ConvLayer, core: Core) -> bool:
    return packing.fits_linear_group(layer.weights, layer.tables[0], layer.shift)


def _pack_mve(layer: ConvLayer, core: Core) -> Numbers:
    return packing.pack_conv_tile_mve(*layer.all, layer.groups)


def _pack_tile(layer: ConvLayer, core: Core) -> Numbers:
    return packing.pack_conv_tile(*layer.all, core, layer.groups)


def _pack_lanes(layer: ConvLayer, core: Core) -> Numbers:
    return packing.pack_conv_lanes(*layer.all, layer.groups)


def _pack_group(layer: ConvLayer, core: Core) -> Numbers:
    return packing.pack_linear_group(*layer.all, core)


def _pixels_scratch(layer: ConvLayer, core: Core) -> int:
    return packing.scratch_conv1x1_tile(layer.depth, layer.pixels, core)


def _window_scratch(layer: ConvLayer, core: Core) -> int:
    return packing.scratch_conv2d_tile(layer.taps, layer.depth, layer.fields["out_w"], core)


def _lean_scratch(layer: ConvLayer, core: Core) -> int:
    return packing.scratch_conv2d_tile(layer.taps, layer.depth, layer.fields["out_w"], core, lean=True)


def _pack_int4_linear(layer: ConvLayer, core: Core) -> Numbers:
    assert layer.stored is not None
    return int4.pack_linear_small(layer.stored.codes, layer.stored.factors, *layer.tables)


def _int4_rows(form: ConvForm, *, runs: bool) -> list[ConvKernel]:
    """Returns the rows for 4-bit weights, with a factor for each run if `runs`."""
    kind, name = "runs" if runs else "narrow", form.value

    def fits(layer: ConvLayer, core: Core) -> bool:
        return (layer.runs > 0) == runs

    def shallow(layer: ConvLayer, core: Core) -> bool:
        most = int4.MOST_OF_LINEAR if form is ConvForm.PIXELS and layer.pixels == 1 else int4.MOST_PRODUCTS
        return fits(layer, core) and (runs or layer.taps * layer.depth <= most)

    def dsp(layer: ConvLayer, core: Core) -> Numbers:
        return layer.stream(int4.pack_narrow_dsp, int4.pack_runs_dsp)

    def dsp_scratch(layer: ConvLayer, core: Core) -> int:
        if form is ConvForm.PIXELS:
            return int4.scratch_conv1x1_dsp(layer.depth, runs)
        return int4.scratch_conv2d_dsp(layer.taps, layer.depth, runs)

    def mve_scratch(layer: ConvLayer, core: Core) -> int:
        of_window = form is ConvForm.WINDOW
        return packing.scratch_conv2d_mve(layer.taps * layer.depth, layer.fields["out_w"]) if of_window else 0

    linear = [
        ConvKernel(
            f"linear_{kind}_s8__scalar", A8W4, (Core.SMALL,), _one_pixel(fits),
            _pack_int4_linear,
            lambda y, core: int4.scratch_linear_small(y.depth, runs),
        ),
        ConvKernel(
            f"linear_{kind}_s8__dsp", A8W4, (Core.DSP,), _one_pixel(shallow), dsp,
            lambda y, core: int4.scratch_linear_dsp(y.depth) if runs else 0,
        ),
    ]  # fmt: skip
    return [
        ConvKernel(
            f"{name}_{kind}_s8__mve", A8W4, (Core.MVE,), fits,
            lambda y, core: y.stream(int4.pack_narrow_mve, int4.pack_runs_mve),
            mve_scratch, tile=2 if form is ConvForm.PIXELS else 1,
        ),
        *(linear if form is ConvForm.PIXELS else ()),
        ConvKernel(
            f"{name}_{kind}_s8__scalar", A8W4, (Core.SMALL,), fits,
            lambda y, core: y.stream(int4.pack_narrow_small, int4.pack_runs_small),
            lambda y, core: int4.scratch_conv_small(y.taps * y.depth), tile=4 if form is ConvForm.PIXELS else 1,
        ),
        ConvKernel(
            f"{name}_{kind}_s8__dsp", A8W4, (Core.DSP,), shallow, dsp, dsp_scratch,
            tile=2 if form is ConvForm.PIXELS else 1,
        ),
    ]  # fmt: skip


_CODES_PAY = {Core.DSP: 6, Core.MVE: 2}  # fewest output channels for which blocks of 8 pay


def _float_rows(form: ConvForm) -> list[ConvKernel]:
    """Returns the rows for float32: several outputs at once, each summed in order; windows are gathered two at a
    time."""
    name, window = form.value, form is ConvForm.WINDOW

    def scratch(layer: ConvLayer, core: Core) -> int:
        return 8 * layer.taps * layer.depth if window else 0

    def pack(layer: ConvLayer, core: Core) -> Numbers:
        return floats.pack_blocks(layer.weights, layer.tables[0])

    def pack_codes(layer: ConvLayer, core: Core) -> Numbers:
        return floats.pack_codes(layer.weights, *layer.tables[:2])

    def pays(layer: ConvLayer, core: Core) -> bool:
        return layer.call.out_shape[3] >= _CODES_PAY[core]

    portable, of_codes = ConvKernel(f"{name}_f32", A32W32), ConvKernel(f"{name}_codes_f32", A32W8)
    fast = replace(portable, pack=pack, scratch=scratch, tile=1 if window else 2)
    fast_codes = replace(fast, elements=A32W8, pack=pack_codes, fits=pays)
    one = replace(fast, symbol="linear_f32__dsp", cores=(Core.DSP,), fits=_one_pixel(lambda y, core: True), tile=1)
    return [
        replace(fast, symbol=f"{name}_f32__mve", cores=(Core.MVE,)),
        *(() if window else (one,)),
        replace(fast, symbol=f"{name}_f32__dsp", cores=(Core.DSP,)),
        portable,
        replace(fast_codes, symbol=f"{name}_codes_f32__mve", cores=(Core.MVE,)),
        replace(fast_codes, symbol=f"{name}_codes_f32__dsp", cores=(Core.DSP,)),
        of_codes,
    ]


def _many(least: int) -> Callable[[ConvLayer, Core], bool]:
    """Returns a predicate: as many output channels as input channels, and at least `least`."""
    return lambda y, core: y.fields["in_c"] == y.fields["out_c"] and y.fields["in_c"] >= least


def _slid(layer: ConvLayer) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """Returns (widths of input and output), (horizontal stride, left padding, dilation)."""
    known = layer.fields
    return (known["in_w"], known["out_w"]), (known["stride_w"], known["pad_left"], known["dilation_w"])


def _row3x3(layer: ConvLayer, core: Core) -> bool:
    clamp = (layer.fields["act_min"], layer.fields["act_max"])
    return packing.fits_depthwise3x3_dsp(layer.weights, layer.tables[0], layer.shift, clamp, *_slid(layer))


def _long_pays(layer: ConvLayer, core: Core) -> bool:
    """Whether long multiplies take a layer, in fewer cycles than depthwise_s8__dsp. The estimates are cycles per row on
    an M4: tiles of four outputs and words to lay out, against outputs and their taps."""
    (high, wide), (columns, slide), in_c = layer.window, _slid(layer), layer.fields["in_c"]
    if not packing.fits_depthwise_long(layer.weights, layer.tables[0], layer.shift, in_c, columns, slide):
        return False
    row = packing.LongRow.of(*columns, slide[1], slide[0], wide)
    laid_out = high * (18 + 5.5 * row.inside + 9 * row.edges)
    spent = row.tiles * (75 + high * (8 + 4 * row.words)) + laid_out + 100
    return layer.fields["depth_multiplier"] > 1 or spent < columns[1] * (26 + 3.6 * high * wide)


def _depthwise_scratch(layer: ConvLayer, core: Core) -> int:
    return packing.scratch_depthwise(*layer.window, core)


def _depthwise_vector_rows() -> list[ConvKernel]:
    """Returns the rows for int8 with vector instructions."""

    def fits(few: bool, layer: ConvLayer, core: Core) -> bool:
        return packing.fits_depthwise_mve(layer.weights, layer.shift) and (layer.weights.shape[2] < 16) == few

    def pack(layer: ConvLayer, core: Core) -> Numbers:
        return packing.pack_depthwise_mve(*layer.all)

    def scratch(layer: ConvLayer, core: Core) -> int:
        return packing.scratch_depthwise_mve(*layer.window)

    def fits_words(layer: ConvLayer, core: Core) -> bool:
        known = layer.fields
        return packing.fits_depthwise_words_mve(layer.weights, layer.shift, known["in_c"], known["dilation_w"])

    return [
        ConvKernel(
            "depthwise_words_s8__mve", A8W8, (Core.MVE,), fits_words,
            lambda y, core: packing.pack_depthwise_words_mve(*y.all, y.fields["in_c"]),
            lambda y, core: packing.scratch_depthwise_words_mve(y.window[1], *_slid(y), y.fields["in_c"]), grouped=True,
        ),
        ConvKernel(
            "depthwise3x3_s8__mve", A8W8, (Core.MVE,),
            lambda y, core: packing.fits_depthwise3x3_mve(y.weights, y.shift), pack,
        ),
        ConvKernel("depthwise_s8__mve", A8W8, (Core.MVE,), partial(fits, False), pack, scratch),
        ConvKernel("depthwise_few_s8__mve", A8W8, (Core.MVE,), partial(fits, True), pack, scratch),
        ConvKernel(
            "depthwise_several_s8__mve", A8W8, (Core.MVE,),
            lambda y, core: packing.fits_depthwise_several_mve(y.weights, y.shift, y.fields["in_c"]),
            lambda y, core: packing.pack_depthwise_several_mve(*y.all, y.fields["in_c"]), scratch, grouped=True,
        ),
    ]  # fmt: skip


def _depthwise_rows() -> list[ConvKernel]:
    def fits(layer: ConvLayer, core: Core) -> bool:
        return packing.fits_depthwise(layer.weights, layer.tables[0], layer.shift, core)

    def pack(layer: ConvLayer, core: Core) -> Numbers:
        return packing.pack_depthwise(*layer.all, core)

    def taps(layer: ConvLayer, core: Core) -> int:
        return 4 * layer.taps

    return [
        *_depthwise_vector_rows(),
        ConvKernel(
            "depthwise3x3_s8__dsp", A8W8, _WITH_DSP, _row3x3,
            lambda y, core: packing.pack_depthwise3x3_dsp(*y.all, y.fields["out_offset"]),
        ),
        ConvKernel(
            "depthwise_long_s8__dsp", A8W8, _WITH_DSP, _long_pays,
            lambda y, core: packing.pack_depthwise_long(*y.all, y.fields["in_c"], y.fields["stride_w"]),
            lambda y, core: packing.scratch_depthwise_long(y.window, *_slid(y)), grouped=True,
        ),
        ConvKernel("depthwise_s8__dsp", A8W8, _WITH_DSP, fits, pack, _depthwise_scratch),
        ConvKernel("depthwise_s8__scalar", A8W8, (Core.LONG,), fits, pack, _depthwise_scratch),
        ConvKernel("depthwise_s8__scalar", A8W8, (Core.SMALL,), fits, pack, _depthwise_scratch),
        ConvKernel("depthwise_s8", A8W8),
        ConvKernel(
            "depthwise_s16__mve", A16W8, (Core.MVE,), _many(8), lambda y, core: int16.pack_depthwise_mve(*y.all), taps
        ),
        ConvKernel(
            "depthwise_s16__scalar", A16W8, (Core.SMALL,), _many(4),
            lambda y, core: int16.pack_depthwise_small(*y.all), taps,
        ),
        ConvKernel(
            "depthwise_s16__dsp", A16W8, _WITH_DSP, _many(4), lambda y, core: int16.pack_depthwise_dsp(*y.all), taps
        ),
        ConvKernel("depthwise_s16", A16W8),
    ]  # fmt: skip


TABLES = {
    ConvForm.PIXELS: [
        ConvKernel(
            "conv1x1_shallow_s8__mve", A8W8, (Core.MVE,), _fits_shallow,
            lambda y, core: packing.pack_conv_shallow_mve(*y.all), tile=2,
        ),
        ConvKernel("conv1x1_s8__mve", A8W8, (Core.MVE,), _fits_mve, _pack_mve, tile=2),
        ConvKernel(
            "linear_lanes_s8__dsp", A8W8, (Core.DSP,),
            _one_pixel(lambda y, core: packing.fits_linear_lanes(y.weights, y.tables[0], y.shift)),
            lambda y, core: packing.pack_linear_lanes(*y.all),
        ),
        ConvKernel("linear_s8__dsp", A8W8, (Core.DSP,), _one_pixel(_fits_group), _pack_group),
        ConvKernel("linear_s8__scalar", A8W8, (Core.LONG,), _one_pixel(_fits_group), _pack_group),
        ConvKernel("linear_s8__scalar", A8W8, (Core.SMALL,), _one_pixel(_fits_group), _pack_group),
        ConvKernel("conv1x1_lanes_s8__dsp", A8W8, (Core.DSP,), _fits_lanes, _pack_lanes, _pixels_scratch, tile=2),
        ConvKernel("conv1x1_s8__dsp", A8W8, _WITH_DSP, _fits_tile, _pack_tile, _pixels_scratch, tile=2),
        ConvKernel("conv1x1_s8__scalar", A8W8, (Core.LONG,), _fits_tile, _pack_tile, _pixels_scratch, tile=2),
        ConvKernel("conv1x1_s8__scalar", A8W8, (Core.SMALL,), _fits_tile, _pack_tile, _pixels_scratch, tile=4),
        ConvKernel("conv1x1_s8", A8W8),
        ConvKernel(
            "conv1x1_s16__mve", A16W8, (Core.MVE,), pack=lambda y, core: int16.pack_conv_tile_mve(*y.all), tile=2
        ),
        ConvKernel(
            "linear_s16__scalar", A16W8, (Core.SMALL,), _one_pixel(lambda y, core: True),
            lambda y, core: int16.pack_linear_small(*y.all),
        ),
        ConvKernel(
            "conv1x1_s16__scalar", A16W8, (Core.SMALL,), pack=lambda y, core: int16.pack_conv_tile_small(*y.all),
            scratch=lambda y, core: int16.scratch_conv_small(y.depth), tile=4,
        ),
        ConvKernel(
            "conv1x1_s16__dsp", A16W8, (Core.DSP,), pack=lambda y, core: int16.pack_conv_tile_dsp(*y.all),
            scratch=lambda y, core: int16.scratch_conv1x1_dsp(y.depth, y.pixels), tile=2,
        ),
        ConvKernel("conv1x1_s16", A16W8),
        *_int4_rows(ConvForm.PIXELS, runs=False),
        *_int4_rows(ConvForm.PIXELS, runs=True),
        ConvKernel("conv1x1_narrow_s8", A8W4),
        *_float_rows(ConvForm.PIXELS),
    ],
    ConvForm.WINDOW: [
        ConvKernel(
            "conv2d_s8__mve", A8W8, (Core.MVE,), _fits_mve, _pack_mve,
            lambda y, core: packing.scratch_conv2d_mve(y.taps * y.depth, y.fields["out_w"]),
        ),
        ConvKernel("conv2d_lanes_s8__dsp", A8W8, (Core.DSP,), _fits_lanes, _pack_lanes, _window_scratch),
        ConvKernel("conv2d_s8__dsp", A8W8, _WITH_DSP, _fits_tile, _pack_tile, _window_scratch),
        ConvKernel("conv2d_s8__scalar", A8W8, (Core.LONG,), _fits_tile, _pack_tile, _window_scratch),
        ConvKernel("conv2d_s8__scalar", A8W8, (Core.SMALL,), _fits_tile, _pack_tile, _window_scratch, _lean_scratch),
        ConvKernel("conv2d_s8", A8W8),
        ConvKernel(
            "conv2d_s16__mve", A16W8, (Core.MVE,), pack=lambda y, core: int16.pack_conv_tile_mve(*y.all, y.groups),
            scratch=lambda y, core: int16.scratch_conv2d_mve(y.taps * y.depth, y.fields["out_w"]),
        ),
        ConvKernel(
            "conv2d_s16__scalar", A16W8, (Core.SMALL,),
            pack=lambda y, core: int16.pack_conv_tile_small(*y.all, y.groups),
            scratch=lambda y, core: int16.scratch_conv_small(y.taps * y.depth),
        ),
        ConvKernel(
            "conv2d_s16__dsp", A16W8, (Core.DSP,), pack=lambda y, core: int16.pack_conv_tile_dsp(*y.all, y.groups),
            scratch=lambda y, core: int16.scratch_conv2d_dsp(y.taps, y.depth),
        ),
        ConvKernel("conv2d_s16", A16W8),
        *_int4_rows(ConvForm.WINDOW, runs=False),
        *_int4_rows(ConvForm.WINDOW, runs=True),
        ConvKernel("conv2d_narrow_s8", A8W4),
        *_float_rows(ConvForm.WINDOW),
    ],
    ConvForm.DEPTHWISE: _depthwise_rows(),
}  # fmt: skip


# ---- the kernel of a call --------------------------------------------------------------------------------------------


def symbol_of(call: Call, core: Core, form: ConvForm) -> str:
    """Returns the name of the first kernel that takes a call."""
    layer = _layer(call, form)
    return next(row.symbol for row in TABLES[form] if row.takes(layer, core))


def kernel(call: Call, core: Core, form: ConvForm, own: bool = False) -> Kernel:
    """Chooses the first kernel that takes a call; `own`: only kernels with the form's own descriptor."""
    layer = _layer(call, form)
    row, *others = [row for row in TABLES[form] if row.takes(layer, core) and not (own and row.grouped)]
    made = _made(layer, row)
    if not row.grouped or others[0].pack is None:
        return made
    lean = _made(layer, others[0])
    return replace(made, lean=lean) if lean.scratch < made.scratch else made


def _made(layer: ConvLayer, row: ConvKernel) -> Kernel:
    core = row.cores[0]
    fields = layer.fields if row.pack is None else _packed_fields(layer, row.pack(layer, core), row.grouped)
    scratch = row.scratch(layer, core)
    more = (layer.pixels,) if layer.form is ConvForm.PIXELS else ()
    check = CCall(f"cortado_{row.symbol}_scratch", (Operand.LAYER, *more))
    whole = replace(
        bare(layer.form, row),
        fields=fields,
        scratch=scratch,
        scratch_check=check if scratch else None,
        tile=row.tile,
        work=_work(layer, row.symbol),
    )
    if row.lean is None:
        return whole
    lean = {**fields, "lean": 1}
    less = replace(whole, fields=lean, scratch=row.lean(layer, core), work=_work(layer, row.symbol, lean=True))
    return replace(whole, lean=less)


def bare(form: ConvForm, row: ConvKernel) -> Kernel:
    """Returns a row's function and descriptor type, without the data of a layer."""
    reads = (Row(0), Operand.OUT, Operand.N) if form is ConvForm.PIXELS else (Operand.ROWS, Operand.OUT)
    name = ConvForm.WINDOW.value if row.grouped else form.value
    narrow, codes = (name, "layer_f32") if row.pack else ("narrow", "layer_codes_f32")
    known = {A16W8: "layer_s16", A8W4: narrow, A32W32: "layer_f32", A32W8: codes}
    layer = known.get(row.elements, name)
    # Of the kernels for float32, only those that gather windows need scratch.
    needs = not row.elements[0].floating or (row.pack is not None and form is ConvForm.WINDOW)
    return Kernel(
        call=CCall(f"cortado_{row.symbol}", (Operand.LAYER, *reads, *((Operand.SCRATCH,) if needs else ()))),
        struct=f"cortado_{layer}_{'packed_t' if row.pack else 't'}",
    )


@dataclass(frozen=True)
class ConvKernels:
    """The kernels of one form."""

    form: ConvForm

    def __call__(self, call: Call, core: Core) -> Kernel:
        return kernel(call, core, self.form)

    def every(self) -> Iterator[tuple[Core, Kernel]]:
        """Yields every function that calls can use, with the cores that have it, without the data of a layer."""
        for row in TABLES[self.form]:
            for core in row.cores:
                yield core, bare(self.form, row).typed([row.elements[0]], row.elements[0])

    def meeting(self, weights: Element) -> frozenset[str]:
        """Returns the names of the activation elements that kernels combine with such weights."""
        return frozenset(row.elements[0].name for row in TABLES[self.form] if row.elements[1] == weights)


# The kernels of dense layers, over spans of pixels for pointwise layers.
DENSE = (ConvKernels(ConvForm.PIXELS), ConvKernels(ConvForm.WINDOW))


def _work(layer: ConvLayer, symbol: str, lean: bool = False) -> Work:
    call = layer.call
    if call.element.floating:
        return _float_work(layer, symbol)
    if symbol not in TERMS:  # portable
        if layer.stored is None:
            return loops("calls outputs outputs*taps macs", taps=layer.taps)
        if layer.form is ConvForm.PIXELS:
            return loops("calls outputs macs outputs*runs", runs=layer.runs)
        return loops("calls outputs outputs*taps outputs*runs macs", taps=layer.taps, runs=layer.runs)
    offset = layer.fields.get("in_offset", 0) != 0
    limits = call["activation_min"], call["activation_max"]
    codes = Codes(limits[0], call["output_offset"], offset, lean, limited=limits != INT8.codes)
    if layer.form is ConvForm.PIXELS:
        return pixels_work(symbol, layer.depth, call.out_shape[3], codes, layer.runs)
    return window_work(symbol, window_of(call, layer.window, layer.groups), codes)


def _float_work(layer: ConvLayer, symbol: str) -> Work:
    bounded = (layer.call["activation_min"], layer.call["activation_max"]) != (-math.inf, math.inf)
    seen = FloatLayer(window_of(layer.call, layer.window, layer.groups), layer.elements == A32W8, bounded)
    return float_work(symbol, seen, rows=layer.form is not ConvForm.PIXELS)
