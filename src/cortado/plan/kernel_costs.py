"""Cycles of a planned network without running it: what each kernel and the row loop take for what they have to do.

The table (kernel_costs.json) has for each core and C function a sum of terms, each a product of quantities of the job
with its cycles. `benchmarks/fit_costs.py` writes it from networks that were measured on the emulated boards.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cortado.base.target import CortexM
from cortado.plan.jobs import Job, Loop

TABLE = Path(__file__).parent / "kernel_costs.json"
SIZES = (2, 4, 8, 16)  # in which kernels take channels, products and pixels: a part of one costs as much as a whole
VECTOR = 16  # bytes
Terms = Mapping[str, float]  # "calls*in_c": the cycles of each


@dataclass(frozen=True)
class CoreCosts:
    """Of one core: its row loop, and its kernels by the name of their C function."""

    loop: Terms
    kernels: Mapping[str, Terms]
    other: Terms  # a kernel that was never measured


@cache
def known_costs() -> Mapping[CortexM, CoreCosts]:
    """The table, by core."""
    cores: dict[str, Any] = json.loads(TABLE.read_text())["cores"]
    return {CortexM(name): CoreCosts(**core) for name, core in cores.items()}


def job_cycles(costs: CoreCosts, job: Job) -> float:
    return evaluate(costs.kernels.get(job.function, costs.other), quantities(job))


def loop_cycles(costs: CoreCosts, loop: Loop) -> float:
    return evaluate(costs.loop, {"runs": 1.0, **vars(loop)})


def evaluate(terms: Terms, found: Mapping[str, float]) -> float:
    return sum(cycles * product(term, found) for term, cycles in terms.items())


def product(term: str, found: Mapping[str, float]) -> float:
    """Of the quantities that a term names; one that a job doesn't have is nothing."""
    return math.prod(found.get(name, 0.0) for name in term.split("*"))


# ---- what a job has ------------------------------------------------------------------------------------------------


def quantities(job: Job) -> dict[str, float]:
    """The numbers that terms may name: totals of the job, what its calls have, its descriptor's, and parts of these
    that kernels take together: out_c/4 is the number of fours, the last perhaps not full; in_c%4 is what is in that
    last one, and in_c~4 all of in_c where it is no multiple of four."""
    found: dict[str, float] = {name: value for name, value in job.fields.items() if value > 0}
    found |= _windows(found)
    found |= {f"{name}/{size}": math.ceil(value / size) for name, value in found.items() for size in SIZES}
    found |= {f"{name}%4": value % 4 for name, value in found.items() if "/" not in name and value % 4}
    found |= {f"{name}~4": value for name, value in found.items() if not set(name) & set("/%") and value % 4}
    found |= {
        "fours": found.get("depth", 0.0) // 4,
        "calls": job.calls,
        "spans": job.spans,
        "span": job.span,
        "outputs": job.rows * job.row_bytes,
        "read_bytes": job.read_bytes,
        "macs": job.macs,
        "outside": job.outside,
        "cut": job.cut,
        "uncut": max(job.rows * job.row_bytes - job.cut, 0),
    }
    for size in SIZES:
        found[f"span/{size}"] = math.ceil(job.span / size)
        found[f"tiles/{size}"] = _tiles(job, size)
        found[f"rest/{size}"] = job.calls if job.span % size else 0
    columns = _columns(job)
    return found | columns | _few(job, columns) | _gathered(job, found) | _copies(job) | _sums(job)


def _sums(job: Job) -> dict[str, float]:
    """Of additions: outputs where neither operand's factor is a half, which kernels are made for."""
    factors = [job.fields.get(name) for name in ("a_multiplier", "b_multiplier")]
    return {} if None in factors or 1 << 30 in factors else {"unhalved": job.rows * job.row_bytes}


def _tiles(job: Job, size: int) -> float:
    """Pixels that calls make together, so many at a time."""
    whole, rest = divmod(job.spans, max(job.span, 1))
    return whole * math.ceil(job.span / size) + math.ceil(rest / size)


def _windows(found: Mapping[str, float]) -> dict[str, float]:
    """Of convolutions and pools: what lies under a window."""
    channels, groups = found.get("in_c", found.get("channels")), found.get("groups", 1)
    if channels is None or not {"kernel_w", "in_c"} & found.keys():
        return {}
    across, depth = found.get("kernel_w", 1), channels / groups
    taps = found.get("kernel_h", 1) * across
    several = {"window": taps * depth, "window_row": across * depth, "taps": taps, "depth": depth, "groups": groups}
    group_c = found.get("out_c", channels) / groups
    ragged = {
        "odd4": float(several["window"] % 4 > 0),
        "odd16": math.ceil(several["window"] / 16 % 1) * several["window"],
    }
    return several | ragged | {"group_c": group_c, "strided": float(found.get("stride_w", 1) > 1)}


