"""Loops shared by the kernels of several operators: the counts for their `work` (ir/work.py)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cortado.ir.op import Call
from cortado.ir.work import Calls, Quantities, Work, loops, nested

VECTOR = 16  # bytes

ELEMENTS = loops("calls outputs")  # one element at a time


def _fours(calls: Calls) -> Quantities:
    fours, _ = calls.in_spans(4)
    return {"fours": fours, "singles": calls.spans - 4 * fours}


def _in_turns(name: str, size: int) -> Work:
    """Counts turns of `size` elements, of which the last of a call has fewer."""
    return Work(("calls", name), lambda calls: {name: sum(calls.in_spans(size))})


FOURS = Work(("calls", "fours", "singles"), _fours)  # four elements at a time, the rest one by one
VECTORS = _in_turns("vectors", VECTOR)
EIGHTS = _in_turns("eights", 8)  # eight elements of 16 bits at a time
QUADS = _in_turns("quads", 4)  # four elements of 32 bits at a time


# ---- copies ----------------------------------------------------------------------------------------------------------

COPIED = ("runs", "blocks", "words", "tails", "loose_runs", "loose_blocks", "loose_words", "loose_tails")


@dataclass(frozen=True)
class RunSteps:
    """The start address of the first of several runs, and the distance from one to the next."""

    first: int
    step: int

    def whole(self, number: int) -> bool:
        return (self.first + number * self.step) % 4 == 0


def copies(count: float, length: int, source: RunSteps, target: RunSteps) -> dict[str, float]:
    """Counts the work of copying runs of `length` bytes: memcpy copies words, in blocks of several, if both addresses
    are multiples of four and the run is long enough; other runs are counted as loose."""
    whole = sum(source.whole(number) and target.whole(number) for number in range(4)) / 4 if length >= VECTOR else 0.0
    found = {"runs": count}
    for kind, share in (("", whole), ("loose_", 1 - whole)):
        found[f"{kind}blocks"] = count * share * (length // VECTOR)
        found[f"{kind}words"] = count * share * (length % VECTOR // 4)
        found[f"{kind}tails"] = count * share * (length % 4)
        found[f"{kind}runs"] = count * (share if kind else 1.0)
    return found


def added(parts: Sequence[Quantities]) -> dict[str, float]:
    """Adds up the counts of several kinds of runs."""
    return {name: sum(part[name] for part in parts) for name in COPIED}


def runs_of(terms: str, length: int, step: int, **sizes: float) -> Work:
    """Returns the work of a kernel that copies outputs in runs of `length` bytes, read from addresses `step` bytes
    apart."""

    def quantities(calls: Calls) -> Quantities:
        return sizes | copies(calls.outputs / max(length, 1), length, RunSteps(0, step), RunSteps(0, length))

    return Work((*terms.split(), *COPIED), quantities)


# ---- windows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """The window of a convolution or a pool that computes one output row from the input rows under it."""

    in_w: int
    in_c: int
    out_w: int
    out_c: int
    kernel_h: int
    kernel_w: int
    stride_w: int
    pad_left: int
    dilation_w: int
    groups: int = 1

    @property
    def depth(self) -> int:
        """The number of channels of one tap."""
        return self.in_c // self.groups

    @property
    def plain(self) -> bool:
        """Whether a row of the window is one contiguous run of bytes."""
        return self.dilation_w == 1 and self.groups == 1

    @property
    def lefts(self) -> list[int]:
        """The leftmost input column of each output pixel's window."""
        return [x * self.stride_w - self.pad_left for x in range(self.out_w)]

    def inside(self, left: int) -> bool:
        return left >= 0 and left + self.dilation_w * (self.kernel_w - 1) < self.in_w

    @property
    def sizes(self) -> dict[str, float]:
        return {
            **{name: float(value) for name, value in vars(self).items()},
            "taps": float(self.kernel_h * self.kernel_w),
            "depth": float(self.depth),
        }

    def columns(self, calls: Calls) -> dict[str, float]:
        """Counts output pixels, rows and taps by the way a kernel treats them.

        Pixels whose window lies inside the image, and the others (border); pixels whose window is set up anew
        (pointed), and those that advance the previous window (moved), with the rows of these that lie outside the
        image; rows and taps that the image has; rows of windows that are one run of bytes, and single taps of the
        others, for two pixels at a time.
        """
        lefts, n = self.lefts, calls.calls
        within = [self.inside(left) for left in lefts]
        inside = sum(within)
        pairs = sum(all(within[at : at + 2]) for at in range(0, len(within), 2)) if self.plain else 0
        rows, outside, moved = n * self.kernel_h, calls.outside, max(inside - 1, 0)
        taps = sum(0 <= left + tap * self.dilation_w < self.in_w for left in lefts for tap in range(self.kernel_w))
        return {
            "spans": n * len(lefts),
            "inside": n * inside,
            "stretches": n * (len(lefts) - inside + (inside > 0)),
            "border": n * (len(lefts) - inside),
            "pointed": n * (len(lefts) - moved),
            "moved": n * moved,
            "moved_rows": (rows - outside) * moved,
            "skipped_rows": outside * moved,
            "edge_moved": calls.edges * moved,
            "edge_moved_rows": (calls.edges * self.kernel_h - outside) * moved,
            "inside_rows": (rows - outside) * inside,
            "rows_inside": (rows - outside) * len(lefts),
            "taps_inside": (rows - outside) * taps,
            "outside_pixels": outside * len(lefts),
            "run_rows": (rows - outside) * pairs,
            "tap_runs": (rows * math.ceil(len(lefts) / 2) - (rows - outside) * pairs) * self.kernel_w,
        }


