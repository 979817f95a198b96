"""The kernels of convolutions and linear layers with 4-bit weights."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.kernel import Array, Kernel
from cortado.ir.op import Call
from cortado.ir.work import Work, loops
from cortado.ops import _narrow_packing as packing
from cortado.ops._convolution import (
    Numbers,
    Variant,
    codes_of,
    common_fields,
    packed,
    window_fields,
    window_fits,
    window_of,
)
from cortado.ops._convolution_work import pixels_work, window_work
from cortado.ops._narrow import StoredWeights
from cortado.ops.conv2d import is_pointwise
from cortado.ops.packing import scratch_conv2d_mve

STRUCT = "cortado_narrow_t"
_BOTH_MVE = ("conv_narrow_s8__mve.S", "conv_runs_s8__mve.S")
_TILES_DSP = ("conv_narrow_s8__dsp.S", "conv_runs_s8__dsp.S", "conv_expand_s8__dsp.S", "cortado_narrow_scratch.c")
_TILES_SMALL = ("conv_narrow_s8__scalar.c", "conv_narrow_s8__scalar.S", "cortado_narrow_scratch.c")
_LINEAR_SMALL = ("linear_narrow_s8__scalar.c", "linear_sums_s8__scalar.S", "cortado_narrow_scratch.c")


@dataclass(frozen=True)
class _Layer:
    """A call: the portable kernels' descriptor, and what else a variant's packing reads."""

    fields: dict[str, Any]
    stored: StoredWeights
    weights: Numbers  # [channels, products], times their factors
    pixels: int  # of all its outputs

    @staticmethod
    def of(call: Call) -> "_Layer":
        weights = call.array("weight")
        stored = StoredWeights.of(weights, call["run"])
        common = common_fields(call, weights.reshape(len(weights), -1).sum(axis=1, dtype=np.int64))
        # The input's zero point is part of the bias: what a sum is without any input fits 32 bits.
        assert common.pop("in_offset") == 0
        fields = {
            **window_fields(call, weights.shape[1:3]),
            **common,
            "weights": Array(packing.pack_pairs(stored.codes), packed=stored.codes.shape),
            "factors": None if stored.factors is None else Array(stored.factors),
        }
        return _Layer(fields, stored, weights.reshape(len(weights), -1), math.prod(call.out_shape[:3]))

    @property
    def kind(self) -> str:
        return "narrow" if self.stored.factors is None else "runs"

    @property
    def tables(self) -> tuple[Numbers, Numbers, Numbers]:
        """Biases, multipliers and shifts."""
        bias, multiplier, shift = (self.fields[name].data for name in ("bias", "multiplier", "shift"))
        return bias, multiplier, shift

    def deeper(self, most: int) -> bool:
        """Too deep for the DSP kernels of a layer without factors."""
        return self.stored.factors is None and math.prod(self.sizes) > most

    def stream(self, narrow: Callable[..., Numbers], runs: Callable[..., Numbers]) -> Numbers:
        """As one of two functions packs it, the second with factors."""
        factors = self.stored.factors
        if factors is None:
            return narrow(self.stored.codes, *self.tables)
        return runs(self.stored.codes, factors, *self.tables)

    @property
    def sizes(self) -> tuple[int, int]:
        """Taps, and the products of each."""
        return self.fields["kernel_h"] * self.fields["kernel_w"], self.fields["in_c"]

    def fits(self, core: Core) -> bool:
        """Whether a core has a kernel of its own for it."""
        has_one = core not in (Core.PORTABLE, Core.LONG)
        return has_one and window_fits(self.fields, np.int16) and packing.fits(self.weights, *self.tables)

    def packed(self, stream: Numbers, *names: str) -> dict[str, Any]:
        """The descriptor of a variant: of the fields in it, those with these names."""
        whole = {**self.fields, "weights": Array(self.stored.codes), "groups": 1}
        kept = packed(whole, stream)
        return {name: kept[name] for name in (*names, "out_offset", "act_min", "act_max", "weights")}


_OF_PIXELS = ("in_c", "out_c")
_OF_WINDOWS = (
    *("in_w", "in_c", "out_w", "out_c", "groups"),
    *("kernel_h", "kernel_w", "stride_w", "pad_left", "dilation_w", "zero"),
)


def kernel(call: Call, core: Core) -> Kernel:
    return _pixels_kernel(call, core) if is_pointwise(call) else _window_kernel(call, core)


# ---- 1x1: over spans of pixels ---------------------------------------------------------------------------------------


def _pixels_kernel(call: Call, core: Core) -> Kernel:
    layer = _Layer.of(call)
    variant = _pixels_variant(layer, core) if layer.fits(core) else None
    chosen = variant or Variant("conv1x1_narrow_s8", ("conv2d_narrow_s8.c",), layer.fields, packed=False)
    return Kernel(
        call=CCall(f"cortado_{chosen.symbol}", (Operand.LAYER, Row(0), Operand.OUT, Operand.N, Operand.SCRATCH)),
        sources=chosen.sources,
        struct=chosen.struct("conv1x1") if chosen.packed else STRUCT,
        fields=chosen.fields,
        scratch=chosen.scratch,
        scratch_check=chosen.scratch_check(Operand.LAYER, layer.pixels),
        tile=chosen.tile,
        work=_pixels_work(call, chosen, layer),
    )


def _pixels_work(call: Call, chosen: Variant, layer: _Layer) -> Work:
    if not chosen.packed:
        return loops("calls outputs macs outputs*runs", runs=_runs(layer))
    codes = codes_of(call, {"in_offset": 0})
    return pixels_work(chosen.symbol, layer.fields["in_c"], layer.fields["out_c"], codes, _runs(layer))


def _runs(layer: _Layer) -> int:
    return 0 if layer.stored.factors is None else layer.stored.factors.shape[1]


def _pixels_variant(layer: _Layer, core: Core) -> Variant | None:
    """A single pixel is a linear layer, for which cores without vectors have kernels of their own."""
    kind, factors = layer.kind, layer.stored.factors is not None
    if core is Core.MVE:
        fields = layer.packed(layer.stream(packing.pack_narrow_mve, packing.pack_runs_mve), *_OF_PIXELS)
        return Variant(f"conv1x1_{kind}_s8__mve", ("conv1x1_narrow_s8__mve.c", *_BOTH_MVE), fields, tile=2)
    if core is Core.SMALL:
        return _pixels_small(layer)
    if layer.deeper(packing.MOST_OF_LINEAR if layer.pixels == 1 else packing.MOST_PRODUCTS):
        return None
    fields = layer.packed(layer.stream(packing.pack_narrow_dsp, packing.pack_runs_dsp), *_OF_PIXELS)
    if layer.pixels == 1:
        scratch = packing.scratch_linear_dsp(layer.fields["in_c"]) if factors else 0
        sources = (f"linear_{kind}_s8__dsp.S", *(("cortado_narrow_scratch.c",) if factors else ()))
        return Variant(f"linear_{kind}_s8__dsp", sources, fields, scratch)
    scratch = packing.scratch_conv1x1_dsp(layer.fields["in_c"], factors)
    sources = ("conv1x1_narrow_s8__dsp.c", *_TILES_DSP)
    return Variant(f"conv1x1_{kind}_s8__dsp", sources, fields, scratch, tile=2)


def _pixels_small(layer: _Layer) -> Variant:
    kind, factors, in_c = layer.kind, layer.stored.factors is not None, layer.fields["in_c"]
    if layer.pixels == 1:
        stream = packing.pack_linear_small(layer.stored.codes, layer.stored.factors, *layer.tables)
        scratch = packing.scratch_linear_small(in_c, factors)
        fields = layer.packed(stream, *_OF_PIXELS)
        return Variant(f"linear_{kind}_s8__scalar", _LINEAR_SMALL, fields, scratch)
    stream = layer.stream(packing.pack_narrow_small, packing.pack_runs_small)
    scratch, fields = packing.scratch_conv_small(in_c), layer.packed(stream, *_OF_PIXELS)
    return Variant(f"conv1x1_{kind}_s8__scalar", _TILES_SMALL, fields, scratch, tile=4)


# ---- windows: one output row from the rows under it ------------------------------------------------------------------


def _window_kernel(call: Call, core: Core) -> Kernel:
    layer = _Layer.of(call)
    variant = _window_variant(layer, core) if layer.fits(core) else None
    chosen = variant or Variant("conv2d_narrow_s8", ("conv2d_narrow_s8.c",), layer.fields, packed=False)
    return Kernel(
        call=CCall(f"cortado_{chosen.symbol}", (Operand.LAYER, Operand.ROWS, Operand.OUT, Operand.SCRATCH)),
        sources=chosen.sources,
        struct=chosen.struct("conv2d") if chosen.packed else STRUCT,
        fields=chosen.fields,
        scratch=chosen.scratch,
        scratch_check=chosen.scratch_check(Operand.LAYER),
        work=_window_work(call, chosen, layer),
    )


def _window_work(call: Call, chosen: Variant, layer: _Layer) -> Work:
    _, kernel_h, kernel_w, _ = call.shape("weight")
    if not chosen.packed:
        return loops("calls outputs outputs*taps outputs*runs macs", taps=kernel_h * kernel_w, runs=_runs(layer))
    return window_work(chosen.symbol, window_of(call, (kernel_h, kernel_w)), codes_of(call, {"in_offset": 0}))


def _window_variant(layer: _Layer, core: Core) -> Variant | None:
    kind, factors, products = layer.kind, layer.stored.factors is not None, math.prod(layer.sizes)
    if core is Core.MVE:
        fields = layer.packed(layer.stream(packing.pack_narrow_mve, packing.pack_runs_mve), *_OF_WINDOWS)
        scratch = scratch_conv2d_mve(products, fields["out_w"])
        sources = ("conv2d_narrow_s8__mve.c", *_BOTH_MVE, "cortado_narrow_scratch.c")
        return Variant(f"conv2d_{kind}_s8__mve", sources, fields, scratch)
    if core is Core.SMALL:
        fields = layer.packed(layer.stream(packing.pack_narrow_small, packing.pack_runs_small), *_OF_WINDOWS)
        scratch = packing.scratch_conv_small(products)
        return Variant(f"conv2d_{kind}_s8__scalar", _TILES_SMALL, fields, scratch)
    if layer.deeper(packing.MOST_PRODUCTS):
        return None
    fields = layer.packed(layer.stream(packing.pack_narrow_dsp, packing.pack_runs_dsp), *_OF_WINDOWS)
    scratch = packing.scratch_conv2d_dsp(*layer.sizes, factors)
    return Variant(f"conv2d_{kind}_s8__dsp", ("conv2d_narrow_s8__dsp.c", *_TILES_DSP), fields, scratch)
