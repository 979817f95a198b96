"""Fits the table of costs (src/cortado/plan/kernel_costs.json) to what cost_samples.py measured.

python benchmarks/fit_costs.py SAMPLES.jsonl ... [--write]

For each core and kernel: the terms, products of quantities of a job, whose sum with cycles that are not negative is
nearest to what was measured, relative to it; chosen one after the other as long as one more makes a difference.
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from cortado.plan.jobs import Job, Loop, single_layers
from cortado.plan.kernel_costs import TABLE, CoreCosts, evaluate, job_cycles, loop_cycles
from cortado.plan.quantities import quantities

Array = np.ndarray[Any, np.dtype[np.float64]]
Line = dict[str, Any]
MOST_TERMS = 14
ENOUGH = 0.002  # mean relative error at which no term is added
BETTER = 0.985  # of the error before, for a term to stay
CANDIDATES = 4000
TINY = 1e-12
FEW, VERY_FEW = 10, 3  # samples that don't tell many terms apart; nor anything at all

# Totals of a job: terms of their own.
TOTALS = ("calls", "outputs", "read_bytes", "macs", "outside", "cut", "uncut", "unhalved")
LAID_OUT = tuple(f"{kind}_{what}" for kind in ("whole", "part") for what in ("pieces", "words", "bytes"))
RUNS = ("runs", "blocks", "words", "tails", "loose_runs", "loose_blocks", "loose_words", "loose_tails")
LOOKUPS = ("lookups", "looked", "looked_vectors", "cat_rows")
COPIES = (*LAID_OUT, *RUNS, *LOOKUPS, "single_runs", "singles", "turns")
# Totals that what a call has multiplies.
TILES = ("tiles/2", "tiles/4", "rest/2", "rest/4")
WHOLE = ("calls", "spans", "inside", "border", "outside_pixels", "run_rows", "tap_runs", *TILES)
# What convolutions and pools have loops over, by what they are done for. All of it is done for each group of channels.
CHANNELS = "group_c group_c/2 group_c/4 group_c/16 group_c%4"
PRODUCTS = "window/4 window/16 odd4 odd16/16"
OF_TILES = (
    f"kernel_h taps window/4 {CHANNELS} "
    + " ".join(f"{c}*{p}" for c in CHANNELS.split() for p in PRODUCTS.split())
    + " group_c*taps group_c/2*taps group_c/4*taps group_c/16*taps group_c*kernel_h group_c/4*kernel_h"
)
LOOPS: Mapping[str, str] = {
    **dict.fromkeys(TILES, OF_TILES),
    "spans": f"{OF_TILES} strided strided*group_c/2 strided*group_c/4",
    "calls": "kernel_h taps group_c/4 strided strided*group_c/2",
    "inside": "kernel_h taps group_c/4 group_c/4*taps group_c/16*taps",
    "border": "kernel_h taps group_c/4 group_c/4*taps group_c/16*taps",
    "outside_pixels": "group_c/4 group_c/16",
    "run_rows": "window_row/4 window_row/16",
    "tap_runs": "depth/4 depth/16",
}
# Kernels with loops of their own: terms by what the function's name has in it. The first that is found counts.
DEPTHS = "depth fours depth%4 depth/16"
OF_FOUR = " ".join(
    f"group_c/4{what}" for what in ("", "*blocked", "*unblocked", "*one_more", "*turns_of_two", "*part", "*ties")
)
VECTOR_TILES = {"calls": "", "pairs*groups": OF_FOUR, "singles*groups": OF_FOUR}
UNITS = {
    "calls*sequences": "units starts*units",
    "all_steps": "units units*gives_cells units*relu",
}
VECTOR_UNITS = {**UNITS, "unit_groups": "path_vectors"}
DSP_UNITS = {**UNITS, "unit_groups": "path_fours path_eights path_some path_odd path_lasts"}
SCALAR_UNITS = {**UNITS, "unit_groups": "path_products path_twos path_fours path_lasts"}
SUMMED = ("channels", "channel_fours", "channels%4", "channels~4", "eights", "last_fours")
SUMS = {"calls": " ".join(one + across for one in SUMMED for across in ("", "*in_w")), "outputs": ""}
BY_CHANNEL = {"calls": "argument5", "channel_pixels*argument5": "", "cut": "", "uncut": ""}
COPIED = dict.fromkeys((*RUNS, *LOOKUPS, "single_runs", "singles", "turns"), "")
TAPS = ("taps", "taps/2", "odd_taps")
POINTED = {
    "calls": "kernel_h odd_taps",
    "pointed": "kernel_h taps",
    "moved": "kernel_h",
    "moved_rows": "kernel_w",
    "skipped_rows": "",
}
SOME = "channels channels/4 channels/8 channels/16 channels%4"  # of a pool
POOLS = {
    **{total: SOME for total in ("spans", "spans*kernel_h", "rows_inside", "taps_inside")},
    "calls": "kernel_h",
    "cut": "",
    "uncut": "",
    "border": "",
}
OF_TILE = "group_c group_c/2 group_c*window/4 group_c/2*window/4 window/4 group_c%4"
SCALAR_TILES = {
    "calls": "kernel_h groups",
    **{f"{tile}*groups": OF_TILE for tile in ("quads", "halves", "tiles/2")},
    "cut": "",
    "uncut": "",
}
OWN: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(
        ("_conv1x1_s8__scalar", "_conv1x1_s8__dsp"), SCALAR_TILES | {"tiles/2*groups": f"{OF_TILE} fours in_c%4"}
    ),
    "_conv2d_s8__scalar": SCALAR_TILES
    | {
        "run_rows": "window_row window_row%4",
        "tap_runs*groups": "depth depth%4",
        "tiles/2*groups": f"{OF_TILE} kernel_h",
    },
    "_conv2d_s8__dsp": SCALAR_TILES | {"tiles/2*groups": f"{OF_TILE} kernel_h"} | dict.fromkeys(LAID_OUT, ""),
    "_conv1x1_s8__mve": VECTOR_TILES,
    "_conv2d_s8__mve": {
        **VECTOR_TILES,
        "calls": "kernel_h groups",
        "joint": "kernel_h kernel_h*window_row/16",
        "windows*groups": "",
        "window_runs": "window_row/16",
        "tap_rows*groups": "kernel_w kernel_w*depth/16",
    },
    "_linear_s8__scalar": {
        "calls": "",
        "spans": " ".join(f"out_c{part}{what}" for part in ("/3", "/4") for what in ("", "*fours", "*in_c%4", "*in_c")),
        "cut": "",
        "uncut": "",
    },
    **dict.fromkeys(("_max_pool2d_", "_avg_pool2d_"), POOLS),
    "_depthwise_s8__mve": {**POINTED, "spans": f"in_c/16 {' '.join(f'in_c/16*{one}' for one in TAPS)} odd_vector"},
    "_depthwise_s8__dsp": {**POINTED, "spans": f"in_c/4 {' '.join(f'in_c/4*{one}' for one in TAPS)} in_c%4"},
    "_depthwise_s8__scalar": {
        **POINTED,
        "spans": f"in_c in_c/4 {' '.join(f'{c}*{one}' for c in ('in_c', 'in_c/4') for one in TAPS)} in_c%4",
        "cut": "",
        "uncut": "",
    },
    "_depthwise3x3_s8__mve": {"calls": "", "stretches": "", "spans": "in_c/16 in_c/16*ties odd_vector", "outside": ""},
    "_depthwise_few_": {
        "calls": "kernel_h",
        "few_pieces": "kernel_h taps",
        "few_vectors": "taps/2 odd_taps",
        "outside": "",
        "border": "taps",
    },
    "_batch_matmul_": {
        "calls": "batches",
        "calls*batches*rows": DEPTHS,
        "calls*batches*cols*rows/8": "",
        "calls*batches*cols*rows/8*summed": DEPTHS,
        "outputs": DEPTHS,
    },
    "softmax": {"calls": "", "outputs": "", "spans": "argument4/4 argument4/16"},
    "_gates_s8__dsp": DSP_UNITS,
    "_gates_s8__scalar": SCALAR_UNITS,
    **dict.fromkeys(("_gru_", "_lstm_", "_rnn_"), VECTOR_UNITS),
    **dict.fromkeys(("_global_mean_", "_global_avg_pool_"), SUMS),
    "_mul_channel_s8__mve": {"calls": "", "channel_pixels": "channel_eights"},
    **dict.fromkeys(("_mul_channel_", "_add_channel_"), BY_CHANNEL),
    "_pad_": {"calls": "rank", "pad_runs": "rank", "outputs": "", "read_bytes": ""},
    "_variance_": {"calls": "", "outputs": "length root"},
    "_topk_": {"calls": "", "outputs": "argument3"},
    "_compare_s8": {"calls": "", "outputs": "", "unlike": ""},
    "_cat_s8": {"calls": "", **COPIED},
    "_cat_tables_": {"calls": "", **COPIED},
    "_gather_": {"calls": "argument3", **COPIED},
    "_copy2d": {"calls": "", **COPIED},
    "_transpose_s8": {"calls": "rank", **COPIED, "turns": "rank"},
    "_normalize_": dict.fromkeys(
        ("calls", "pixel_groups", "pixel_elements", "image_groups", "image_lines", "image_elements"), ""
    ),
}
# Numbers of other descriptors that make no loop longer: scales, bounds, tables.
IDLE = re.compile(
    r"offset|act_|multiplier|shift|zero|bias|weights|phase|scale|table|exponent|low|high|min|max|stride|/2|/3|/8"
)


@dataclass(frozen=True)
class Fit:
    """Terms with their cycles, and how far they are from what was measured."""

    terms: dict[str, float]
    error: float  # mean, relative
    samples: int


def nonnegative(matrix: Array, wanted: Array) -> Array:
    """Least squares without negative numbers: Lawson and Hanson's active sets."""
    columns = matrix.shape[1]
    found, active = np.zeros(columns), np.zeros(columns, dtype=bool)
    gradient = matrix.T @ (wanted - matrix @ found)
    for _ in range(3 * columns):
        free = np.where(~active, gradient, -np.inf)
        if active.all() or free.max() <= 1e-9:
            break
        active[int(free.argmax())] = True
        while True:
            solved = np.zeros(columns)
            solved[active] = np.linalg.lstsq(matrix[:, active], wanted, rcond=None)[0]
            negative = active & (solved <= 0)
            if not negative.any():
                break
            step = min(found[at] / max(found[at] - solved[at], TINY) for at in np.flatnonzero(negative))
            found = found + step * (solved - found)
            active &= found > TINY
        found = solved
        gradient = matrix.T @ (wanted - matrix @ found)
    return found


