"""The work of convolutions and linear layers in float32: how often the loops of their kernels run (ir/work.py).

Terms count pixels or pairs of pixels, blocks of output channels, and the products of a block. Kernels that compute
several outputs at once first copy windows into a buffer without gaps: contiguous pieces of numbers, and zeros for taps
outside of the image.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cortado.ir.work import Calls, Marks, Quantities, Work, nested
from cortado.ops.conv.floats import NARROW, blocks
from cortado.ops.loops import Window

# ---- terms: the loops of each kernel ---------------------------------------------------------------------------------

_FINISHED = {"spans*outer": "bounded"}  # outputs are stored one by one; vector kernels store blocks
_PAIRS = {"pairs": "eights eights*window"}
_OF_CODES = {"calls": "", **_PAIRS, "singles": "eights eights*window"}
_EXACT = {"calls": "", **_PAIRS, "singles": "sixteens narrow sixteens*window narrow*window"}
_LAID_OUT = {"spans": "kernel_h", "pieces": "", "copied_fours": "", "copied_rest": "", "zeros": "inner"}

# In portable C: four channels at a time of codes and of depthwise layers, each with its loops over the taps. Without a
# float unit, products with inputs of 0 take less time.
_BY_CHANNELS = {
    "spans": "",
    "spans*fours": "taps bounded",
    "spans*alone": "taps bounded",
    "taps_inside*fours": "depth depth*marked",
    "taps_inside*alone": "depth depth*marked",
}
_DEPTHWISE = {"spans": "depthwise", "spans*deep_fours": "kernel_h bounded", "taps_inside*deep_fours": "marked"}
_PIXELS = {"calls": "", "spans": "", **dict.fromkeys(("spans*fours", "spans*alone"), "inner inner*marked bounded")}
_NONZERO = Marks(0, usual=0.75)  # some layers read what a relu leaves

_TERMS: Mapping[str, dict[str, str]] = {
    "conv1x1_f32": _PIXELS,
    "conv1x1_codes_f32": _PIXELS,
    "conv2d_f32": {"calls": "", **_BY_CHANNELS, **_DEPTHWISE},
    "conv2d_codes_f32": {"calls": "", **_BY_CHANNELS, **_DEPTHWISE},
    "linear_f32__dsp": {**_EXACT, **_FINISHED},
    "conv1x1_f32__dsp": {**_EXACT, **_FINISHED},
    "conv1x1_codes_f32__dsp": {**_OF_CODES, **_FINISHED},
    "conv2d_f32__dsp": {**_EXACT, **_FINISHED, **_LAID_OUT},
    "conv2d_codes_f32__dsp": {**_OF_CODES, **_FINISHED, **_LAID_OUT},
    "conv1x1_f32__mve": _EXACT,
    "conv1x1_codes_f32__mve": _OF_CODES,
    "conv2d_f32__mve": {**_EXACT, **_LAID_OUT},
    "conv2d_codes_f32__mve": {**_OF_CODES, **_LAID_OUT},
}


# ---- quantities ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FloatLayer:
    """The properties of a float32 layer that determine its time: its window, weights and bounds."""

    window: Window  # for a linear layer or a 1x1 convolution, one of a single tap
    codes: bool  # whether its weights have 8 bits
    bounded: bool

    @property
    def channels(self) -> dict[str, float]:
        """Counts the output channels by how many kernels compute at once."""
        outer, groups = self.window.out_c, self.window.groups
        wide = [room > NARROW for _, room in blocks(outer)]
        depthwise = self.window.depth == 1 and groups == outer
        deep_fours = outer // 4 if depthwise else 0
        fours = groups * (outer // groups // 4) if self.codes and not depthwise else 0
        return {
            "outer": outer,
            "eights": math.ceil(outer / NARROW),
            "sixteens": sum(wide),
            "narrow": len(wide) - sum(wide),
            "depthwise": float(depthwise),
            "deep_fours": deep_fours,
            "fours": fours,
            "alone": outer - 4 * (fours + deep_fours),
        }


def float_work(symbol: str, layer: FloatLayer, *, rows: bool) -> Work:
    """Returns the work of a kernel that makes a row of the image, or spans of its pixels."""
    window = layer.window

    def quantities(calls: Calls) -> Quantities:
        found = {**window.sizes, **layer.channels, "inner": window.depth, "bounded": float(layer.bounded)}
        found["window"] = window.kernel_h * window.kernel_w * window.depth
        if rows:
            by_row = Calls(**{**vars(calls), "span": window.out_w, "spans": calls.calls * window.out_w})
            return {**found, **window.columns(calls), **_laid_out(window, calls), **_pairs(by_row)}
        return {**found, "spans": calls.spans, **_pairs(calls)}

    terms = nested(_TERMS[symbol])
    return Work(terms, quantities, marks=_NONZERO if any("marked" in term for term in terms) else None)


def _pairs(calls: Calls) -> dict[str, float]:
    """Counts pairs of pixels, and the odd last pixel of each call."""
    pairs, singles = calls.in_spans(2)
    return {"pairs": pairs, "singles": singles}


def _laid_out(window: Window, calls: Calls) -> dict[str, float]:
    """Counts the pieces that are copied, their numbers in fours and the rest, and the taps filled with zeros."""
    inside = [
        sum(0 <= left + tap * window.dilation_w < window.in_w for tap in range(window.kernel_w))
        for left in window.lefts
    ]
    joined = window.dilation_w == 1
    pieces = [piece for taps in inside for piece in ([taps] if joined and taps else [1] * taps)]
    rows = calls.calls * window.kernel_h - calls.outside
    taps = calls.calls * window.kernel_h * window.kernel_w * len(inside)
    return {
        "pieces": rows * len(pieces),
        "copied_fours": rows * sum(taps * window.depth // 4 for taps in pieces),
        "copied_rest": rows * sum(taps * window.depth % 4 for taps in pieces),
        "zeros": taps - rows * sum(inside),
    }
