"""The numbers of a job that its cycles follow from: how often each loop of a kernel runs (plan/kernel_costs.py)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cortado.plan.jobs import LOWEST, Job

SIZES = (2, 3, 4, 8, 16)  # in which kernels take channels, products, pixels: a part of one costs as much as a whole
VECTOR = 16  # bytes


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
    found |= _quads(job)
    columns = _columns(job)
    found |= columns | _few(job, columns) | _gathered(job, found) | _copies(job) | _sums(job)
    found |= _blocks(job, found) | _vector_windows(job, found) | _units(job) | _statistics(job)
    return found | _channels(job) | _operands(job)


def _sums(job: Job) -> dict[str, float]:
    """Of additions: outputs where neither operand's factor is a half, which kernels are made for."""
    fields = job.fields
    if not {"a_multiplier", "b_multiplier", "out_multiplier"} <= fields.keys():
        return {}
    half = any(fields[f"{one}_multiplier"] == 1 << 30 and fields.get(f"{one}_shift", 0) == 0 for one in "ab")
    left = any(fields.get(f"{one}_shift", 0) > 0 for one in ("a", "b", "out"))
    return {} if half and not left else {"unhalved": job.rows * job.row_bytes}


def _tiles(job: Job, size: int) -> float:
    """Pixels that calls make together, so many at a time."""
    whole, rest = divmod(job.spans, max(job.span, 1))
    return whole * math.ceil(job.span / size) + math.ceil(rest / size)


def _quads(job: Job) -> dict[str, float]:
    """Of convolutions on small cores: tiles of three or four pixels, and of one or two; lean layers have no others."""
    found = {"quads": 0.0, "halves": 0.0}
    whole, rest = divmod(job.spans, max(job.span, 1))
    for times, span in ((whole, job.span), (1, rest)):
        fours, last = divmod(0 if job.fields.get("lean") else span, 4)
        found["quads"] += times * (fours + (last > 2))
        found["halves"] += times * (math.ceil(span / 2) if job.fields.get("lean") else 0 < last <= 2)
    return found


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
        "odd_taps": taps % 2,
        "odd16": math.ceil(several["window"] / 16 % 1) * several["window"],
    }
    return several | ragged | {"group_c": group_c, "strided": float(found.get("stride_w", 1) > 1)}


