"""Measures the front end of cameras for its table of costs: every C function on every core, one run for each core.

python benchmarks/camera_costs.py [--write]

Prints the cycles of a pixel, of one that is only kept for the next row, and of a call; --write puts them into the
table that the report's estimate comes from.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from _measuring import calls_work
from cortado.base.system import KERNEL_FILES, KERNEL_FOLDERS
from cortado.base.target import BUNDLE_FLAGS, CortexM, CortexMTargetConfig
from cortado.plan.kernel_costs import TABLE

WIDTHS = (20, 84)  # pixels of a row
FORMATS = ("565", "888", "yuyv", "grey8")
LINE = 4 * 256  # bytes of a line
LINE_CYCLES = 60.0  # of MODEL_take_line, for a line and for a row: the same on all cores within a few percent
Case = tuple[str, int, bool]  # a function, the width of a row, whether the line is only kept


def cases() -> Iterator[Case]:
    for how in FORMATS:
        for grey in ("", "_grey"):
            for width in WIDTHS:
                yield f"cortado_camera_{how}_nearest{grey}", width, False
                yield f"cortado_camera_{how}_bilinear{grey}", width, False
                yield f"cortado_camera_{how}_bilinear{grey}", width, True


def _call(case: Case) -> str:
    function, width, kept = case
    camera = f"&{'grey' if function.endswith('_grey') else 'colour'}_{width}"
    more = "" if "nearest" in function else ", held, 0, 1" if kept else ", held, 100, 0"
    return f"    cortado_marker_step();\n    {function}({camera}, line{more}, {'NULL' if kept else 'row'});\n"


def source() -> str:
    """A model of the harness that is nothing but these calls."""
    numbers = np.random.default_rng(0).integers(0, 256, LINE)
    taps = ", ".join(f"{{{2 * x}, {1 + x * 3 % 255}}}" for x in range(max(WIDTHS)))
    cameras = "\n".join(
        f"static const cortado_camera_t {name}_{width} = {{columns, codes, {width}, {step}, 1, 0, {{77, 150, 29, 0}}}};"
        for name, step in (("colour", 3), ("grey", 1))
        for width in WIDTHS
    )
    return f"""#include "harness.h"
#include "markers.h"
#include "cortado_camera.h"

static const uint8_t line[] = {{{", ".join(map(str, numbers))}}};
static const cortado_tap_t columns[] = {{{taps}}};
static const int8_t codes[3 * 256];
static uint16_t held[3 * {max(WIDTHS)}];
static int8_t row[3 * {max(WIDTHS)}];
{cameras}

static int run(void *arena)
{{
    (void)arena;
{"".join(_call(case) for case in cases())}    return 0;
}}

const cortado_harness_model_t cortado_harness_model = {{
    .name = "camera", .run = run,
}};
"""


def measured(target: CortexMTargetConfig) -> dict[str, dict[str, float]]:
    """By function; two widths tell a pixel from a call."""
    sources = [KERNEL_FILES[f"cortado_camera_{how}.c"] for how in FORMATS]
    with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
        own = Path(temporary) / "model.c"
        own.write_text(source())
        flags = ["-std=c99", *BUNDLE_FLAGS]
        work = calls_work(target, [*sources, own], KERNEL_FOLDERS, flags, len(list(cases())))
    cycles = {case: work.step(number).cycles.typical for number, case in enumerate(cases())}
    found: dict[str, dict[str, float]] = {}
    few, many = WIDTHS
    for function, width, kept in cases():
        if width == few:
            pixel = (cycles[function, many, kept] - cycles[function, few, kept]) / (many - few)
            terms = found.setdefault(function, {})
            terms["kept_pixels" if kept else "pixels"] = round(pixel, 1)
            terms.setdefault("calls", round(max(cycles[function, few, kept] - few * pixel, 0.0), 1))
            terms["lines"] = LINE_CYCLES
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into the table")
    arguments = parser.parse_args()
    table = json.loads(TABLE.read_text())
    for core, costs in table["cores"].items():
        found = measured(CortexMTargetConfig(CortexM(core)))
        costs["kernels"] = dict(sorted({**costs["kernels"], **found}.items()))
        for function, terms in found.items():
            print(f"{core:14} {function:36} {terms}", flush=True)
    if arguments.write:
        TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
