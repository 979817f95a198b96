"""The loops of convolutions and linear layers: what the `work` of their kernels counts (ir/work.py).

A term counts the iterations of one loop: over tiles of pixels, channels of a tile, or small groups of products of such
a channel.
"""

import math
from dataclasses import dataclass

from cortado.ir.work import Calls, Quantities, Work, nested
from cortado.ops.conv.packing import LongRow, words_run
from cortado.ops.loops import VECTOR, Window

_LAID_OUT = tuple(f"{kind}_{what}" for kind in ("whole", "part") for what in ("pieces", "words", "bytes"))
_SWIFT = nested({"nines": "", "swift": "kernel_h kernel_h*window_row/4"})  # windows that are copied word by word
_CUT = {"cut": "", "uncut": ""}

# ---- terms: the loops of each kernel
# ----------------------------------------------------------------------------------

# On cores without vectors, with tiles of four, two or one pixels.
_OF_TILE = "group_c group_c/2 group_c*window/4 group_c/2*window/4 window/4 group_c%4"
_TILES = {"calls": "kernel_h groups", **{f"{tile}*groups": _OF_TILE for tile in ("quads", "halves", "tiles/2")}, **_CUT}
_PIXEL_TILES = nested({**_TILES, "tiles/2*groups": f"{_OF_TILE} fours in_c%4"})
_LINEAR = nested(
    {
        "calls": "",
        "spans": " ".join(f"out_c{part}{what}" for part in ("/3", "/4") for what in ("", "*fours", "*in_c%4", "*in_c")),
        **_CUT,
    }
)
_SCALAR_WINDOWS = nested(
    {
        **_TILES,
        "run_rows": "window_row window_row%4",
        "tap_runs*groups": "depth depth%4",
        "tiles/2*groups": f"{_OF_TILE} kernel_h",
    }
)
_DSP_WINDOWS = (*nested({**_TILES, "tiles/2*groups": f"{_OF_TILE} kernel_h"}), *_LAID_OUT, *_SWIFT)

# With the DSP instructions' lanes.
_CHANNELS = "group_c group_c/2 group_c/4 group_c/16 group_c%4"
_PRODUCTS = "window/4 window/16 odd4 odd16/16"
_OF_LANES = (
    f"kernel_h taps window/4 {_CHANNELS} "
    + " ".join(f"{c}*{p}" for c in _CHANNELS.split() for p in _PRODUCTS.split())
    + " group_c*taps group_c/2*taps group_c/4*taps group_c/16*taps group_c*kernel_h group_c/4*kernel_h"
)
_LANE_PIXELS = {
    **dict.fromkeys(("tiles/2", "tiles/4", "rest/2", "rest/4"), _OF_LANES),
    "spans": f"{_OF_LANES} strided strided*group_c/2 strided*group_c/4",
    "calls": "kernel_h taps group_c/4 strided strided*group_c/2",
}
_LANE_WINDOWS = {
    **_LANE_PIXELS,
    **dict.fromkeys(("inside", "border"), "kernel_h taps group_c/4 group_c/4*taps group_c/16*taps"),
    "outside_pixels": "group_c/4 group_c/16",
    "run_rows": "window_row/4 window_row/16",
    "tap_runs": "depth/4 depth/16",
}


def _by_group(loops: dict[str, str]) -> tuple[str, ...]:
    """Multiplies the terms of loops by the number of groups, and adds the totals, which are counted once."""
    totals = ("calls", "outputs", "read_bytes", "macs", "outside", "cut", "uncut")
    return (*totals, *(f"{term}*groups" for term in nested(loops)))


# With vectors: after the first products of four channels come blocks of sixteen; for two pixels, two blocks at a time.
_VECTOR_PIXELS = {
    "calls": "",
    "pairs*groups": "group_c/4 group_c/4*odd_block group_c/4*two_blocks",
    "singles*groups": "group_c/4 group_c/4*blocks",
}
_VECTOR_WINDOWS = {
    **_VECTOR_PIXELS,
    "calls": "kernel_h groups",
    "joint": "kernel_h kernel_h*window_row/16",
    "windows*groups": "",
    "window_runs": "window_row/16",
    "tap_rows*groups": "kernel_w kernel_w*depth/16",
}