# ---- terms ---------------------------------------------------------------------------------------------------------


def candidate_terms(found: Sequence[Mapping[str, float]]) -> list[str]:
    """Products of a total with what a call has."""
    names = {name for one in found for name, value in one.items() if value}
    totals = [name for name in (*TOTALS, *COPIES) if name in names]
    inner = _of_others(found, names)
    return [*totals, *(total + text for total in WHOLE if total in names for text in inner)][:CANDIDATES]


def window_terms(found: Sequence[Mapping[str, float]]) -> list[str]:
    names = {name for one in found for name, value in one.items() if value}
    terms = [f"{total}*groups" for total in LOOPS]
    terms += [f"{total}*{text}*groups" for total, texts in LOOPS.items() for text in texts.split()]
    return [term for term in (*TOTALS, *LAID_OUT, *terms) if set(term.split("*")) <= names]


def own_terms(function: str) -> list[str]:
    """Of a kernel with loops of its own; none if it is no such kernel."""
    loops = next((loops for part, loops in OWN.items() if part in function), {})
    return [term for total, texts in loops.items() for term in (total, *(f"{total}*{text}" for text in texts.split()))]


def _of_others(found: Sequence[Mapping[str, float]], names: set[str]) -> list[str]:
    """Of up to three numbers that differ between the samples."""
    skipped = {*TOTALS, *COPIES, *WHOLE, "tiles", "rest"}
    plain = sorted(name for name in names if name.split("/")[0] not in skipped and IDLE.search(name) is None)
    varied = [name for name in plain if len({one.get(name, 0.0) for one in found}) > 1]
    several = [names for count in (1, 2, 3) for names in combinations(varied, count)]
    return ["", *("*" + "*".join(names) for names in several if _sensible(names))]