def _columns(job: Job) -> dict[str, float]:
    """Of windows over an image: output pixels whose windows are inside of it, and the others; rows of windows that are
    one run of bytes, and single taps of the others, for two pixels at a time."""
    fields = job.fields
    if not {"in_w", "out_w", "kernel_w", "stride_w", "pad_left"} <= fields.keys():
        return {}
    width, reach = fields["in_w"], fields.get("dilation_w", 1) * (fields["kernel_w"] - 1)
    lefts = [x * fields["stride_w"] - fields["pad_left"] for x in range(fields["out_w"])]
    within = [left >= 0 and left + reach < width for left in lefts]
    inside, plain = sum(within), fields.get("dilation_w", 1) == 1 and fields.get("groups", 1) == 1
    pairs = sum(all(within[at : at + 2]) for at in range(0, len(within), 2)) if plain else 0
    rows, outside = job.calls * fields.get("kernel_h", 1), job.outside
    return {
        "inside": job.calls * inside,
        "border": job.calls * (len(lefts) - inside),
        "outside_pixels": outside * len(lefts),
        "run_rows": (rows - outside) * pairs,
        "tap_runs": (rows * math.ceil(len(lefts) / 2) - (rows - outside) * pairs) * fields["kernel_w"],
    }


def _few(job: Job, columns: Mapping[str, float]) -> dict[str, float]:
    """Of depthwise layers with fewer channels than a vector has bytes: pixels side by side whose windows are inside of
    the image are one piece, every other pixel is one of its own; a vector takes as many pixels as it has room for."""
    fields, channels = job.fields, job.fields.get("in_c", VECTOR)
    if channels >= VECTOR or not columns or "out_c" in fields:
        return {}
    calls = max(job.calls, 1)
    inside, border = columns["inside"] / calls, columns["border"] / calls
    # Calls with rows above or below the image: one row fewer in each window further in.
    cut = min(job.outside * 2 / (fields["kernel_h"] // 2 + 1), job.calls)
    joined = job.calls - cut if fields["stride_w"] == 1 and inside else 0.0
    single = job.calls * (inside + border) - joined * inside
    taps = fields["kernel_h"] * fields["kernel_w"]
    return {
        "few_pieces": joined + single,
        "few_vectors": joined * math.ceil(inside / (VECTOR // channels)) + single,
        "odd_taps": taps % 2,
    }


def _gathered(job: Job, found: Mapping[str, float]) -> dict[str, float]:
    """Of convolutions: windows as they are laid out for two pixels. Taps inside the image that lie together are one
    piece; whether the channels of a tap are whole fours makes a difference."""
    fields = job.fields
    if not {"in_w", "out_w", "kernel_w", "stride_w", "pad_left", "in_c"} <= fields.keys():
        return {}
    depth, taps = int(found["depth"]), fields["kernel_w"]
    lefts = [x * fields["stride_w"] - fields["pad_left"] for x in range(fields["out_w"])]
    lefts += lefts[-1:] * (len(lefts) % 2)  # a second pixel that is none is a copy of the first
    pieces = [piece for left in lefts for piece in _pieces(fields, left)]
    empty = [1] * taps * len(lefts)
    groups, rows = fields.get("groups", 1), job.calls * fields.get("kernel_h", 1)
    kind = "whole" if depth % 4 == 0 else "part"
    totals = {"pieces": 0.0, "words": 0.0, "bytes": 0.0}
    for several, times in ((pieces, rows - job.outside), (empty, job.outside)):
        totals["pieces"] += groups * times * len(several)
        totals["words"] += groups * times * sum(piece * depth // 4 for piece in several)
        totals["bytes"] += groups * times * sum(piece * depth % 4 for piece in several)
    return {f"{kind}_{name}": value for name, value in totals.items()}


def _pieces(fields: Mapping[str, int], left: int) -> list[int]:
    """The taps of each piece of a window's row."""
    taps, dilation = fields["kernel_w"], fields.get("dilation_w", 1)
    inside = sum(0 <= left + tap * dilation < fields["in_w"] for tap in range(taps))
    together = dilation == 1 and fields.get("groups", 1) == 1 and inside > 0
    return [inside, *[1] * (taps - inside)] if together else [1] * taps


def _copies(job: Job) -> dict[str, float]:
    """Of kernels that move bytes: runs that lie together, by whether they are words, and bytes that are read singly."""
    fields, bytes_ = job.fields, job.rows * job.row_bytes
    if {"rank", "shape0", "stride0"} <= fields.keys():
        inner = fields["rank"] - 1
        length = fields[f"shape{inner}"]
        turns = bytes_ / max(length * (fields[f"shape{inner - 1}"] if inner else 1), 1)
        if fields[f"stride{inner}"] != 1:
            return {"single_runs": bytes_ / length, "singles": bytes_, "turns": turns}
        return {**_runs(bytes_ / length, length), "turns": turns}
    if {"count", "width0"} <= fields.keys():
        widths = [fields[f"width{number}"] for number in range(fields["count"])]
        return _several([_runs(bytes_ / max(sum(widths), 1), width) for width in widths])
    if {"count", "inner", "index"} <= fields.keys():
        return _runs(bytes_ / max(fields["inner"], 1), fields["inner"])
    if {"width", "in_stride"} <= fields.keys():
        return _runs(bytes_ / max(fields["width"], 1), fields["width"])
    return {}


def _several(parts: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(part.get(name, 0.0) for part in parts) for part in parts for name in part}


def _runs(count: float, length: int) -> dict[str, float]:
    """Copies of so many bytes: memcpy takes words where it can, and many of them at a time."""
    if length % 4:
        return {"runs": count, "ragged_runs": count, "ragged": count * length}
    return {"runs": count, "blocks": count * (length // 16), "words": count * (length % 16) / 4}