# In portable C, two pixels and two channels at a time.
_PORTABLE_PIXELS = nested(
    {"calls": "out_c/2 out_c/2*in_c*has_offset", **dict.fromkeys(("pairs", "singles"), "out_c/2 out_c/2*in_c")}
)
_PORTABLE_WINDOWS = nested(
    {
        "calls": "groups group_c/2*groups group_c/2*groups*window*has_offset",
        "tiles/2*groups": "group_c/2 group_c/2*kernel_h",
        "run_rows*group_c/2": "window_row",
        "tap_runs*groups*group_c/2": "depth",
        "outputs": "",
    }
)

# 16-bit codes, with the DSP instructions: two pixels at a time, an odd last one alone.
_OF_WIDE = "group_c/4 group_c/4*window/2 group_c/4*window/8 group_c%4 window/2"
_WIDE_PIXELS = {"calls": "", "pairs*groups": _OF_WIDE, "singles*groups": _OF_WIDE}
_WIDE_VECTORS = "group_c/4 group_c/4*window/8 group_c/4*window/16 group_c/4*odd8"
_VECTOR_WIDE = {"calls": "", "pairs*groups": _WIDE_VECTORS, "singles*groups": _WIDE_VECTORS}
_VECTOR_WIDE_WINDOWS = {
    **_VECTOR_WIDE,
    "calls": "kernel_h groups",
    "windows*groups": "kernel_h",
    "joint": "kernel_h kernel_h*window_row/8",
    "window_runs": "window_row/8",
    "tap_rows*groups": "kernel_w kernel_w*depth/8",
}
_WIDE_WINDOWS = (*nested({**_WIDE_PIXELS, "calls": "kernel_h groups"}), *_LAID_OUT)

# On small cores: up to four pixels at a time.
_OF_SMALL = "group_c group_c*window/4 group_c/4"
_SMALL_PIXELS = {"calls": "", "tiles/4*groups": _OF_SMALL, "spans": "in_c/4", **_CUT}
_SMALL_LINEAR = {"calls": "", "spans": "out_c out_c/3 out_c/3*in_c out_c/3*fours", **_CUT}
_SMALL_WINDOWS = (*nested({"calls": "kernel_h groups", "tiles/4*groups": _OF_SMALL, "outputs": "", **_CUT}), *_LAID_OUT)
# 4-bit weights: tiles of four pixels on small cores, of two with DSP instructions, of two and one with vectors. A
# linear layer computes four channels of one pixel; on small cores, from a copy of the pixel.
_NARROW_SMALL = nested({"calls": "", "tiles/4": "window taps group_c group_c*window/8", "outputs": ""})
_NARROW_LINEAR = nested({"calls": "", "spans": "in_c out_c/4 out_c/4*in_c"})
_RUNS_LINEAR = nested({"calls": "", "spans": "in_c out_c/4 out_c/4*in_c out_c/4*runs"})  # with a factor for each run
_NARROW_DSP = nested({"calls": "", "tiles/2": "window/4 taps group_c/4 group_c/4*window/4"})
_NARROW_VECTORS = "taps window/16 group_c/4 group_c/4*window/16"
_NARROW_MVE = nested({"calls": "", "pairs": _NARROW_VECTORS, "singles": _NARROW_VECTORS})
_NARROW_KERNELS = {
    "conv1x1_{}_s8__scalar": _NARROW_SMALL,
    "conv2d_{}_s8__scalar": (*_NARROW_SMALL, *nested({"run_rows": "window_row", "tap_runs": "depth depth%4"})),
    "conv1x1_{}_s8__dsp": _NARROW_DSP,
    "conv2d_{}_s8__dsp": (*_NARROW_DSP, *_LAID_OUT, *_SWIFT),
    "conv1x1_{}_s8__mve": _NARROW_MVE,
    "conv2d_{}_s8__mve": (*_NARROW_MVE, *nested({"copied_rows": "window_row/16", "copied_taps": "depth/16"})),
}