def _sensible(names: Sequence[str]) -> bool:
    """No quantity beside a part of itself."""
    stems = [re.split("[/~]", name)[0] for name in names]
    return len(set(stems)) == len(stems)


def _distinct(matrix: Array, terms: Sequence[str]) -> tuple[Array, list[str]]:
    """Of terms that are the same in all samples, but for a factor, the first."""
    seen: dict[bytes, int] = {}
    for column in range(matrix.shape[1]):
        values = matrix[:, column]
        norm = float(np.linalg.norm(values))
        if norm > 0:
            seen.setdefault((values / norm).round(9).tobytes(), column)
    kept = sorted(seen.values())
    return matrix[:, kept], [terms[at] for at in kept]


def fit_all(found: Sequence[Mapping[str, float]], cycles: Sequence[float], terms: Sequence[str]) -> Fit:
    """All terms at once: they are few, and none of them can be negative."""
    scale = np.array(cycles)
    table, terms = _distinct(_columns(found, terms) / scale[:, None], terms)
    solved = nonnegative(table, np.ones(len(scale)))
    kept = {term: float(number) for term, number in zip(terms, solved, strict=True) if number > 0}
    return Fit(kept, float(np.sqrt(np.mean((table @ solved - 1) ** 2))), len(scale))


# ---- one kernel ----------------------------------------------------------------------------------------------------