def _columns(job: Job) -> dict[str, float]:
    """Of windows over an image: output pixels whose windows are inside of it, and the others; pixels whose window is
    found anew, and those to which it moves on from the one before; rows and taps that the image has; rows of windows
    that are one run of bytes, and single taps of the others, for two pixels at a time."""
    fields = job.fields
    if not {"in_w", "out_w", "kernel_w", "stride_w", "pad_left"} <= fields.keys():
        return {}
    width, reach = fields["in_w"], fields.get("dilation_w", 1) * (fields["kernel_w"] - 1)
    lefts = [x * fields["stride_w"] - fields["pad_left"] for x in range(fields["out_w"])]
    within = [left >= 0 and left + reach < width for left in lefts]
    inside, plain = sum(within), fields.get("dilation_w", 1) == 1 and fields.get("groups", 1) == 1
    pairs = sum(all(within[at : at + 2]) for at in range(0, len(within), 2)) if plain else 0
    rows, outside = job.calls * fields.get("kernel_h", 1), job.outside
    moved, dilation = max(inside - 1, 0), fields.get("dilation_w", 1)
    taps = sum(0 <= left + tap * dilation < width for left in lefts for tap in range(fields["kernel_w"]))
    return {
        "inside": job.calls * inside,
        "stretches": job.calls * (len(lefts) - inside + (inside > 0)),
        "border": job.calls * (len(lefts) - inside),
        "pointed": job.calls * (len(lefts) - moved),
        "moved": job.calls * moved,
        "moved_rows": (rows - outside) * moved,
        "skipped_rows": outside * moved,
        "rows_inside": (rows - outside) * len(lefts),
        "taps_inside": (rows - outside) * taps,
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
    joined = job.calls - job.edges if fields["stride_w"] == 1 and inside else 0.0
    single = job.calls * (inside + border) - joined * inside
    return {
        "few_pieces": joined + single,
        "few_vectors": joined * math.ceil(inside / (VECTOR // channels)) + single,
    }


def _blocks(job: Job, found: Mapping[str, float]) -> dict[str, float]:
    """Of convolutions with vectors: tiles of two pixels and of one. For four channels of a tile the loop of two blocks
    of products runs `turns` times, behind a first block and perhaps one more; what is no whole block comes last. A
    negative sum is not rounded where it is cut off anyway."""
    if "window" not in found:
        return {}
    (whole, rest), size = divmod(job.spans, max(job.span, 1)), int(found["window"])
    blocks = size // VECTOR
    return {
        "pairs": whole * (job.span // 2) + rest // 2,
        "singles": whole * (job.span % 2) + rest % 2,
        "blocked": float(blocks > 0),
        "unblocked": float(blocks == 0),
        "one_more": float(blocks > 0 and blocks % 2 == 0),
        "turns_of_two": max(blocks - 1, 0) // 2,
        "part": float(size % VECTOR > 0),
        "odd_vector": float(found.get("in_c", 0) % VECTOR > 0),
        "ties": float(job.fields.get(LOWEST) != job.fields.get("out_offset")),
    }


def _vector_windows(job: Job, found: Mapping[str, float]) -> dict[str, float]:
    """Of convolutions with vectors: pairs of windows that are inside of the image and copied together; other windows;
    of these, such as are read where they lie, rows of others that are one run of bytes, and rows that are not."""
    fields = job.fields
    if not {"in_w", "out_w", "kernel_w", "stride_w", "pad_left", "in_c", "kernel_h"} <= fields.keys():
        return {}
    height, inner = fields["kernel_h"], fields["in_w"] - fields["kernel_w"]
    plain = fields.get("dilation_w", 1) == 1 and found.get("groups", 1) == 1
    lefts = [x * fields["stride_w"] - fields["pad_left"] for x in range(fields["out_w"])]
    runs = [plain and 0 <= left <= inner for left in lefts]
    pairs = sum(a and b for a, b in zip(runs[::2], runs[1::2], strict=False)) if height > 1 else 0
    joint = (job.calls - job.edges) * pairs
    rows = job.calls * height - job.outside  # of all calls, for each pixel
    run_rows = rows * sum(runs) - joint * 2 * height
    windows = job.calls * len(lefts) - 2 * joint
    direct = run_rows if height == 1 else 0
    return {
        "joint": joint,
        "windows": windows,
        "window_runs": run_rows - direct,
        "tap_rows": windows * height - run_rows,
    }


def _units(job: Job) -> dict[str, float]:
    """Of recurrent layers: units whose gates are made together, each group of them in each step; the products of both
    paths of a gate, input and state, for which one function is called: twos, fours, eights of the fours, vectors of
    them, whether there are fours, whether some are in no four, and how many."""
    fields = job.fields
    if not {"units", "steps", "sequences"} <= fields.keys():
        return {}
    steps = job.calls * fields["sequences"] * fields["steps"]
    paths = (fields["in_c"], fields["units"])
    fours, lasts = [products // 4 for products in paths], [products % 4 for products in paths]
    return {
        "all_steps": steps,
        "unit_groups": steps * math.ceil(fields["units"] / fields.get("together", 4)),
        "path_products": sum(paths),
        "path_twos": sum(math.ceil(products / 2) for products in paths),
        "path_fours": sum(fours),
        "path_eights": sum(math.ceil(four / 2) for four in fours),
        "path_vectors": sum(math.ceil(products / VECTOR) for products in paths),
        "path_some": sum(four > 0 for four in fours),
        "path_odd": sum(last > 0 for last in lasts),
        "path_lasts": sum(lasts),
    }


def _statistics(job: Job) -> dict[str, float]:
    """Of normalizations: groups of channels that are one pixel, and others; they have loops of their own."""
    fields = job.fields
    if not {"groups", "channels", "pixels"} <= fields.keys():
        return {}
    samples = job.calls * fields["argument3"] if "argument3" in fields else job.spans
    if fields["groups"] == fields["pixels"] == 1:
        return {"pixel_groups": samples, "pixel_elements": samples * fields["channels"]}
    groups = samples * fields["groups"]
    lines = groups * fields["channels"]
    return {"image_groups": groups, "image_lines": lines, "image_elements": lines * fields["pixels"]}


def _channels(job: Job) -> dict[str, float]:
    """Of sums over pixels: channels by how many of them are added together. Of products and sums with a number for
    each channel: pixels."""
    fields = job.fields
    found: dict[str, float] = {}
    if "_channel_s8" in job.function:
        by = fields.get("argument5", job.span)  # none is given where a row is one pixel
        found |= {"channel_pixels": job.spans / max(by, 1), "channel_eights": math.ceil(by / 8)}
    if "channels" in fields:
        eights, rest = divmod(fields["channels"], 8)
        found |= {"eights": eights, "last_fours": math.ceil(rest / 4), "channel_fours": fields["channels"] // 4}
    return found


def _operands(job: Job) -> dict[str, float]:
    """Of comparisons: outputs whose operands have no scale in common. Of matrix products: whether columns are summed,
    because the first operand's zero point is none."""
    fields = job.fields
    if "lhs_zero" in fields:
        return {"summed": float(fields["lhs_zero"] != 0)}
    pairs = [(fields.get(f"a_{name}"), fields.get(f"b_{name}")) for name in ("zero", "multiplier", "shift")]
    return {} if all(a == b for a, b in pairs) else {"unlike": job.rows * job.row_bytes}


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
    """Of kernels that move bytes: runs that lie together, and bytes that are read singly."""
    fields, bytes_ = job.fields, job.rows * job.row_bytes
    if {"rank", "shape0", "stride0"} <= fields.keys():
        return _turned(fields, bytes_)
    if {"rank", "shape0", "before0", "after0"} <= fields.keys():
        inner = fields["rank"] - 1
        return {"pad_runs": bytes_ / max(sum(fields[f"{part}{inner}"] for part in ("before", "shape", "after")), 1)}
    if {"count", "width0"} <= fields.keys():
        widths = [fields[f"width{number}"] for number in range(fields["count"])]
        row = sum(widths)
        tables = [fields.get(f"lut{number}", 0) > 0 for number in range(len(widths))]
        starts = [sum(widths[:number]) for number in range(len(widths))]
        plain = [
            _runs(bytes_ / max(row, 1), width, Steps(0, width), Steps(start, row))
            for width, start, table in zip(widths, starts, tables, strict=True)
            if not table
        ]
        looked = [width for width, table in zip(widths, tables, strict=True) if table]
        times = bytes_ / max(row, 1)
        return _several(plain) | {
            "lookups": times * len(looked),
            "looked": times * sum(looked),
            "looked_vectors": times * sum(math.ceil(width / VECTOR) for width in looked),
            "cat_rows": times,
        }
    if {"count", "inner", "index"} <= fields.keys():
        inner = fields["inner"]
        return _runs(bytes_ / max(inner, 1), inner, Steps(0, inner), Steps(0, inner))
    if {"width", "in_stride"} <= fields.keys():
        width = fields["width"]
        steps = Steps(0, fields["in_stride"]), Steps(0, fields.get("out_stride", width))
        return _runs(bytes_ / max(width, 1), width, *steps)
    return {}


def _turned(fields: Mapping[str, int], bytes_: int) -> dict[str, float]:
    """Of transposes and slices."""
    inner = fields["rank"] - 1
    length = fields[f"shape{inner}"]
    turns = bytes_ / max(length * (fields[f"shape{inner - 1}"] if inner else 1), 1)
    if fields[f"stride{inner}"] != 1:
        return {"single_runs": bytes_ / length, "singles": bytes_, "turns": turns}
    step = fields[f"stride{inner - 1}"] if inner else 0
    runs = _runs(bytes_ / length, length, Steps(fields.get("offset", 0), step), Steps(0, length))
    return {**runs, "turns": turns}


def _several(parts: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(part.get(name, 0.0) for part in parts) for part in parts for name in part}


@dataclass(frozen=True)
class Steps:
    """Where the first of several runs starts, and how far it is from one to the next."""

    first: int
    step: int

    def whole(self, number: int) -> bool:
        return (self.first + number * self.step) % 4 == 0


def _runs(count: float, length: int, source: Steps, target: Steps) -> dict[str, float]:
    """Copies of so many bytes: memcpy takes words, many of them at a time, where both addresses are multiples of four
    and it is worth it."""
    whole = sum(source.whole(number) and target.whole(number) for number in range(4)) / 4 if length >= 16 else 0.0
    found = {"runs": count}
    for kind, share in (("", whole), ("loose_", 1 - whole)):
        found[f"{kind}blocks"] = count * share * (length // 16)
        found[f"{kind}words"] = count * share * (length % 16 // 4)
        found[f"{kind}tails"] = count * share * (length % 4)
        found[f"{kind}runs"] = count * (share if kind else 1.0)
    return found