# One channel of a window at a time.
_TAPS = ("taps", "taps/2", "odd_taps")
_POINTED = {
    "calls": "kernel_h odd_taps",
    "pointed": "kernel_h taps",
    "moved": "kernel_h",
    "moved_rows": "kernel_w",
    "skipped_rows": "",
}
# With vectors the pointers to taps are kept, and only their common offset advances, where no row lies outside the
# image.
_POINTED_VECTORS = {
    "calls": "kernel_h odd_taps",
    "pointed": "kernel_h taps",
    "moved": "",
    "edge_moved": "kernel_h",
    "edge_moved_rows": "kernel_w",
}
_FEW = {
    "calls": "kernel_h",
    "few_pieces": "kernel_h taps",
    "few_vectors": "taps/2 odd_taps ties",
    "outside": "",
    "border": "taps",
}
_SEVERAL = {
    "calls": "kernel_h",
    "several_pointed": "kernel_h taps",
    "several_pieces": "",
    "several_vectors": "",
    "several_outputs": "taps/2 odd_taps ties",
}
_WORDS = {
    "calls": "",
    "words_runs": "",
    "words_parts": "",
    "words_pieces": "",
    "words_pairs": "",
    "words_fours": "",
}
_PORTABLE_DEPTHWISE = {
    "calls": "out_c out_c*taps*has_offset",
    "outputs": "kernel_h",
    "inside_rows*out_c": "kernel_w",
    "border_rows*out_c": "kernel_w",
}

_LONG = {
    "calls": "kernel_h long_places long_places*kernel_h",
    "long_packs": "",
    "long_laid": "long_fours long_pair long_edges",
    "long_channels": "",
    "long_tiles": "kernel_h kernel_h*long_words long_looped",
    "long_limited": "",
}

TERMS = {
    "conv1x1_s8": _PORTABLE_PIXELS,
    "conv1x1_s8__scalar": _PIXEL_TILES,
    "conv1x1_s8__dsp": _PIXEL_TILES,
    "conv1x1_s8__mve": nested(_VECTOR_PIXELS),
    "conv1x1_shallow_s8__mve": nested(
        {"calls": "group_c/4", "rest/2": "group_c/4", "tiles/2": "group_c/4 group_c/4*ties"}
    ),
    "conv1x1_lanes_s8__dsp": _by_group(_LANE_PIXELS),
    "linear_s8__scalar": _LINEAR,
    "linear_s8__dsp": _LINEAR,
    "linear_lanes_s8__dsp": _by_group(_LANE_PIXELS),
    "conv2d_s8": _PORTABLE_WINDOWS,
    "conv2d_s8__scalar": _SCALAR_WINDOWS,
    "conv2d_s8__dsp": _DSP_WINDOWS,
    "conv2d_s8__mve": nested(_VECTOR_WINDOWS),
    "conv2d_lanes_s8__dsp": (*_by_group(_LANE_WINDOWS), *_LAID_OUT, *_SWIFT),
    "conv1x1_s16__dsp": nested(_WIDE_PIXELS),
    "conv1x1_s16__mve": nested(_VECTOR_WIDE),
    "conv1x1_s16__scalar": nested(_SMALL_PIXELS),
    "linear_s16__scalar": nested(_SMALL_LINEAR),
    "conv2d_s16__scalar": _SMALL_WINDOWS,
    "conv2d_s16__dsp": _WIDE_WINDOWS,
    "conv2d_s16__mve": nested(_VECTOR_WIDE_WINDOWS),
    **{name.format(kind): terms for name, terms in _NARROW_KERNELS.items() for kind in ("narrow", "runs")},
    **{f"linear_narrow_s8__{core}": _NARROW_LINEAR for core in ("scalar", "dsp")},
    **{f"linear_runs_s8__{core}": _RUNS_LINEAR for core in ("scalar", "dsp")},
    "depthwise_s8": nested(_PORTABLE_DEPTHWISE),
    "depthwise_s8__scalar": nested(
        {
            **_POINTED,
            "spans": f"in_c in_c/4 {' '.join(f'{c}*{one}' for c in ('in_c', 'in_c/4') for one in _TAPS)} in_c%4",
            **_CUT,
        }
    ),
    "depthwise_s8__dsp": nested({**_POINTED, "spans": f"in_c/4 {' '.join(f'in_c/4*{one}' for one in _TAPS)} in_c%4"}),
    "depthwise_s8__mve": nested(
        {**_POINTED_VECTORS, "spans": f"in_c/16 {' '.join(f'in_c/16*{one}' for one in (*_TAPS, 'ties'))} odd_vector"}
    ),
    "depthwise_s16__scalar": nested({**_POINTED, "spans": "in_c/4 in_c/4*taps", **_CUT}),
    "depthwise_s16__dsp": nested({**_POINTED, "spans": "in_c/4 in_c/4*taps in_c/4*looped"}),
    "depthwise_s16__mve": nested({**_POINTED, "spans": "in_c/8 in_c/8*taps in_c/8*looped_eights"}),
    "depthwise3x3_s8__dsp": (*_by_group(_LANE_WINDOWS), *_LAID_OUT),
    "depthwise3x3_s8__mve": nested(
        {"calls": "", "stretches": "", "spans": "in_c/16 in_c/16*ties odd_vector", "outside": ""}
    ),
    "depthwise_few_s8__mve": nested(_FEW),
    "depthwise_several_s8__mve": nested(_SEVERAL),
    "depthwise_words_s8__mve": nested(_WORDS),
    "depthwise_long_s8__dsp": nested(_LONG),
    "depthwise_s16": nested({"calls": "", "spans": "out_c", "rows_inside": "out_c", "taps_inside": "out_c"}),
}