def fit(found: Sequence[Mapping[str, float]], cycles: Sequence[float], terms: Sequence[str]) -> Fit:
    """The fewest terms that tell the cycles."""
    scale = np.array(cycles)
    table = _columns(found, terms) / scale[:, None]
    table, terms = _distinct(table, terms)
    wanted, norms = np.ones(len(scale)), np.linalg.norm(table, axis=0)
    chosen: list[int] = []
    best, solved = 1.0, np.zeros(0)
    while len(chosen) < min(MOST_TERMS, max(1, len(scale) // 3)) and best > ENOUGH:
        rest = wanted - (table[:, chosen] @ solved if chosen else 0.0)
        fitting = (table.T @ rest) / norms
        fitting[chosen] = -np.inf
        tried = [(*_with(table, wanted, [*chosen, int(at)]), int(at)) for at in np.argsort(-fitting)[:24]]
        error, numbers, at = min(tried, key=lambda one: one[0])
        if error > BETTER * best:
            break
        best, solved, chosen = error, numbers, [*chosen, at]
    kept = {terms[at]: float(number) for at, number in zip(chosen, solved, strict=True) if number > 0}
    return Fit(kept, best, len(scale))


def _columns(found: Sequence[Mapping[str, float]], terms: Sequence[str]) -> Array:
    names = {name for term in terms for name in term.split("*")}
    values = {name: np.array([one.get(name, 0.0) for one in found], dtype=float) for name in names}
    return np.stack([np.prod([values[name] for name in term.split("*")], axis=0) for term in terms], axis=1)


def _with(table: Array, wanted: Array, columns: list[int]) -> tuple[float, Array]:
    solved = nonnegative(table[:, columns], wanted)
    return float(np.sqrt(np.mean((table[:, columns] @ solved - wanted) ** 2))), solved


# ---- all of them ---------------------------------------------------------------------------------------------------


def job_of(data: Mapping[str, Any]) -> Job:
    return Job(**{name: value for name, value in data.items() if name != "cycles"})


def jobs_by_kernel(lines: Iterable[Line]) -> dict[str, list[tuple[dict[str, float], float]]]:
    found: dict[str, list[tuple[dict[str, float], float]]] = defaultdict(list)
    for line in lines:
        for data in line["jobs"]:
            job = job_of(data)
            if data["cycles"] > 0 and single_layers(job) == [job]:
                found[job.function].append((quantities(job), data["cycles"]))
    return found


def fit_kernel(function: str, found: Sequence[Mapping[str, float]], cycles: Sequence[float]) -> Fit:
    """Few samples tell little apart: then only totals count, which are right for sizes that were not seen, too."""
    terms = own_terms(function)
    if terms:
        return fit_all(found, cycles, terms)
    if len(found) <= FEW:
        return fit_all(found, cycles, [*TOTALS, *COPIES, "spans"])
    if "window" in found[0]:
        return fit_all(found, cycles, window_terms(found))
    return fit(found, cycles, candidate_terms(found))


def like_others(plain: Fit, found: Sequence[Mapping[str, float]], cycles: Sequence[float]) -> Fit:
    """Of a kernel with hardly a sample: what all kernels take, with a factor."""
    rates = np.array([spent / max(evaluate(plain.terms, one), 1.0) for one, spent in zip(found, cycles, strict=True)])
    factor = float(np.median(rates))
    return Fit({term: number * factor for term, number in plain.terms.items()}, float(np.std(rates)), len(rates))


def fit_core(lines: Sequence[Line]) -> dict[str, Any]:
    kernels: dict[str, dict[str, float]] = {}
    by_kernel = sorted(jobs_by_kernel(lines).items())
    everything = [sample for _, samples in by_kernel for sample in samples]
    plain = fit([one for one, _ in everything], [spent for _, spent in everything], [*TOTALS[:4]])
    for function, samples in by_kernel:
        found, cycles = [one for one, _ in samples], [spent for _, spent in samples]
        few = len(found) <= VERY_FEW
        result = like_others(plain, found, cycles) if few else fit_kernel(function, found, cycles)
        kernels[function] = rounded(result.terms)
        print(f"  {function:44s} {len(samples):5d}  {result.error:7.2%}  {' + '.join(result.terms)}")
    loops = [{"runs": 1.0, **line["loop"]} for line in lines]
    loop = fit(loops, [line["loop_cycles"] for line in lines], list(loops[0]))
    print(f"  {'the row loop':44s} {len(lines):5d}  {loop.error:7.2%}  {' + '.join(loop.terms)}")
    return {"loop": rounded(loop.terms), "kernels": kernels, "other": rounded(plain.terms)}


def rounded(terms: Mapping[str, float]) -> dict[str, float]:
    return {term: float(f"{cycles:.6g}") for term, cycles in terms.items()}


def check(lines: Sequence[Line], core: Mapping[str, Any]) -> list[float]:
    """How far the sum is from each network's cycles."""
    costs = CoreCosts(**core)
    errors = []
    for line in lines:
        kernels = sum(job_cycles(costs, job_of(data)) for data in line["jobs"])
        errors.append((kernels + loop_cycles(costs, Loop(**line["loop"]))) / line["cycles"] - 1)
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE}")
    arguments = parser.parse_args()
    lines = [json.loads(line) for path in arguments.files for line in path.read_text().splitlines()]
    cores: dict[str, Any] = {}
    for target in sorted({line["target"] for line in lines}):
        mine = [line for line in lines if line["target"] == target]
        print(target)
        cores[target] = fit_core(mine)
        errors = np.abs(check(mine, cores[target]))
        print(f"  {len(mine)} networks: median {np.median(errors):.2%}, worst {errors.max():.2%}")
    if arguments.write:
        networks = len({line["network"] for line in lines})
        about = (
            "Cycles, typical, of each term of each kernel (plan/kernel_costs.py), fitted by benchmarks/fit_costs.py to "
            f"{networks} networks that benchmarks/cost_samples.py ran on the emulated boards (docs/sweep.md)."
        )
        TABLE.write_text(json.dumps({"about": about, "cores": cores}, indent=1) + "\n")


if __name__ == "__main__":
    main()