_OF_POOL = "channels channels/2 channels/4 channels/8 channels/16 channels%4"
_POOL = nested(
    {
        **dict.fromkeys(("spans", "spans*kernel_h", "rows_inside", "taps_inside"), _OF_POOL),
        "calls": "kernel_h",
        "cut": "",
        "uncut": "",
        "border": "",
        "stretches": "",
        "outputs": "limited",
    }
)


def pool(window: Window, lowest: int, limited: bool = False) -> Work:
    """Returns the work of a kernel that loops over the pixels, channels, rows and taps of a pool, and clamps its
    outputs if `limited`."""

    def quantities(calls: Calls) -> Quantities:
        return {**window.sizes, **window.columns(calls), "channels": float(window.in_c), "limited": float(limited)}

    return Work(_POOL, quantities, lowest)


_SUMMED = ("channels", "channel_fours", "channels%4", "channels~4", "eights", "last_fours")
_SUMS = nested(
    {"calls": " ".join(one + across for one in _SUMMED for across in ("", "*in_w")), "outputs": "", "images": ""}
)


def row_sums(channels: int, pixels: int, rows: int) -> Work:
    """Returns the work of sums over the pixels of a row, `rows` of which make an image: channels by how many are summed
    at a time."""
    eights, rest = divmod(channels, 8)
    sizes = {
        "channels": channels,
        "channel_fours": channels // 4,
        "eights": eights,
        "last_fours": math.ceil(rest / 4),
        "in_w": pixels,
    }
    return Work(_SUMS, lambda calls: {**sizes, "images": calls.calls / rows})


def sliding_fields(call: Call, kernel: tuple[int, int]) -> dict[str, Any]:
    """Returns the descriptor members that say how a window slides over the columns; they are the same for all
    elements."""
    return {
        "in_w": call.shape("input")[2],
        "in_c": call.shape("input")[3],
        "out_w": call.out_shape[2],
        "out_c": call.out_shape[3],
        "kernel_h": kernel[0],
        "kernel_w": kernel[1],
        "stride_w": call["stride"][1],
        "pad_left": call["padding"][1],
        "dilation_w": call["dilation"][1],
    }