# ---- quantities ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Codes:
    """The parts of a kernel's epilogue that its time depends on."""

    lowest: int  # the smallest code that it returns
    out_offset: int
    has_offset: bool = False  # a nonzero input offset, for portable kernels
    lean: bool = False
    limited: bool = False  # the clamp is narrower than int8

    @property
    def cut(self) -> int | None:
        """The code that a negative sum always gives, so that requantization is skipped; None unless it is the lower
        bound."""
        return self.lowest if self.lowest == self.out_offset else None

    @property
    def flags(self) -> dict[str, float]:
        """Negative sums need no rounding if the clamp raises them to the output offset anyway."""
        return {"ties": float(self.lowest != self.out_offset), "has_offset": float(self.has_offset)}


def pixels_work(symbol: str, in_c: int, out_c: int, codes: Codes, runs: int = 0) -> Work:
    """Returns the work of a 1x1 convolution or a linear layer, over spans of pixels. `runs`: the number of runs of
    weights that have a factor of their own."""

    def quantities(calls: Calls) -> Quantities:
        sizes = {"in_c": in_c, "out_c": out_c, "depth": in_c, "groups": 1, "taps": 1, "kernel_h": 1, "strided": 0}
        sizes["runs"] = runs
        return sizes | _products(in_c, 1, out_c, 1) | _tiles(calls, codes.lean) | codes.flags

    return Work(TERMS[symbol], quantities, codes.cut)


def window_work(symbol: str, window: Window, codes: Codes) -> Work:
    """Returns the work of a convolution that computes one row from the rows under its window."""

    def quantities(calls: Calls) -> Quantities:
        columns = window.columns(calls)
        by_row = Calls(**{**vars(calls), "span": window.out_w, "spans": calls.calls * window.out_w})
        found = window.sizes | columns | _tiles(by_row, codes.lean) | codes.flags
        found |= _products(window.depth, window.kernel_h * window.kernel_w, window.out_c, window.groups)
        found |= {"strided": float(window.stride_w > 1), "window_row": float(window.kernel_w * window.depth)}
        found["border_rows"] = columns["spans"] * window.kernel_h - columns["inside_rows"]
        found |= _long(window, calls, codes)
        return (
            found
            | _gathered(window, calls, by_words="swift" in TERMS[symbol], copied="lanes" not in symbol)
            | _vector_windows(window, calls)
            | _few(window, calls, columns)
            | _several(window, calls, columns)
            | _words(window, calls)
        )

    return Work(TERMS[symbol], quantities, codes.cut)


def _products(depth: int, taps: int, out_c: int, groups: int) -> dict[str, float]:
    """Describes the products for one output: their number, whether they are a multiple of four, of a vector or of two,
    and the blocks of vectors after the first one."""
    window, blocks = taps * depth, (taps * depth - 1) // VECTOR
    return {
        "window": window,
        "window_row": window,
        "fours": depth // 4,
        "group_c": out_c / groups,
        "odd4": float(window % 4 > 0),
        "odd8": float(window % 8 > 0),
        "looped": float(taps if taps != 9 else 0),
        "looped_eights": float(taps if taps != 9 or depth * groups % 8 else 0),
        "odd_taps": taps % 2,
        "odd16": float(window if window % VECTOR else 0),
        "blocks": blocks,
        "odd_block": blocks % 2,
        "two_blocks": blocks // 2,
        "odd_vector": float(depth * groups % VECTOR > 0),
    }


def _tiles(calls: Calls, lean: bool) -> dict[str, float]:
    """Counts the tiles of pixels. On small cores tiles have three or four pixels, or one or two; lean layers have only
    the latter. With vectors they have two or one."""
    whole, rest = divmod(calls.spans, max(calls.span, 1))
    found = {"quads": 0.0, "halves": 0.0}
    for times, span in ((whole, calls.span), (1, rest)):
        fours, last = divmod(0 if lean else span, 4)
        found["quads"] += times * (fours + (last > 2))
        found["halves"] += times * (math.ceil(span / 2) if lean else 0 < last <= 2)
    for size in (2, 4):
        found[f"tiles/{size}"] = whole * math.ceil(calls.span / size) + math.ceil(rest / size)
        found[f"rest/{size}"] = calls.calls if calls.span % size else 0
    return {
        **found,
        "pairs": whole * (calls.span // 2) + rest // 2,
        "singles": whole * (calls.span % 2) + rest % 2,
    }


def _gathered(window: Window, calls: Calls, *, by_words: bool, copied: bool) -> dict[str, float]:
    """Counts the copying of windows into scratch, two pixels at a time; for kernels that always read two, an odd last
    window is `copied` twice.

    Adjacent taps inside the image are one piece; the cost depends on whether the channels of a tap are a multiple of
    four. If they are not, some kernels copy windows that are completely inside `by_words`; two windows of three rows of
    nine bytes are copied at once.
    """
    depth, lefts = window.depth, window.lefts
    nines = by_words and window.kernel_h == 3 and window.kernel_w * depth == 9
    lefts += lefts[-1:] * ((copied or nines) and len(lefts) % 2)
    pieces = [_pieces(window, left) for left in lefts]
    swift = [by_words and window.plain and depth % 4 > 0 and window.inside(left) for left in lefts]
    slow = [several for several, fast in zip(pieces, swift, strict=True) if not fast]
    empty = [[1] * window.kernel_w * len(lefts)]
    plain, kind = calls.calls - calls.edges, "whole" if depth % 4 == 0 else "part"
    totals = dict.fromkeys(_LAID_OUT, 0.0)
    above = calls.edges * window.kernel_h - calls.outside  # inside rows of calls that have other rows outside the image
    for parts, times in ((slow, plain * window.kernel_h), (pieces, above), (empty, calls.outside)):
        several = [piece for part in parts for piece in part]
        totals[f"{kind}_pieces"] += window.groups * times * len(several)
        totals[f"{kind}_words"] += window.groups * times * sum(piece * depth // 4 for piece in several)
        totals[f"{kind}_bytes"] += window.groups * times * sum(piece * depth % 4 for piece in several)
    pairs = sum(both == (True, True) for both in zip(swift[::2], swift[1::2], strict=True)) if nines else 0
    return {**totals, "nines": plain * pairs, "swift": plain * (sum(swift) - 2 * pairs)}


def _pieces(window: Window, left: int) -> list[int]:
    """Returns the number of taps in each piece of a window's row."""
    taps = window.kernel_w
    inside = sum(0 <= left + tap * window.dilation_w < window.in_w for tap in range(taps))
    return [inside, *[1] * (taps - inside)] if window.plain and inside > 0 else [1] * taps


def _vector_windows(window: Window, calls: Calls) -> dict[str, float]:
    """Counts, for kernels with vectors: pairs of windows inside the image, copied together (joint); other windows; of
    these, windows read in place, rows copied as one run of bytes, and other rows. Without joint windows: rows copied as
    one run, and taps copied one by one."""
    height, inner = window.kernel_h, window.in_w - window.kernel_w
    runs = [window.plain and 0 <= left <= inner for left in window.lefts]
    pairs = sum(a and b for a, b in zip(runs[::2], runs[1::2], strict=False)) if height > 1 else 0
    joint = (calls.calls - calls.edges) * pairs
    rows = calls.calls * height - calls.outside  # over all calls, for each pixel
    run_rows = rows * sum(runs) - joint * 2 * height
    windows = calls.calls * len(runs) - 2 * joint
    return {
        "copied_rows": rows * sum(runs),
        "copied_taps": (calls.calls * len(runs) * height - rows * sum(runs)) * window.kernel_w,
        "joint": joint,
        "windows": windows,
        "window_runs": run_rows - (run_rows if height == 1 else 0),
        "tap_rows": windows * height - run_rows,
    }


def _few(window: Window, calls: Calls, columns: Quantities) -> dict[str, float]:
    """Counts the work of depthwise layers with fewer channels than a vector has bytes: adjacent pixels whose windows
    lie inside the image are one piece, every other pixel is a piece of its own; a vector holds as many pixels as
    fit."""
    several = max(calls.calls, 1)
    inside, border = columns["inside"] / several, columns["border"] / several
    joined = calls.calls - calls.edges if window.stride_w == 1 and inside else 0.0
    single = calls.calls * (inside + border) - joined * inside
    return {
        "few_pieces": joined + single,
        "few_vectors": joined * math.ceil(inside / max(VECTOR // window.in_c, 1)) + single,
    }


def _several(window: Window, calls: Calls, columns: Quantities) -> dict[str, float]:
    """Counts the work of depthwise layers with several outputs of each channel: windows that are pointed at, and pieces
    of them; pixels inside the image are one piece if they lie together, and their channels do not fill a vector.
    Vectors of each piece have a turn for each output."""
    plain, channels = calls.calls - calls.edges, window.in_c
    inside = round(columns["inside"] / max(calls.calls, 1))
    joined = window.stride_w == 1 and channels < VECTOR and inside > 0
    pointed = calls.calls * window.out_w - plain * max(inside - 1, 0)
    pieces = pointed if joined else float(calls.calls * window.out_w)
    if joined:
        vectors = pieces + plain * (math.ceil(inside / (VECTOR // channels)) - 1)
    else:
        vectors = pieces * math.ceil(channels / VECTOR)
    return {
        "several_pointed": pointed,
        "several_pieces": pieces,
        "several_vectors": vectors,
        "several_outputs": vectors * (window.out_c / channels),
    }


def _words(window: Window, calls: Calls) -> dict[str, float]:
    """Counts the work of depthwise layers whose columns are laid out as words: runs of pixels of sixteen channels,
    their columns in parts that are inside the image and parts that are not, pieces of these (of fewer than sixteen
    channels several columns that lie together, where all rows are inside the image), pairs of pixels and fours of
    outputs."""
    slide, channels = (window.stride_w, window.pad_left, window.dilation_w), window.in_c
    run = words_run(window.kernel_w, window.out_w, slide, channels)
    reach = (window.kernel_w - 1) * window.dilation_w + 1
    parts = dense = single = pairs = 0
    for first in range(0, window.out_w, run):
        pixels = min(run, window.out_w - first)
        left = window.lefts[first]
        end = left + (pixels - 1) * window.stride_w + reach
        inside = max(min(end, window.in_w) - max(left, 0), 0)
        parts += (left < 0) + (inside > 0) + (end > window.in_w)
        single += end - left
        dense += end - left - inside + math.ceil(inside * channels / VECTOR)
        pairs += math.ceil(pixels / 2)
    slices = [min(channels - first, VECTOR) for first in range(0, channels, VECTOR)]
    plain = calls.calls - calls.edges if channels < VECTOR else 0
    every = calls.calls * len(slices)
    return {
        "words_runs": every * math.ceil(window.out_w / run),
        "words_parts": every * parts,
        "words_pieces": (every - plain) * single + plain * dense,
        "words_pairs": every * pairs,
        "words_fours": calls.calls * pairs * sum(math.ceil(one * window.out_c / channels / 4) for one in slices),
    }


def _long(window: Window, calls: Calls, codes: Codes) -> dict[str, float]:
    """Counts the work of depthwise layers with long multiplies: rows of four channels laid out in scratch, in fours of
    columns, pairs and single words; channels of outputs; their tiles of four outputs, rows of tiles that need a loop,
    and tiles that are clamped."""
    stride, height = window.stride_w, window.kernel_h
    packs = calls.calls * math.ceil(window.in_c / 4)
    row = LongRow.of(window.in_w, window.out_w, window.pad_left, stride, window.kernel_w)
    made = 4.0 * packs * (window.out_c // window.in_c)
    return {
        "long_places": row.places,
        "long_packs": packs,
        "long_laid": packs * (height - calls.outside / max(calls.calls, 1)),
        "long_fours": row.inside // 2,
        "long_pair": row.inside % 2,
        "long_edges": row.edges,
        "long_channels": made,
        "long_tiles": made * row.tiles,
        "long_words": row.words,
        "long_looped": 0.0 if (row.words, stride) == (3, 1) and height <= 5 else height,
        "long_limited": made * row.tiles * codes.limited,
    }
